"""All `spark.indextables.*` keys with type, default and meaning.

Precedence: call options, environment (`INDEXTABLES_MERGE_TARGET_SIZE` for `merge.targetSize`), table configuration, default.
Keys are case-insensitive and the prefix may be left out; an unknown key or an invalid value is refused by name.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.errors import ConfigError, InvalidArgument

PREFIX = "spark.indextables."
_VARIABLE = "INDEXTABLES_"  # prefix of environment variables
TYPEMAP_PREFIX = "indexing.typemap."
TOKENIZER_PREFIX = "indexing.tokenizer."
COLUMN_WORDS = {  # values of keys that end in a column's name; whether one fits the column is checked against the schema elsewhere
    TYPEMAP_PREFIX: ("string", "text", "json", "ip"),
    TOKENIZER_PREFIX: ("default", "raw", "en_stem", "whitespace", "ngram"),
}
COLUMN_PREFIXES = tuple(COLUMN_WORDS)

# Without flags, so that JSON schemas of forms can use the same patterns.
SIZE_PATTERN = r"^([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGTkmgt]?)(?:[iI]?[bB])?$"
DURATION_PATTERN = r"^([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([mM][sS]|[sSmMhHdDwW])$"
_SECRET = re.compile(
    r"(?i)secret|passw|passphrase|pwd|token(?!i[sz])|credential(?!s?.?provider)|(access|account|api|session|shared).?key|key.?file"
    r"|connection.?string|service.?account(?!.?name)|oauth|sas|private|signature"
    r"|(?:^|[._-])(?:sig|key|pass|pw|cred|creds|auth|jwt|bearer|authorization|cookie)$|(?-i:[a-z]Key$)"
)
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


@dataclass(frozen=True, slots=True)
class OptionType:
    name: str
    parse: Callable[[str], Any]  # the message of a ValueError describes valid values


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _merge_size(text: str) -> int:
    try:
        size = parse_size(text)
    except InvalidArgument:
        size = 0
    if size < limits.TARGET_SIZE_FLOOR:
        raise ValueError(f"a size of at least {limits.TARGET_SIZE_FLOOR // limits.MIB}M, such as 100M or 5G")
    return size


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except InvalidArgument:
        raise ValueError("a duration such as 30d or 12h") from None


def _seconds(text: str) -> float:
    """`30`, `30s`, `1m`."""
    try:
        found = parse_duration(text) / 1000 if re.search(r"[A-Za-z]$", text) else float(text)
    except (InvalidArgument, ValueError):
        found = 0.0
    if not 0.1 <= found <= 3600:
        raise ValueError("a duration from 100ms to 1h, such as 30s")
    return found


def _endpoint(text: str) -> str:
    if text and not re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+(?:/[A-Za-z0-9._~/\-]*)?", text):
        raise ValueError(
            "an address that begins with https:// or http://, such as https://s3.example.com:9000, without credentials or query"
        )
    return text.rstrip("/")


def _region(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{0,64}", text):
        raise ValueError("the name of a region, such as eu-central-1")
    return text


BOOLEAN = OptionType("boolean", _boolean)
SECONDS = OptionType("duration", _seconds)
ADDRESS = OptionType("address", _endpoint)
REGION = OptionType("region", _region)
SIZE = OptionType("size", _merge_size)
DURATION = OptionType("duration", _duration)


def whole(low: int, high: int) -> OptionType:
    def parse(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return OptionType("integer", parse)


def ratio(most: float = 999) -> OptionType:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", text) or float(text) > most:
            raise ValueError("a number such as 0.10" if most == 999 else f"a number from 0 to {most:g}, such as 0.45")
        return float(text)

    return OptionType("number", parse)


def one_of(*words: str) -> OptionType:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text.lower()

    return OptionType("word", parse)


@dataclass(frozen=True, slots=True)
class Key:
    name: str  # canonical, without the prefix
    kind: OptionType
    default: str
    meaning: str
    private: bool = False  # its value is never shown
    per_call: bool = False  # how this call reaches the store, not a property of the table: never stored in its configuration


# Defaults of a purge, whether it is called or follows a write.
_REMOVED_SPLIT_HOURS = str(parse_duration(limits.OLDER_THAN) // HOUR_MS)
_VERSION_HOURS = "720"

KEYS: tuple[Key, ...] = (
    Key(
        "cache.maxSize",
        SIZE,
        f"{limits.CACHE_BYTES // limits.GIB}G",
        "maximum size of the cached remote splits on this machine; the least recently used are evicted",
        per_call=True,
    ),
    Key("checkpoint.enabled", BOOLEAN, "true", "write checkpoints automatically"),
    Key("checkpoint.interval", whole(1, 1_000_000), "10", "versions between two automatic checkpoints"),
    Key("checkpoint.retention", whole(0, 1_000_000), "30", "versions below the newest checkpoint that are kept regardless of age"),
    Key("checkpoint.compression", one_of("snappy", "zstd", "gzip", "none"), "snappy", "compression of Parquet checkpoints"),
    Key("checkpoint.maxFileSize", whole(1, 2**40), "134217728", "maximum bytes of one file of a Parquet checkpoint"),
    Key("checkpoint.parallelism", whole(1, 64), "4", "version files read in parallel"),
    Key("checkpoint.read.timeoutSeconds", whole(1, 3600), "30", "give up reading versions if none arrives for this long"),
    Key("checkpoint.multiPart.enabled", BOOLEAN, "true", "split large JSON checkpoints into several files"),
    Key("checkpoint.actionsPerPart", whole(1, 10_000_000), "100000", "maximum actions in one file of a JSON checkpoint"),
    Key("logRetention.duration", whole(0, 2**53), "2592000000", "minimum age in ms before a version file may be deleted"),
    Key("checkpointRetention.duration", whole(0, 2**53), "7200000", "minimum age in ms before an old checkpoint may be deleted"),
    Key("cleanup.enabled", BOOLEAN, "true", "delete expired log files after a checkpoint"),
    Key("cleanup.failurePolicy", one_of("continue", "fail"), "continue", "whether a failed cleanup is a warning or an error"),
    Key("cleanup.dryRun", BOOLEAN, "false", "log what the cleanup would delete, and delete nothing"),
    Key("merge.targetSize", SIZE, "5G", "target size of merged splits"),
    Key("merge.skipSplitThreshold", ratio(1), "0.45", "splits of at least this share of the target size are not merged again"),
    Key("merge.maxSourceSplitsPerMerge", whole(2, 1_000_000), "1000", "maximum number of source splits per merge"),
    Key("merge.maxPasses", whole(1, 1000), "10", "maximum number of times a merge plans again on its own results"),
    Key("merge.batchSize", whole(0, 1_000_000), "0", "merge groups per commit; 0: at least one per worker, and up to 1G of sources"),
    Key("mergeOnWrite.enabled", BOOLEAN, "false", "merge after a write, before the write returns"),
    Key("mergeOnWrite.minSourceSplits", whole(2, 1_000_000), "10", "minimum number of source splits for a merge after a write"),
    Key("mergeOnWrite.targetSize", SIZE, "4G", "target size of a merge after a write"),
    Key("purgeOnWrite.enabled", BOOLEAN, "false", "purge after a write, before the write returns, if one of the two triggers applies"),
    Key("purgeOnWrite.triggerAfterMerge", BOOLEAN, "true", "purge if the write was followed by a merge"),
    Key(
        "purgeOnWrite.triggerAfterWrites",
        whole(0, 1_000_000),
        "0",
        "purge after the first write whose version reaches or passes a multiple of this number; 0 disables this",
    ),
    Key(
        "purgeOnWrite.splitRetentionHours",
        whole(0, 1_000_000),
        _REMOVED_SPLIT_HOURS,
        "hours that a purge after a write keeps removed splits",
    ),
    Key("purgeOnWrite.txLogRetentionHours", whole(0, 1_000_000), _VERSION_HOURS, "hours that a purge after a write keeps version files"),
    Key("purge.deleteRetries", whole(0, 100), "3", "retries of a failed deletion"),
    Key("purge.maxFilesToDelete", whole(1, 2**53), "1000000", "maximum number of splits that one purge deletes, largest first"),
    Key("purge.retentionCheckEnabled", BOOLEAN, "true", "refuse to purge splits that were live within the last 24 hours"),
    Key("purge.txLogRetentionHours", whole(0, 1_000_000), _VERSION_HOURS, "hours that purge keeps version files"),
    Key("skippedFiles.cooldownDuration", whole(0, 878_400), "24", "hours that merges leave a skipped split alone"),
    Key("skippedFiles.trackingEnabled", BOOLEAN, "true", "record damaged splits in the log so that merges skip them"),
    Key("state.format", one_of("avro", "json", "parquet"), "avro", "format of checkpoints"),
    Key("state.manifestFormat", one_of("json", "avro"), "json", "format of the manifest of an Avro state"),
    Key("state.compression", one_of("zstd", "snappy", "none"), "zstd", "compression of Avro manifests"),
    Key("state.compressionLevel", whole(1, 22), "3", "compression level of zstd"),
    Key("state.entriesPerManifest", whole(1, 10_000_000), "50000", "maximum number of files in one manifest"),
    Key("state.read.parallelism", whole(1, 64), "8", "manifests read in parallel"),
    Key(
        "state.schema.renormalizeThreshold",
        whole(0, 1_000_000),
        "5",
        "number of doc mapping references above which a checkpoint recomputes them",
    ),
    Key("state.compaction.tombstoneThreshold", ratio(), "0.10", "ratio of dead entries to live files above which a state is compacted"),
    Key("state.compaction.maxManifests", whole(1, 1_000_000), "20", "number of manifests above which a state is compacted"),
    Key(
        "state.compaction.largeRemoveThreshold",
        whole(0, 2**31 - 1),
        "2147483647",
        "number of removed files above which a state is compacted",
    ),
    Key("state.compaction.afterMerge", BOOLEAN, "true", "compact the state after a merge"),
    Key("state.retention.versions", whole(1, 1_000_000), "2", "number of newest states that are kept regardless of age"),
    Key("state.retention.hours", whole(0, 1_000_000), "168", "minimum age in hours before a state may be deleted"),
    Key("state.gc.minManifestAgeHours", whole(0, 1_000_000), "1", "minimum age in hours before an unreferenced manifest may be deleted"),
    Key(
        "split.rowStore.compression",
        one_of("lz4", "zstd"),
        "lz4",
        "compression of the rows in new splits; zstd is smaller and slower to read",
    ),
    Key(
        "write.targetSplitSize",
        SIZE,
        f"{limits.SPLIT_BYTES // limits.GIB}G",
        "compressed bytes of rows after which a write starts a new split",
    ),
    Key("write.targetSplitRows", whole(1, 100_000_000), str(limits.SPLIT_ROWS), "rows after which a write starts a new split"),
    Key("stats.truncation.maxLength", whole(1, 10_000), str(limits.STATS_CHARACTERS), "characters to which string statistics are cut"),
    Key("storage.takeOver", BOOLEAN, "false", "allow writing to a table of another program, which can no longer read it afterwards"),
    Key("transaction.cache.enabled", BOOLEAN, "true", "cache what was read of logs in memory"),
    Key("transaction.cache.expirationSeconds", whole(0, 86_400), "300", "maximum age of cached log contents in seconds"),
    Key("s3.endpoint", ADDRESS, "", "address of an S3-compatible server; empty for AWS", private=True, per_call=True),
    Key("s3.region", REGION, "", "region of the S3 server; empty: from the environment or profile", private=True, per_call=True),
    Key(
        "storage.singleWriter",
        BOOLEAN,
        "false",
        "declare that there is only one writer, and allow stores without an atomic create",
        per_call=True,
    ),
    Key("storage.timeout", SECONDS, "30s", "how long to wait for a store, retries included", per_call=True),
    Key("transaction.compression.enabled", BOOLEAN, "true", "compress version files and JSON checkpoints with gzip"),
    Key("transaction.retry.maxAttempts", whole(1, 1000), "10", "maximum attempts of a commit that loses to other writers"),
    Key("transaction.retry.baseDelayMs", whole(0, 3_600_000), "100", "first pause in ms between two attempts; doubles each time"),
    Key("transaction.retry.maxDelayMs", whole(0, 3_600_000), "5000", "longest pause in ms between two attempts"),
    Key("transaction.txnRetention", DURATION, "30d", "how long the transaction numbers of an application are remembered"),
    Key("transaction.useOptimized", BOOLEAN, "true", "read versions in parallel and through the cache"),
)
_BY_NAME = {key.name.lower(): key for key in KEYS}


def default_of(name: str) -> str:
    """The default of an option, as it is written."""
    return _BY_NAME[name.lower()].default


@dataclass(frozen=True, slots=True)
class Config:
    """The validated options of one call; options that are not set come from the environment, the table, or the default."""

    options: Mapping[str, str] = field(repr=False)  # canonical names
    table: Mapping[str, str] = field(repr=False)  # canonical names
    environment: Mapping[str, str] = field(repr=False)
    bad: Mapping[str, str] = field(default_factory=dict, repr=False)  # name -> error, for invalid values of the table, which are ignored

    @classmethod
    def of(cls, options: Mapping[str, Any] | None = None, table: Mapping[str, str] | None = None) -> Config:
        """ConfigError for an invalid value of the caller or the environment.

        Other programs write the table's configuration, too, so its unknown keys and invalid values are ignored; `check` refuses the latter.
        """
        given = checked_options(options or {})
        environment = _environment()
        valid: dict[str, str] = {}
        bad: dict[str, str] = {}
        for key, text in (table or {}).items():
            name = _known_name(key)
            if name is None or name in _PER_CALL:
                continue
            try:
                _check(name, text, "table configuration")
                valid[name] = text
            except ConfigError as error:
                if name not in given and environment_name(name) not in environment:
                    bad[name] = str(error)
        return cls(given, valid, environment, bad)

    def with_table(self, table: Mapping[str, str]) -> Config:
        return Config.of(self.options, table)

    def without_invalid_column_options(self, misfits: Mapping[str, str]) -> Config:
        """Values of the table that do not fit its columns, by name, are ignored like other bad values; those of the call stay."""
        bad = {name: f"table configuration {why}" for name, why in misfits.items() if name in self.table and name not in self.options}
        return replace(self, table={name: text for name, text in self.table.items() if name not in bad}, bad={**self.bad, **bad})

    def get(self, name: str) -> Any:
        key = _BY_NAME[name.lower()]
        text, source = self.found(key)
        return _parsed(key, text, source)

    def check(self) -> None:
        """ConfigError if the table has an invalid value: for operations that write or delete, which must not guess what was meant."""
        for name, problem in self.bad.items():
            raise ConfigError(f"{problem}; pass {name} as an option of this call to override it")

    @property
    def warnings(self) -> list[str]:
        """One line per invalid value of the table, with the value that is used instead."""
        found = []
        for name, problem in self.bad.items():
            key = _BY_NAME.get(name.lower())
            found.append(f"{problem}: it is ignored" if key is None else f"{problem}: the default {key.default!r} is used")
        return found

    def found(self, key: Key) -> tuple[str, str]:
        """The effective text of a key, and its source."""
        for source, text in (
            ("option", self.options.get(key.name)),
            ("environment", self.environment.get(environment_name(key.name))),
            ("table configuration", self.table.get(key.name)),
        ):
            if text is not None:
                return text, source
        return key.default, "default"

    def is_set(self, name: str) -> bool:
        """Whether the value was set explicitly, even if to the default."""
        return self.found(_BY_NAME[name.lower()])[1] != "default"

    def of_columns(self, prefix: str) -> dict[str, str]:
        """The values of keys that begin with `prefix` and end in a column's name, by column."""
        merged = {**self.table, **self.options}
        return {key[len(prefix) :]: word for key, word in merged.items() if key.startswith(prefix)}


