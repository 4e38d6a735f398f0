"""The tables file: which tables Airflow writes and maintains, and how.

`load` never raises for the contents of the file: a valid entry becomes a `Table`, an invalid one becomes a line that names the entry, the
key and the value. A mistake in one entry leaves the other tables alone. A mistake in what all tables share (`defaults`, an unknown
top-level key) leaves no table: run without its defaults, a table could be purged earlier than its owner asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from indextables.airflow import checks
from indextables.airflow.checks import Fields
from indextables.errors import ConfigError
from indextables.operations.request import Interface, Option
from indextables.operations.verbs import MAINTENANCE
from indextables.operations.verbs import Write as WriteRequest

FILE_BYTES = 4 * 1024 * 1024
_SHARED = ("owner", "paused", "retries", "retry_delay", "max_retry_delay", "timeout")


@dataclass(frozen=True, slots=True)
class Write:
    """How the write DAG loads data."""

    source: str  # file or folder; a run may name another one
    format: str | None  # parquet, csv or json; None: by the name of the source
    mode: str | None  # append or overwrite
    partition_by: tuple[str, ...]
    schedule: str | None  # cron line or preset; None: by hand


@dataclass(frozen=True, slots=True)
class Table:
    """One valid entry: names, sizes, durations and settings are well-formed, local paths absolute."""

    name: str
    path: str
    root: Path  # relative sources of a run are taken against it
    description: str
    owner: str
    paused: bool  # whether the DAGs are paused when Airflow first sees them
    retries: int
    retry_delay: float  # seconds
    max_retry_delay: float  # seconds
    timeout: float  # seconds, of one try of one task
    write: Write | None
    maintain: Mapping[str, str | int]  # options of the maintenance verbs; what is left out is the table's own option, or the default
    conn_id: str
    conf: Mapping[str, str]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tables:
    """What a tables file holds: the valid entries, and one line for each problem."""

    file: Path
    tables: tuple[Table, ...]
    problems: tuple[str, ...]

    def check(self) -> None:
        """Raises one error that names every problem, if there is any."""
        if self.problems:
            raise ConfigError("; ".join(self.problems))


def tables_file(dags: Path, environ: Mapping[str, str] | None = None) -> Path:
    """`INDEXTABLES_TABLES` (relative to the project) if it is set, else `tables.yaml` beside the DAG files."""
    named = (os.environ if environ is None else environ).get("INDEXTABLES_TABLES")
    return dags.parent / named if named else dags / "tables.yaml"


def load(dags: Path, environ: Mapping[str, str] | None = None) -> Tables:
    """The tables of the project whose DAG files lie in `dags`; relative paths are taken against the folder above it."""
    dags = dags.resolve()
    file = tables_file(dags, environ)
    try:
        document = _read(file)
    except ConfigError as error:
        return Tables(file, (), (f"{file}: {error}",))
    problems: list[str] = []
    top = Fields(document, "", problems)
    defaults = _defaults(top.give("defaults"), problems)
    entries = top.give("tables")
    top.rest()
    if not isinstance(entries, list):
        problems.append(f"tables: {entries!r} is not a list of tables")
        entries = []
    tables, wrong = _entries(entries, {} if problems else defaults, dags.parent)
    if problems:
        wrong += [f"table {table.name!r}: has no DAGs until the file is corrected" for table in tables]
        tables = ()
    return Tables(file, tables, tuple(f"{file}: {problem}" for problem in [*problems, *wrong]))


def _entries(entries: list[Any], defaults: Mapping[str, Any], root: Path) -> tuple[tuple[Table, ...], list[str]]:
    """The valid entries, and one line for each problem of the others."""
    problems: list[str] = []
    tables: dict[str, Table] = {}
    for number, entry in enumerate(entries, start=1):
        table, wrong = _table(entry, defaults, root)
        if table is not None and table.name in tables:
            wrong = [f"name: {table.name!r} is taken by an earlier entry"]
        title = f"{entry['name']!r} (entry {number})" if isinstance(entry, Mapping) and entry.get("name") else f"entry {number}"
        problems += [f"table {title}: {problem}" for problem in wrong]
        if table is not None and not wrong:
            tables[table.name] = table
    return tuple(tables.values()), problems


class _Loader(yaml.SafeLoader):
    """Plain YAML that refuses a key given twice, of which PyYAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # refused by the loader itself
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read(file: Path) -> Any:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES:
        raise ConfigError(f"{len(data)} bytes are more than the {FILE_BYTES} a tables file may have")
    try:
        return yaml.load(data, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"is not YAML: {' '.join(str(error).split())}") from None


