"""Options of the data source, checked when the source is created, before anything is read or written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from indextables.config import COLUMN_PREFIXES, checked_options, parse_size
from indextables.errors import ConfigError, InvalidArgument

READING = ("version", "where", "query", "columns")
WRITING = ("partition_by", "replace_where", "partition_overwrite_mode", "target_split_size", "txn_app", "txn_version")
OVERWRITE_MODES = ("static", "dynamic")  # as Spark spells them in `spark.sql.sources.partitionOverwriteMode`
# Spark passes every key in lower case; partitionBy, replaceWhere and txnAppId are familiar from other formats.
_OWN = {name.replace("_", ""): name for name in ("path", *READING, *WRITING)} | {"txnappid": "txn_app"}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    path: str
    version: int | None = None
    where: str | None = None
    query: str | None = None
    columns: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    partition_overwrite_mode: str | None = None  # None: as the session says
    target_split_size: int | None = None
    txn: tuple[str, int] | None = None
    given: frozenset[str] = frozenset()  # names of the source options that were set
    config: Mapping[str, str] = field(default_factory=dict)  # spark.indextables.* keys, under their canonical names

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """The parsed options; ConfigError names an option that is unknown or has a bad value."""
        names = {key: _OWN.get(key.lower().replace("_", "")) for key in options}
        own = {name: options[key] for key, name in names.items() if name is not None}
        if "path" not in own:
            raise ConfigError("option 'path' is missing: name the table, for example load('/data/logs'); a list of paths is not supported")
        return cls(
            path=own["path"],
            version=_number("version", own.get("version")),
            where=own.get("where"),
            query=own.get("query"),
            columns=_names("columns", own.get("columns")),
            partition_by=_names("partition_by", own.get("partition_by")),
            replace_where=own.get("replace_where"),
            partition_overwrite_mode=_overwrite_mode(own.get("partition_overwrite_mode"), own.get("replace_where")),
            target_split_size=split_size(own.get("target_split_size")),
            txn=_txn(own.get("txn_app"), _number("txn_version", own.get("txn_version"))),
            given=frozenset(own),
            config=_checked({key: options[key] for key, name in names.items() if name is None}),
        )

    def refuse(self, names: tuple[str, ...], action: str) -> None:
        """ConfigError if one of `names`, which do not apply to reading or writing, was set."""
        for name in names:
            if name in self.given:
                raise ConfigError(f"option {name!r} does not apply when {action} a table; remove it")

    def config_for(self, schema: pa.Schema) -> dict[str, str]:
        """The configuration, with columns in `indexing.typemap.<column>` named as in the table, since Spark lower-cases the keys."""
        return {_with_column_name(key, schema): value for key, value in self.config.items()}


def _with_column_name(key: str, schema: pa.Schema) -> str:
    prefix = next((prefix for prefix in COLUMN_PREFIXES if key.startswith(prefix)), None)
    column = key.removeprefix(prefix or "")
    matches = [name for name in schema.names if name.lower() == column.lower()]
    return key if prefix is None or column in schema.names or len(matches) != 1 else prefix + matches[0]


def split_size(given: str | int | None) -> int | None:
    """The target split size in bytes; InvalidArgument if it is malformed."""
    if given is None:
        return None
    size = parse_size(given)
    if size < 1:
        raise InvalidArgument(f"target split size {given!r} is below the minimum of 1 byte")
    return size


def _checked(rest: Mapping[str, str]) -> dict[str, str]:
    try:
        return checked_options(rest)
    except ConfigError as error:
        raise ConfigError(f"{error}; options of the data source are {', '.join(('path', *READING, *WRITING))}") from None


def _names(option: str, text: str | None) -> tuple[str, ...] | None:
    """The names in `a,b`, or in a JSON list if one has a comma."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"option {option} = {text!r} is not a list of column names")
        return tuple(names)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _number(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"option {option} = {text!r} is not a whole number") from None


def _overwrite_mode(text: str | None, replace_where: str | None) -> str | None:
    if text is None:
        return None
    if text.lower() not in OVERWRITE_MODES:
        raise ConfigError(f"option partitionOverwriteMode = {text!r} is not {' or '.join(OVERWRITE_MODES)}")
    if text.lower() == "dynamic" and replace_where is not None:
        raise ConfigError("options replace_where and partitionOverwriteMode = 'dynamic' exclude each other; set one of them")
    return text.lower()


def _txn(app: str | None, version: int | None) -> tuple[str, int] | None:
    if (app is None) != (version is None):
        raise ConfigError("options txn_app and txn_version must be given together")
    return None if app is None or version is None else (app, version)
