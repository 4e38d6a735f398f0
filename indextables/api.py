"""The Python door: create, open, and a handle with one method per verb."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from indextables.actions import Action, Metadata, Protocol
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.errors import InvalidArgument
from indextables.operations import checkpoint, commit, create, merge_splits, purge, read, upgrade_protocol, write
from indextables.operations.report import Report
from indextables.table.changes import read_changes
from indextables.table.context import TableContext
from indextables.table.files import public_table
from indextables.table.history import read_history, version_at
from indextables.table.snapshot import Snapshot

Path = str | os.PathLike[str]
Options = Mapping[str, Any]

_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("operation", pa.string()),
        ("num_added", pa.int64()),
        ("num_removed", pa.int64()),
        ("rows_added", pa.int64()),
        ("bytes_added", pa.int64()),
        ("user", pa.string()),
        ("engine", pa.string()),
        ("job_id", pa.string()),
    ]
)


class Table:
    """A table at one version, which is what reading shows.

    Writing and maintenance start from the newest version and leave the handle at what they committed.
    """

    def __init__(self, context: TableContext, snapshot: Snapshot) -> None:
        self._context = context
        self._snapshot = snapshot

    @property
    def path(self) -> str:
        return str(self._context.root)

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def schema(self) -> pa.Schema:
        return self._snapshot.schema

    @property
    def partition_columns(self) -> list[str]:
        return list(self._snapshot.partition_columns)

    @property
    def protocol(self) -> Protocol:
        return self._snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        return self._snapshot.metadata

    @property
    def configuration(self) -> dict[str, str]:
        return dict(self._snapshot.metadata.configuration)

    @property
    def warnings(self) -> list[str]:
        """What reading this version had to work around: a broken checkpoint, a gap."""
        return list(self._snapshot.warnings)

    def refresh(self, max_staleness: float = 0) -> Table:
        """Moves this handle to the newest version, or to one that was the newest no longer ago than `max_staleness` seconds."""
        self._snapshot = self._context.newest(self._snapshot, _seconds(max_staleness))
        return self

    def files(self, where: str | None = None) -> pa.Table:
        """The live splits, of which `where` leaves those that may hold a matching row."""
        return public_table(self._snapshot, read.bind(self._snapshot, where))

    def history(self) -> pa.Table:
        """Every retained version, newest first."""
        entries = sorted(read_history(self._context.log), key=lambda entry: -entry.version)
        rows = [
            {name: getattr(entry, name) for name in _HISTORY.names if name != "timestamp"} | {"timestamp": entry.timestamp_ms}
            for entry in entries
        ]
        return pa.Table.from_pylist(rows, schema=_HISTORY)

    def changes(self, start: int, end: int | None = None) -> pa.Table:
        """The splits that came and went after version `start`, up to and with `end`."""
        return read_changes(self._context.log, start, end, self._snapshot.version)

    @property
    def log(self) -> TableLog:
        """The transaction log's own door."""
        return TableLog(self)

    def scan(self, where: str | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        return read.scan(self._context, self._snapshot, where, columns)

    def count(self, where: str | None = None) -> int:
        return read.count(self._context, self._snapshot, where)

    def search(
        self,
        query: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int = 10,
        order_by: str | None = None,
        offset: int = 0,
    ) -> pa.Table:
        """The best rows for a query in tantivy's syntax, with `_score`; `order_by` is a column, optionally with `desc`."""
        return read.search(self._context, self._snapshot, query, columns, where, limit, order_by, offset)

    def append(self, data: Any, *, txn: tuple[str, int] | None = None) -> Report:
        """Adds rows: anything with an Arrow stream, record batches, or dicts. With `txn` it is committed once, whoever retries."""
        return self._write(data, mode="append", txn=txn)

    def overwrite(self, data: Any, where: str | None = None, *, txn: tuple[str, int] | None = None) -> Report:
        """Replaces all rows, or those of the partitions that `where` names."""
        return self._write(data, mode="overwrite", where=where, txn=txn)

    def merge_splits(
        self,
        target_size: str | int | None = None,
        where: str | None = None,
        max_dest_splits: int | None = None,
        max_source_splits: int = 1000,
        dry_run: bool = False,
    ) -> Report:
        """Turns small splits of a partition into large ones; `where` chooses partitions."""
        newest = self._context.newest(self._snapshot)
        report, snapshot = merge_splits.merge_splits(self._context, newest, target_size, where, max_dest_splits, max_source_splits, dry_run)
        if not dry_run:
            self._snapshot = snapshot
        return report

    def checkpoint(self) -> Report:
        """Writes the newest version's state into one file."""
        report = checkpoint.checkpoint(self._context)
        self._snapshot = self._context.snapshot()
        return report

    def purge(self, older_than: str = "7d", log_retention: str = "30d", dry_run: bool = False) -> Report:
        """Deletes what was removed longer ago than `older_than`, and versions older than `log_retention` that a checkpoint stands for."""
        return purge.purge(self._context, older_than, log_retention, dry_run)

    def describe(self) -> dict[str, Any]:
        snapshot = self._snapshot
        return {
            "path": self.path,
            "version": snapshot.version,
            "num_files": len(snapshot.files),
            "num_records": snapshot.num_records,
            "size_bytes": snapshot.size,
            "partition_columns": self.partition_columns,
            "schema": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in snapshot.schema],
            "protocol": {
                "minReaderVersion": snapshot.protocol.min_reader_version,
                "minWriterVersion": snapshot.protocol.min_writer_version,
            },
            "configuration": self.configuration,
        }

    def _write(self, data: Any, **arguments: Any) -> Report:
        report, self._snapshot = write.write_rows(write.prepare(self._context, known=self._snapshot, **arguments), data)
        return report

    def __repr__(self) -> str:
        return f"Table({self.path!r}, version={self.version})"


