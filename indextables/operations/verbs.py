"""The request of every verb: its options with their types, defaults and help texts, and the interfaces that offer them.

To add an option, add a field here and use it in the verb. The terminal, the jobs and Airflow's maintenance DAG pick it up automatically; a
test fails until the Python argument and the SQL clause exist. The write DAG's arguments are listed in `_write_dag` (airflow/factory.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from indextables import limits
from indextables.errors import InvalidArgument
from indextables.operations.executor import DELETIONS, Workload
from indextables.operations.request import (
    COLUMN,
    COLUMNS,
    DURATION,
    FLAG,
    FOLDER,
    PATH,
    PREDICATE,
    QUERY,
    SIZE,
    TEXT,
    Interface,
    Request,
    ValueType,
    choice,
    integer,
    option,
)

_PYTHON, _TERMINAL, _JOB, _SQL, _AIRFLOW = Interface.PYTHON, Interface.TERMINAL, Interface.JOB, Interface.SQL, Interface.AIRFLOW
_EVERYWHERE = _PYTHON | _TERMINAL | _JOB | _SQL | _AIRFLOW
_CSV = "A csv file must begin with a header of comma-separated column names; numbers, times, empty or repeated cells are not names."
_FORMAT = choice("csv", "json", "jsonl", "parquet")  # json and jsonl are the same: JSON Lines
WRITE_MODES = ("append", "overwrite")
_WHERE = "SQL predicate, such as \"level = 'ERROR' AND date >= '2024-01-01'\"."


def _dry_run(only: Interface | None = None) -> Any:
    return option(FLAG, "Report the plan and change nothing.", False, only=only)


# ---- writing


@dataclass(frozen=True, slots=True)
class Create(Request):
    """Create an empty table."""

    schema: str | None = option(PATH, "Schema as Spark's JSON (df.schema.json()).", only=_TERMINAL)
    like: str | None = option(PATH, f"Take the schema of this parquet, csv or jsonl file. {_CSV}", only=_TERMINAL)
    format: str | None = option(_FORMAT, "Format of --like, if its file name does not show it.", only=_TERMINAL)
    partition_by: Sequence[str] | None = option(COLUMNS, "Partition columns.")

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        if self.schema is not None and self.like is not None:
            raise InvalidArgument("schema and like cannot be combined")


@dataclass(frozen=True, slots=True)
class Write(Request):
    """Write rows into a table."""

    interfaces: ClassVar[Interface] = _PYTHON | _TERMINAL | _JOB | _AIRFLOW

    source: str | None = option(
        PATH,
        f"What to load. Terminal: a file, or - for standard input, whose format is detected. Jobs: a file, a folder or a pattern. {_CSV}",
        only=_TERMINAL | _JOB | _AIRFLOW,
        required=True,
        is_positional=True,
    )
    format: str | None = option(_FORMAT, "Format of the source, if its file name does not show it.", only=_TERMINAL | _JOB | _AIRFLOW)
    mode: str = option(choice(*WRITE_MODES), "Append the rows, or replace the table's rows.", "append", only=_JOB | _AIRFLOW)
    where: str | None = option(
        PREDICATE,
        "With mode overwrite: replace only the partitions that match.",
        only=_PYTHON | _TERMINAL | _JOB,
        names={_JOB: "replace_where"},
    )
    partition_by: Sequence[str] | None = option(COLUMNS, "Partition columns, if the table is created.", only=_TERMINAL | _JOB | _AIRFLOW)
    create: bool = option(
        FLAG,
        "Create the table with the schema of the source if it does not exist; a csv or jsonl column without values becomes a string.",
        False,
        only=_TERMINAL,
    )
    txn_app: str | None = option(TEXT, "With --txn-version: commit once under this name and number, however often it is retried.")
    txn_version: int | None = option(integer(-(2**63), 2**63 - 1), "With --txn-app: the number.")

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        if (self.txn_app is None) != (self.txn_version is None):
            raise InvalidArgument("txn_app and txn_version must be given together")
        if self.where is not None and self.mode != "overwrite":
            raise InvalidArgument("where requires mode overwrite")


def txn_options(txn: tuple[str, int] | None) -> dict[str, Any]:
    """The options of `Write` for the `txn` argument of the Python API. InvalidArgument unless it is (application, version)."""
    match txn:
        case None:
            return {}
        case (str(app), int(version)) if app and not isinstance(version, bool) and -(2**63) <= version < 2**63:
            return {"txn_app": app, "txn_version": version}
    raise InvalidArgument(f"txn {txn!r} is not a pair of an application name and a 64-bit integer")


@dataclass(frozen=True, slots=True)
class DropPartitions(Request):
    """Remove whole partitions from the table; purge deletes their files later."""

    interfaces: ClassVar[Interface] = _PYTHON | _TERMINAL | _SQL

    where: str = option(PREDICATE, "Partitions to remove; partition columns only.", required=True)


@dataclass(frozen=True, slots=True)
class Drop(Request):
    """Delete the table permanently, with its log and splits."""

    confirm: bool = option(FLAG, "Confirm the deletion of the table.", False)


# ---- maintenance


@dataclass(frozen=True, slots=True)
class MergeSplits(Request):
    """Combine small splits of a partition into larger ones."""

    interfaces: ClassVar[Interface] = _EVERYWHERE

    target_size: str | int | None = option(SIZE, "Target size of a merged split, such as 100M.", default_from="merge.targetSize")
    where: str | None = option(PREDICATE, "Merge only the partitions that match; partition columns only.")
    max_dest_splits: int | None = option(integer(1), "Maximum number of merged splits.")
    max_source_splits: int | None = option(integer(2), "Maximum number of splits per merge.", default_from="merge.maxSourceSplitsPerMerge")
    dry_run: bool = _dry_run(_EVERYWHERE & ~_SQL)


@dataclass(frozen=True, slots=True)
class Checkpoint(Request):
    """Write a checkpoint of the newest version, so that the table opens fast."""

    interfaces: ClassVar[Interface] = _EVERYWHERE

    compact: bool = option(FLAG, "Rewrite an Avro state without dead entries and small manifests.", False, only=_SQL)
    dry_run: bool = _dry_run(_EVERYWHERE & ~_SQL)


@dataclass(frozen=True, slots=True)
class Purge(Request):
    """Delete expired splits, leftovers of failed writes, and expired versions."""

    interfaces: ClassVar[Interface] = _EVERYWHERE
    workload: ClassVar[Workload] = DELETIONS

    older_than: str = option(
        DURATION, "Keep splits removed less than this long ago, so that younger versions stay readable.", limits.OLDER_THAN
    )
    log_retention: str | None = option(DURATION, "Keep version files for this long.", default_from="purge.txLogRetentionHours")
    dry_run: bool = _dry_run()


@dataclass(frozen=True, slots=True)
class TruncateHistory(Request):
    """Delete all versions from the log except the newest; older versions can no longer be read."""

    interfaces: ClassVar[Interface] = _PYTHON | _TERMINAL | _SQL

    dry_run: bool = _dry_run()


@dataclass(frozen=True, slots=True)
class Repair(Request):
    """Write a new log that contains the valid splits; the table itself is not changed."""

    interfaces: ClassVar[Interface] = _PYTHON | _TERMINAL | _SQL

    destination: str = option(
        FOLDER,
        "Folder for the new log, missing or empty. To use the new log, replace the table's _transaction_log folder with it.",
        required=True,
        is_positional=True,
    )


# ---- examining


@dataclass(frozen=True, slots=True)
class Verify(Request):
    """Compare every split with the log and its checksums."""

    deep: bool = option(FLAG, "Decode all rows too, and compare counts and bounds.", False)


@dataclass(frozen=True, slots=True)
class Doctor(Request):
    """Report problems of the table and the commands that fix them; change nothing."""


@dataclass(frozen=True, slots=True)
class Health(Request):
    """Report doctor's findings and the table's metrics."""

    interfaces: ClassVar[Interface] = _PYTHON | _TERMINAL | _JOB


@dataclass(frozen=True, slots=True)
class Describe(Request):
    """Show the table's version, sizes, schema and options."""


