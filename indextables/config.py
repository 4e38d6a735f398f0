"""Every `spark.indextables.*` key: type, default and meaning in one table.

Order of authority: call options, environment (`INDEXTABLES_MERGE_TARGET_SIZE` for `merge.targetSize`), table configuration, default.
Keys are case-insensitive and the prefix may be left out; an unknown key or a bad value is refused by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from indextables import limits
from indextables.errors import ConfigError, InvalidArgument

PREFIX = "spark.indextables."
TYPEMAP_PREFIX = "indexing.typemap."

# Spelt without flags, so that forms which check by JSON schema can use the same.
SIZE_PATTERN = r"^([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGTkmgt]?)(?:[iI]?[bB])?$"
DURATION_PATTERN = r"^([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([mM][sS]|[sSmMhHdDwW])$"
_SIZE_UNITS = {"": 1, "K": limits.KIB, "M": limits.MIB, "G": limits.GIB, "T": 1024 * limits.GIB}
_DURATION_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_size(text: str | int) -> int:
    """Bytes of `100M`, `1.5G`, `4096`; InvalidArgument names what is not a size."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(SIZE_PATTERN, text) if isinstance(text, str) else None
    if match is None:
        raise InvalidArgument(f"{text!r} is not a size; write it like 100M, 1.5G or 4096")
    return int(float(match[1]) * _SIZE_UNITS[match[2].upper()])


def parse_duration(text: str) -> int:
    """Milliseconds of `7d`, `36h`, `90s`; InvalidArgument names what is not a duration."""
    match = re.fullmatch(DURATION_PATTERN, text) if isinstance(text, str) else None
    if match is None:
        raise InvalidArgument(f"{text!r} is not a duration; write it like 7d, 36h, 15m or 30s")
    return int(float(match[1]) * _DURATION_UNITS[match[2].lower()])


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"-?\d{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


def _merge_size(text: str) -> int:
    try:
        size = parse_size(text)
    except InvalidArgument:
        size = 0
    if size < limits.MIB:
        raise ValueError("a size of at least 1M, such as 100M or 5G")
    return size


@dataclass(frozen=True, slots=True)
class Key:
    name: str  # without the prefix, as documented
    parse: Callable[[str], Any]  # ValueError says what would be right
    default: str
    meaning: str


KEYS: tuple[Key, ...] = (
    Key("checkpoint.parallelism", _integer(1, 256), "4", "how many version files are read at a time"),
    Key("checkpoint.read.timeoutSeconds", _integer(1, 86_400), "30", "reading version files ends when none arrived for this long"),
    Key("merge.targetSize", _merge_size, "5G", "how large merged splits may become"),
    Key("purge.retentionCheckEnabled", _boolean, "true", "keep splits that no version knows for at least 24 hours"),
    Key("stats.truncation.maxLength", _integer(1, 10_000), str(limits.STATS_CHARACTERS), "characters of a text's min and max in the log"),
    Key("transaction.cache.enabled", _boolean, "true", "what was read of a log is kept in memory for the next reader in this process"),
    Key("transaction.cache.expirationSeconds", _integer(0, 86_400 * 365), "300", "how long it is kept at most"),
    Key("transaction.compression.enabled", _boolean, "true", "version files and checkpoints are gzip"),
    Key("transaction.retry.maxAttempts", _integer(1, 1000), "10", "how often a commit is tried when others are faster"),
    Key("transaction.retry.baseDelayMs", _integer(0, 3_600_000), "100", "the first pause between two tries, doubled each time"),
    Key("transaction.retry.maxDelayMs", _integer(0, 3_600_000), "5000", "the longest pause between two tries"),
    Key("transaction.useOptimized", _boolean, "true", "read logs in parallel and through the cache; false: one file after the other"),
)
_BY_NAME = {key.name.lower(): key for key in KEYS}


@dataclass(frozen=True, slots=True)
class Config:
    """Checked options of one call; what is not set comes from the environment, the table, the default."""

    options: Mapping[str, str]  # canonical names
    table: Mapping[str, str]  # canonical names
    environment: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, Any] | None = None, table: Mapping[str, str] | None = None) -> Config:
        """`options` are refused if unknown or bad. The table's configuration is other programs' too: what we do not know stays."""
        known = {name: value for key, value in (table or {}).items() if (name := _known_name(key)) is not None}
        environment = {k: v for k, v in os.environ.items() if k.startswith("INDEXTABLES_")}
        return cls(checked_options(options or {}), known, environment)

    def with_table(self, table: Mapping[str, str]) -> Config:
        return Config.of(self.options, table)

    def get(self, name: str) -> Any:
        key = _BY_NAME[name.lower()]
        for source, text in (
            ("option", self.options.get(key.name)),
            ("environment", self.environment.get(environment_name(key.name))),
            ("table configuration", self.table.get(key.name)),
        ):
            if text is not None:
                return _parsed(key, text, source)
        return key.parse(key.default)

    def typemap(self) -> dict[str, str]:
        """How columns are to be indexed: column -> word."""
        merged = {**self.table, **self.options}
        return {key[len(TYPEMAP_PREFIX) :]: word for key, word in merged.items() if key.startswith(TYPEMAP_PREFIX)}


def checked_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options under their canonical names, with texts for values; ConfigError for what is unknown or bad."""
    checked: dict[str, str] = {}
    for key, value in options.items():
        name = _known_name(key)
        if name is None:
            raise ConfigError(f"unknown option {key!r}; known are {', '.join(k.name for k in KEYS)} and {TYPEMAP_PREFIX}<column>")
        checked[name] = str(value).lower() if isinstance(value, bool) else str(value)
        if not name.startswith(TYPEMAP_PREFIX):
            _parsed(_BY_NAME[name.lower()], checked[name], "option")
    return checked


def environment_name(name: str) -> str:
    """`INDEXTABLES_MERGE_TARGET_SIZE` for `merge.targetSize`."""
    return "INDEXTABLES_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace(".", "_").upper()


def _known_name(key: str) -> str | None:
    bare = key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key
    if bare.lower().startswith(TYPEMAP_PREFIX) and len(bare) > len(TYPEMAP_PREFIX):
        return TYPEMAP_PREFIX + bare[len(TYPEMAP_PREFIX) :]
    known = _BY_NAME.get(bare.lower())
    return known.name if known else None


def _parsed(key: Key, text: str, source: str) -> Any:
    try:
        return key.parse(text)
    except ValueError as right:
        raise ConfigError(f"{source} {key.name} = {text!r} is not {right}") from None