def _defaults(value: Any, problems: list[str]) -> dict[str, Any]:
    """The raw defaults, checked once here, so that a mistake is not reported again for every table."""
    if value is None:
        return {}
    fields = Fields(value, "defaults", problems)
    _common(fields)
    _maintain(fields.give("maintain"), "defaults.maintain", problems)
    _spark(fields.give("spark"), "defaults.spark", problems)
    fields.take("options", checks.options)
    fields.rest()
    return dict(value) if isinstance(value, Mapping) else {}


def _table(entry: Any, defaults: Mapping[str, Any], root: Path) -> tuple[Table | None, list[str]]:
    problems: list[str] = []
    fields = Fields({**entry, **_under(defaults, entry), **_merged(defaults, entry)} if isinstance(entry, Mapping) else entry, "", problems)
    name = fields.need("name", checks.name, "")
    path = fields.need("path", checks.path, "x")
    description = fields.take("description", checks.text, "") or ""
    common = _common(fields)
    write = fields.give("write")
    written = None if write is None else _write(write, problems)
    maintain = _maintain(fields.give("maintain"), "maintain", problems)
    conn_id, conf = _spark(fields.give("spark"), "spark", problems)
    options = fields.take("options", checks.options) or {}
    fields.rest()
    if problems:
        return None, problems
    return Table(name, _against(root, path), root, description, *common, written, maintain, conn_id, conf, options), []


def _under(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: defaults[key] for key in _SHARED if key in defaults and entry.get(key) is None}


def _merged(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The sections that an entry and the defaults may both have: the entry's values win one by one, a null takes the default."""
    merged: dict[str, Any] = {}
    for key in ("maintain", "spark", "options"):
        own, default = entry.get(key), defaults.get(key)
        if isinstance(default, Mapping) and (own is None or isinstance(own, Mapping)):
            merged[key] = {**default, **{name: value for name, value in (own or {}).items() if value is not None or name not in default}}
            if key == "spark" and isinstance(default.get("conf"), Mapping) and isinstance(merged[key].get("conf"), Mapping):
                merged[key]["conf"] = {**default["conf"], **merged[key]["conf"]}
    return merged


def _common(fields: Fields) -> tuple[str, bool, int, float, float, float]:
    owner = fields.take("owner", checks.name, "indextables") or ""
    paused = bool(fields.take("paused", checks.boolean, False))
    retries = fields.take("retries", checks.between(0, 20), 3)
    delay = fields.take("retry_delay", checks.some_time, "30s") or ""
    longest = fields.take("max_retry_delay", checks.some_time, "10m") or ""
    timeout = fields.take("timeout", checks.some_time, "1h") or ""
    seconds = [checks.duration_seconds(span) for span in (delay, longest, timeout)]
    return owner, paused, 3 if retries is None else retries, seconds[0], max(seconds[0], seconds[1]), seconds[2]


def _write(value: Any, problems: list[str]) -> Write:
    fields = Fields(value, "write", problems)
    write = Write(
        source=fields.need("source", checks.path, ""),
        format=fields.take("format", checks.option(WriteRequest.option("format"))),
        mode=fields.take("mode", checks.option(WriteRequest.option("mode"))),
        partition_by=fields.take("partition_by", checks.columns, ()) or (),
        schedule=fields.take("schedule", checks.schedule),
    )
    fields.rest()
    return write


def maintain_options() -> list[Option]:
    """The options of the maintenance verbs that a table may set; a dry run is for single runs only."""
    offered = [option for verb in MAINTENANCE for option in verb.options(Interface.AIRFLOW)]
    return [option for option in offered if option.name != "dry_run"]


def _maintain(value: Any, place: str, problems: list[str]) -> dict[str, Any]:
    fields = Fields({} if value is None else value, place, problems)
    taken = {option.name: fields.take(option.name, checks.option(option)) for option in maintain_options()}
    fields.rest()
    return {name: given for name, given in taken.items() if given is not None}


def _spark(value: Any, place: str, problems: list[str]) -> tuple[str, dict[str, str]]:
    fields = Fields({} if value is None else value, place, problems)
    conn_id = fields.take("conn_id", checks.connection, "spark_default") or ""
    conf = fields.take("conf", checks.spark_conf) or {}
    fields.rest()
    return conn_id, conf


def _against(root: Path, path: str) -> str:
    return path if "://" in path else str(root / path)