@dataclass(frozen=True, slots=True)
class DescribeState(Request):
    """Show the newest checkpoint: format, version, files, bytes, manifests and tombstones."""

    interfaces: ClassVar[Interface] = _PYTHON | _SQL


@dataclass(frozen=True, slots=True)
class DescribeLog(Request):
    """List the actions of the newest checkpoint and of the versions after it."""

    interfaces: ClassVar[Interface] = _PYTHON | _SQL

    include_all: bool = option(FLAG, "List the actions of every retained version.", False)


@dataclass(frozen=True, slots=True)
class InvalidateCache(Request):
    """Clear this process's cache of the log, for one table or for all."""

    interfaces: ClassVar[Interface] = _SQL


# ---- reading


@dataclass(frozen=True, slots=True)
class Files(Request):
    """List the live splits."""

    where: str | None = option(PREDICATE, _WHERE)


@dataclass(frozen=True, slots=True)
class History(Request):
    """List the versions, newest first."""


@dataclass(frozen=True, slots=True)
class Changes(Request):
    """List the splits that were added and removed between two versions."""

    start: int = option(integer(-1, 2**63 - 1), "Changes after this version; -1 includes the first version.", -1)
    end: int | None = option(integer(0, 2**63 - 1), "Up to and including this version, by default the newest.")