def is_secret(key: str) -> bool:
    """Whether an option or Spark setting of this name holds a credential, which must not appear in options, reports or command lines.

    The options of this module never do, whatever their name: it may end in the name of a column.
    """
    return _known_name(key) is None and _SECRET.search(key) is not None


def checked_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options under their canonical names, with values as text; ConfigError if one is unknown or invalid."""
    checked: dict[str, str] = {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"options must be a mapping of keys to values, not {type(options).__name__!r}")
    for key, value in options.items():
        if not isinstance(key, str):
            raise ConfigError(f"option {key!r} is not the name of a key")
        name = _known_name(key)
        if is_secret(key):
            raise ConfigError(f"option {key!r} is refused: credentials come from the environment, a profile or the instance")
        if name is None:
            raise ConfigError(f"unknown option {key!r}{_nearest(key)}; `indextables config` lists them")
        checked[name] = str(value).lower() if isinstance(value, bool) else str(value)
        _check(name, checked[name], "option")
    return checked


def table_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The validated options that may be stored in a table's configuration."""
    return {name: text for name, text in checked_options(options).items() if name not in _PER_CALL}


def environment_name(name: str) -> str:
    """`INDEXTABLES_MERGE_TARGET_SIZE` for `merge.targetSize`."""
    return _VARIABLE + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace(".", "_").upper()


