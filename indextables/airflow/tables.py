"""The tables file: which tables Airflow writes and maintains, and how.

`load` never raises for the contents of the file: a valid entry becomes a `Table`, an invalid one a line that names the entry, the key and
the value. A mistake in one entry does not affect other tables. A mistake in what all tables share (`defaults`, an unknown top-level key)
disables all of them: without its defaults, a table could be purged earlier than its owner asked for.
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
from indextables.operations import verbs
from indextables.operations.request import FLAG, Interface, Option

FILE_BYTES = 4 * 1024 * 1024
_SHARED = ("owner", "paused", "retries", "retry_delay", "max_retry_delay", "timeout")


@dataclass(frozen=True, slots=True)
class Write:
    """How the write DAG loads data."""

    source: str  # file or folder; a run may set another one
    format: str | None  # parquet, csv or json; None: detected by the suffix of the source
    mode: str | None  # append or overwrite
    partition_by: tuple[str, ...]
    schedule: str | None  # cron expression or preset; None: manual runs only


@dataclass(frozen=True, slots=True)
class Table:
    """One valid entry: names, sizes, durations and settings are well-formed; local paths are absolute."""

    name: str
    path: str
    root: Path  # the project's folder, at which relative sources start
    description: str
    owner: str
    paused: bool  # whether the DAGs are paused when Airflow first sees them
    retries: int
    retry_delay: float  # seconds
    max_retry_delay: float  # seconds
    timeout: float  # seconds, of one try of one task
    write: Write | None
    maintain: Mapping[str, str | int]  # options of the maintenance verbs; for others the table's own options apply, or the defaults
    conn_id: str
    conf: Mapping[str, str]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tables:
    """The contents of a tables file: the valid entries, and one line for each problem."""

    file: Path
    tables: tuple[Table, ...]
    problems: tuple[str, ...]


def load(dags: Path, environ: Mapping[str, str] | None = None) -> Tables:
    """The tables of the project whose DAG files are in `dags`; relative paths start at the folder above it.

    The file is `INDEXTABLES_TABLES` if this is set, else `tables.yaml` beside the DAG files.
    """
    dags = dags.resolve()
    given = (os.environ if environ is None else environ).get("INDEXTABLES_TABLES")
    file = dags.parent / given if given else dags / "tables.yaml"
    try:
        document = _read(file)
    except ConfigError as error:
        return Tables(file, (), (f"{file}: {error}",))
    problems: list[str] = []
    top = Fields(document, "", problems)
    defaults = _defaults(top.take_raw("defaults"), problems)
    entries = top.take_raw("tables")
    top.report_unknown()
    if not isinstance(entries, list):
        problems.append(f"tables: {entries!r} is not a list of tables")
        entries = []
    tables, entry_problems = _entries(entries, {} if problems else defaults, dags.parent)
    if problems:
        entry_problems += [f"table {table.name!r}: has no DAGs until the file is corrected" for table in tables]
        tables = ()
    return Tables(file, tables, tuple(f"{file}: {problem}" for problem in [*problems, *entry_problems]))


def _entries(entries: list[Any], defaults: Mapping[str, Any], root: Path) -> tuple[tuple[Table, ...], list[str]]:
    """The valid entries, and one line for each problem of the others."""
    problems: list[str] = []
    tables: dict[str, Table] = {}
    for number, entry in enumerate(entries, start=1):
        table, entry_problems = _table(entry, defaults, root)
        if table is not None and table.name in tables:
            entry_problems = [f"name: {table.name!r} is already used by an earlier entry"]
        title = f"{entry['name']!r} (entry {number})" if isinstance(entry, Mapping) and entry.get("name") else f"entry {number}"
        problems += [f"table {title}: {problem}" for problem in entry_problems]
        if table is not None and not entry_problems:
            tables[table.name] = table
    return tuple(tables.values()), problems


class _Loader(yaml.SafeLoader):
    """Plain YAML that refuses duplicate keys, of which PyYAML would silently take the last."""

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
        raise ConfigError(f"has {len(data)} bytes, more than the {FILE_BYTES} allowed for a tables file")
    try:
        return yaml.load(data, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"is not YAML: {' '.join(str(error).split())}") from None


def _defaults(value: Any, problems: list[str]) -> dict[str, Any]:
    """The raw defaults, checked here so that a mistake is not reported again for every table."""
    if value is None:
        return {}
    fields = Fields(value, "defaults", problems)
    _common(fields)
    _maintain(fields.take_raw("maintain"), "defaults.maintain", problems)
    _spark(fields.take_raw("spark"), "defaults.spark", problems)
    fields.take("options", checks.options, None)
    fields.report_unknown()
    return dict(value) if isinstance(value, Mapping) else {}


def _table(entry: Any, defaults: Mapping[str, Any], root: Path) -> tuple[Table | None, list[str]]:
    problems: list[str] = []
    fields = Fields(_with_defaults(entry, defaults) if isinstance(entry, Mapping) else entry, "", problems)
    name = fields.take("name", checks.name, "", required=True)
    path = fields.take("path", checks.path, "x", required=True)
    description = fields.take("description", checks.text, "")
    common = _common(fields)
    write_section = fields.take_raw("write")
    write = None if write_section is None else _write(write_section, problems)
    maintain = _maintain(fields.take_raw("maintain"), "maintain", problems)
    conn_id, conf = _spark(fields.take_raw("spark"), "spark", problems)
    options = fields.take("options", checks.options, {})
    fields.report_unknown()
    if problems:
        return None, problems
    return Table(name, resolved(root, path), root, description, *common, write, maintain, conn_id, conf, options), []


def _with_defaults(entry: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with the defaults that it does not override; null overrides nothing. Sections are merged value by value."""
    merged = {**entry, **{key: defaults[key] for key in _SHARED if key in defaults and entry.get(key) is None}}
    for key in ("maintain", "spark", "options"):
        own, default = entry.get(key), defaults.get(key)
        if isinstance(default, Mapping) and (own is None or isinstance(own, Mapping)):
            merged[key] = {**default, **{name: value for name, value in (own or {}).items() if value is not None or name not in default}}
            if key == "spark" and isinstance(default.get("conf"), Mapping) and isinstance(merged[key].get("conf"), Mapping):
                merged[key]["conf"] = {**default["conf"], **merged[key]["conf"]}
    return merged