@dataclass(frozen=True, slots=True)
class Count(Request):
    """Count rows."""

    where: str | None = option(PREDICATE, _WHERE)


@dataclass(frozen=True, slots=True)
class Scan(Request):
    """Show rows."""

    where: str | None = option(PREDICATE, _WHERE)
    columns: Sequence[str] | None = option(COLUMNS, "Only these columns.")
    limit: int | None = option(integer(0), "Maximum number of rows.", only=_TERMINAL)


@dataclass(frozen=True, slots=True)
class Search(Request):
    """Find the best matching rows for a query."""

    query: str = option(QUERY, 'Such as "connection AND refused" or "message:(timeout OR refused)".', required=True, is_positional=True)
    columns: Sequence[str] | None = option(COLUMNS, "Only these columns.")
    where: str | None = option(PREDICATE, _WHERE)
    limit: int = option(integer(1, None), "Maximum number of rows.", 10)
    order_by: str | None = option(COLUMN, 'Order by this column instead of the score; "ts desc" for descending order.')
    offset: int = option(integer(0, None), "Number of rows to skip.", 0)
    snippets: Sequence[str] | None = option(COLUMNS, "Show the best passage of these columns with the matching words marked.")


@dataclass(frozen=True, slots=True)
class Aggregate(Request):
    """Compute counts, sums, averages and bounds of rows by group."""

    aggs: Mapping[str, Any] = option(
        ValueType("NAME=FUNCTION:COLUMN"),
        "Such as n=count:* or slow=max:latency_ms.",
        required=True,
        repeats=True,
        names={_TERMINAL: "agg"},
    )
    group_by: Sequence[Any] | Mapping[str, Any] | None = option(
        COLUMNS, "Columns, or hour=date_histogram:ts:1h, or ms=histogram:latency_ms:100."
    )
    where: str | None = option(PREDICATE, _WHERE)
    query: str | None = option(QUERY, "Only rows that match this search query.")


@dataclass(frozen=True, slots=True)
class Explain(Request):
    """Show how many splits a filter would read, and what excludes the others."""

    where: str | None = option(PREDICATE, _WHERE)
    query: str | None = option(QUERY, "A search query; it is checked, and opens every split that remains.")


MAINTENANCE: tuple[type[Request], ...] = (MergeSplits, Checkpoint, Purge)  # regular maintenance, in this order
REQUESTS: tuple[type[Request], ...] = tuple(
    one for one in globals().values() if isinstance(one, type) and issubclass(one, Request) and one is not Request
)