class TableLog:
    """What can be done with a table's log itself. A commit moves the handle it belongs to."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def commit(self, actions: Iterable[Action | Mapping[str, Any]], operation: str = "commit") -> int:
        """Commits typed actions, or dicts as the log spells them (`{"add": {…}}`), and gives the version."""
        table = self._table
        outcome = commit.commit_actions(table._context, table._snapshot, actions, operation)
        table._snapshot = outcome.snapshot
        assert outcome.version is not None
        return outcome.version

    def upgrade_protocol(self, reader: int, writer: int) -> int | None:
        """Raises the table's minimum versions, never down; the version committed, or None where it is at or above them already."""
        table = self._table
        outcome = upgrade_protocol.upgrade_protocol(table._context, table._snapshot, reader, writer)
        table._snapshot = outcome.snapshot
        return outcome.version

    def actions(self, version: int) -> list[dict[str, Any]]:
        """What a version says, as it spells it; unknown actions included."""
        return self._table._context.log.spelled(version)


def create_table(
    path: Path, schema: pa.Schema, partition_by: Sequence[str] = (), options: Options | None = None, clock: Clock = SYSTEM_CLOCK
) -> Table:
    """Makes an empty table; its options are kept in its configuration. TableExists if there is one."""
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument(
            f"a table is made from a pyarrow.Schema, not from {type(schema).__name__!r}; try pa.Table.from_pandas(df).schema"
        )
    if isinstance(partition_by, str):
        raise InvalidArgument(f"partition_by {partition_by!r} is not a list of column names")
    context = TableContext.at(path, options, clock)
    create.create_table(context, create.new_metadata(context, schema, list(partition_by), options or {}))
    return Table(context, context.snapshot())


def open_table(
    path: Path,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    options: Options | None = None,
    clock: Clock = SYSTEM_CLOCK,
    max_staleness: float = 0,
) -> Table:
    """The table at its newest version, at `version`, or as it was at `timestamp`.

    With `max_staleness` (seconds) the newest version may be one that this process saw no longer ago, without looking again.
    """
    if version is not None and timestamp is not None:
        raise InvalidArgument("give a version or a timestamp, not both")
    context = TableContext.at(path, options, clock)
    if timestamp is not None:
        version = version_at(context.log, _epoch_ms(timestamp))
    return Table(context, context.snapshot(version, _seconds(max_staleness)))


def exists(path: Path, options: Options | None = None) -> bool:
    """Whether a table is there, readable or not."""
    return not TableContext.at(path, options).log.listing().is_empty


def _seconds(max_staleness: float) -> float:
    if isinstance(max_staleness, bool) or not isinstance(max_staleness, int | float) or not 0 <= max_staleness < float("inf"):
        raise InvalidArgument(f"max_staleness {max_staleness!r} is not a number of seconds from 0 on")
    return max_staleness


def _epoch_ms(moment: datetime | str | int) -> int:
    """A time without a zone is UTC."""
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    if isinstance(moment, str) and re.fullmatch(r"[0-9]{11,15}", moment):  # ISO 8601 without separators has 8 digits before a letter
        return int(moment)
    try:
        parsed = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    except ValueError:
        raise InvalidArgument(f"timestamp {moment!r} is neither ISO 8601 nor milliseconds since the epoch") from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)  # exact: a float loses milliseconds
