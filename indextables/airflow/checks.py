"""Strict reading of one mapping of the tables file: each value is taken by its key and checked; other keys are reported as unknown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from indextables.airflow.command import checked_option_key, plain_text, scalar
from indextables.config import checked_options, parse_duration
from indextables.errors import IndexTablesError, InvalidArgument
from indextables.limits import PATH_CHARACTERS
from indextables.operations.request import SIZE, ValueType

T = TypeVar("T")
D = TypeVar("D")

_NAME = re.compile(r"[a-z0-9_]{1,100}")  # Airflow allows 250 characters in an id; ours add a prefix and a suffix
_CONNECTION = re.compile(r"[\w.-]{1,200}", re.ASCII)
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_CRON = re.compile(r"@(once|continuous|hourly|daily|weekly|monthly|quarterly|yearly)|[0-9A-Za-z*/,?#L-]+( [0-9A-Za-z*/,?#L-]+){4}")
_MAX_SECONDS = 10 * 365 * 86400  # ten years, far below the limit of timedelta

# The Spark settings that a table may set. Everything that loads code or passes credentials (jars, packages, class paths, Java options,
# Python files, extensions, catalogs, secrets) belongs to the Spark connection or to spark-defaults.conf, which this file cannot change.
_SPARK_CONF = re.compile(
    r"spark\.("
    r"cores\.max|default\.parallelism|log\.level|network\.timeout|rpc\.message\.maxSize|scheduler\.mode|ui\.enabled"
    r"|driver\.(memory|memoryOverhead|memoryOverheadFactor|cores|maxResultSize|host|port|bindAddress|blockManager\.port)"
    r"|executor\.(memory|memoryOverhead|memoryOverheadFactor|cores|instances|heartbeatInterval)"
    r"|dynamicAllocation\.(enabled|minExecutors|maxExecutors|initialExecutors|executorIdleTimeout)"
    r"|memory\.(fraction|storageFraction)"
    r"|speculation(\.(interval|multiplier|quantile))?"
    r"|sql\.(shuffle\.partitions|session\.timeZone|files\.maxPartitionBytes|adaptive\.[A-Za-z.]+|execution\.arrow\.maxRecordsPerBatch)"
    r"|task\.(cpus|maxFailures)"
    r")"
)


_NOT_A_MAPPING: Mapping[Any, Any] = {}  # replaces a value that is not a mapping, so that this is reported only once


class Problem(IndexTablesError):
    """A value of the tables file is invalid."""

    exit_code = 78


class Fields:
    """The values of one mapping, taken one by one. Errors are added to `problems`; `report_unknown` adds the keys that were not taken."""

    def __init__(self, value: Any, place: str, problems: list[str]) -> None:
        self._place = place
        self._problems = problems
        self._taken: set[str] = set()
        self._values: Mapping[Any, Any] = value if isinstance(value, Mapping) else _NOT_A_MAPPING
        if not isinstance(value, Mapping):
            problems.append(f"{place or 'the entry'}: {value!r} is not a mapping")

    def take(self, key: str, check: Callable[[Any], T], default: D, *, required: bool = False) -> T | D:
        """The checked value of `key`; `default` if it is missing or null, which is a problem if it is `required`, or invalid."""
        self._taken.add(key)
        value = self._values.get(key)
        if value is None:
            if required and self._values is not _NOT_A_MAPPING:
                self._problems.append(f"{self._name(key)}: is missing")
            return default
        try:
            return check(value)
        except IndexTablesError as error:
            self._problems.append(f"{self._name(key)}: {error}")
            return default

    def take_raw(self, key: str) -> Any:
        """The unchecked value of `key`, or None."""
        self._taken.add(key)
        return self._values.get(key)

    def report_unknown(self) -> None:
        for key in self._values:
            if key not in self._taken:
                known = ", ".join(sorted(self._taken))
                self._problems.append(f"{self._name(str(key))}: is not a known key (known: {known})")

    def _name(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key


def text(value: Any) -> str:
    """One line of text without a template, since values of this file are never rendered."""
    if not isinstance(value, str) or not value:
        raise Problem(f"{value!r} is not a non-empty string")
    if len(value) > PATH_CHARACTERS:
        raise Problem(f"{value[:40]!r}… is longer than {PATH_CHARACTERS} characters")
    if _TEMPLATE.search(value):
        raise Problem(f"{value!r} contains a template, which is not supported in this file")
    return plain_text("the text", value)


def _matching(pattern: re.Pattern[str], problem: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise Problem(f"{value!r} {problem}")
        return value

    return check


name = _matching(_NAME, "is not a name of 1 to 100 characters a-z, 0-9 and _")
schedule = _matching(_CRON, "is neither a cron expression of five fields nor a preset such as @daily")
connection = _matching(_CONNECTION, "is not the id of a connection")
_spark_key = _matching(_SPARK_CONF, "is not a Spark setting that a table may set; set it in the Spark connection or spark-defaults.conf")


def path(value: Any) -> str:
    checked = text(value)
    if checked[0] in "-~":
        raise Problem(f"{value!r} begins with {checked[0]!r}")
    return checked


def of_type(kind: ValueType) -> Callable[[Any], Any]:
    """The check of a value for an option of this type."""

    def check(value: Any) -> Any:
        try:
            kind.check("", value)
        except InvalidArgument as error:
            raise Problem(str(error).strip()) from None
        if kind is SIZE:
            return str(value)
        return text(value) if kind.form["type"] == "string" else value

    return check


def seconds(value: Any) -> float:
    """The length of a duration of more than zero and at most ten years."""
    try:
        found = parse_duration(value) / 1000
    except InvalidArgument:
        raise Problem(f"{value!r} is not a duration such as 30m, 12h or 7d") from None
    if found > _MAX_SECONDS:
        raise Problem(f"{value!r} is longer than ten years")
    if found <= 0:
        raise Problem(f"{value!r} is not longer than zero")
    return found


def between(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise Problem(f"{value!r} is not a whole number from {low} to {high}")
        return value

    return check


def columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(column, str) and column for column in value):
        raise Problem(f"{value!r} is not a list of column names")
    for column in value:
        if "," in text(column):
            raise Problem(f"{column!r} contains a comma")
    if len(set(value)) != len(value):
        raise Problem(f"{list(value)!r} names a column twice")
    return tuple(value)


def spark_conf(value: Any) -> dict[str, str]:
    return {_spark_key(key): _scalar(key, one) for key, one in _mapping(value).items()}


def options(value: Any) -> dict[str, str]:
    given = {checked_option_key(key): _scalar(key, one) for key, one in _mapping(value).items()}
    checked_options(given)  # reports unknown or bad options before a job starts
    return given


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise Problem(f"{value!r} is not a mapping")
    return value


def _scalar(key: str, value: Any) -> str:
    if not isinstance(value, (str, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        raise Problem(f"the value {value!r} of {key!r} is not a string, a number or a boolean")
    return text(scalar(value))