def _common(fields: Fields) -> tuple[str, bool, int, float, float, float]:
    owner = fields.take("owner", checks.name, "indextables")
    paused = fields.take("paused", checks.of_type(FLAG), False)
    retries = fields.take("retries", checks.between(0, 20), 3)
    delay = fields.take("retry_delay", checks.seconds, 30)
    max_delay = fields.take("max_retry_delay", checks.seconds, 600)
    timeout = fields.take("timeout", checks.seconds, 3600)
    return owner, paused, retries, delay, max(delay, max_delay), timeout


def _write(value: Any, problems: list[str]) -> Write:
    fields = Fields(value, "write", problems)
    write = Write(
        source=fields.take("source", checks.path, "", required=True),
        format=fields.take("format", checks.of_type(verbs.Write.option("format").type), None),
        mode=fields.take("mode", checks.of_type(verbs.Write.option("mode").type), None),
        partition_by=fields.take("partition_by", checks.columns, ()),
        schedule=fields.take("schedule", checks.schedule, None),
    )
    fields.report_unknown()
    return write


def maintain_options() -> list[Option]:
    """The options of the maintenance verbs that a table may set: all but the dry run, which a single run may ask for."""
    options = [option for verb in verbs.MAINTENANCE for option in verb.options(Interface.AIRFLOW)]
    return [option for option in options if option.name != "dry_run"]


def _maintain(value: Any, place: str, problems: list[str]) -> dict[str, Any]:
    fields = Fields({} if value is None else value, place, problems)
    values = {option.name: fields.take(option.name, checks.of_type(option.type), None) for option in maintain_options()}
    fields.report_unknown()
    return {name: value for name, value in values.items() if value is not None}


def _spark(value: Any, place: str, problems: list[str]) -> tuple[str, dict[str, str]]:
    fields = Fields({} if value is None else value, place, problems)
    conn_id = fields.take("conn_id", checks.connection, "spark_default")
    conf = fields.take("conf", checks.spark_conf, {})
    fields.report_unknown()
    return conn_id, conf


def resolved(root: str | Path, path: str) -> str:
    """An address as it is, and a path below the root unless it is absolute."""
    return path if "://" in path else str(Path(root) / path)