def _letters(name: str) -> str:
    return re.sub(r"[._]", "", name).lower()


_PER_CALL = frozenset(key.name for key in KEYS if key.per_call)
_BY_LETTERS = {_letters(key.name): key for key in KEYS}


def _environment() -> dict[str, str]:
    """Our environment variables, validated. An empty variable counts as not set, since compose files leave them so.

    Underscores within words are optional: variables are matched by their letters, and returned under `environment_name`.
    """
    ours = [name for name in os.environ if name.startswith(_VARIABLE)]  # `items` would decode the values of all variables, for every read
    found = {name: text for name in ours if (text := os.environ.get(name))}
    for name, text in tuple(found.items()):
        key = _BY_LETTERS.get(_letters(name.removeprefix(_VARIABLE)))
        if key is not None:
            _parsed(key, text, "environment")
            found.setdefault(environment_name(key.name), text)
    return found


def check_configuration(configuration: Mapping[str, str]) -> None:
    """ConfigError if a table's configuration has an invalid value for one of our keys."""
    for key, text in configuration.items():
        name = _known_name(key)
        if name is not None:
            _check(name, text, "table configuration")


def _nearest(key: str) -> str:
    """A suggestion for an unknown key: a key that ends with it, or else one with a similar spelling."""
    bare = key.lower().removeprefix(PREFIX)
    names = {name.lower(): name for name in (*(known.name for known in KEYS), *(f"{prefix}<column>" for prefix in COLUMN_PREFIXES))}
    near = [name for name in names if name.endswith(f".{bare}")] or difflib.get_close_matches(bare, names, n=1, cutoff=0.5)
    return f", did you mean {names[near[0]]!r}?" if near else ""


def _known_name(key: str) -> str | None:
    bare = key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key
    for prefix in COLUMN_PREFIXES:
        if bare.lower().startswith(prefix) and len(bare) > len(prefix):
            return prefix + bare[len(prefix) :]
    known = _BY_NAME.get(bare.lower())
    return known.name if known else None


def _check(name: str, text: str, source: str) -> None:
    """ConfigError if the value of a canonical name is invalid."""
    words = next((words for prefix, words in COLUMN_WORDS.items() if name.startswith(prefix)), None)
    if words is None:
        _parsed(_BY_NAME[name.lower()], text, source)
    elif text not in words:
        raise ConfigError(f"{source} {name} = {text!r} is not one of {', '.join(words)}")


def _parsed(key: Key, text: str, source: str) -> Any:
    try:
        return key.kind.parse(text)
    except ValueError as expected:
        if key.private:
            raise ConfigError(f"{source} {key.name} is not {expected}") from None
        raise ConfigError(f"{source} {key.name} = {text!r} is not {expected}") from None
