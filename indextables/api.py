"""The Python interface: functions to create and open tables, and a handle with one method per verb."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from indextables import limits
from indextables.actions import Action, Metadata, Protocol
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.errors import InvalidArgument
from indextables.operations import Executor, Finding, Report, verbs
from indextables.operations.aggregate import aggregate
from indextables.operations.alter import commit_actions, drop_partitions, record_skipped_file, upgrade_protocol
from indextables.operations.checkpoint import checkpoint
from indextables.operations.expire import drop, purge, truncate_history
from indextables.operations.inspect import describe, describe_log, describe_state, doctor, health, metrics, verify
from indextables.operations.merge import merge_splits
from indextables.operations.repair import repair
from indextables.operations.search import bind, count, explain_filter, scan, search
from indextables.operations.write import new_metadata, prepare_write, write_rows, write_version_zero
from indextables.splits import without_invalid_column_options
from indextables.table import Explain, Snapshot, TableContext, cooldown, history_table, public_table, read_changes, version_at

Path = str | os.PathLike[str]
Options = Mapping[str, Any]


class Table:
    """A handle on one version of a table; reads show that version.

    Writing and maintenance start from the newest version and move the handle to the version they commit.
    """

    def __init__(self, context: TableContext, snapshot: Snapshot) -> None:
        self._context = context
        self._snapshot = snapshot

    @property
    def path(self) -> str:
        """The folder or address of the table."""
        return str(self._context.root)

    @property
    def version(self) -> int:
        """The version that this handle shows."""
        return self._snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table in their order, partition columns included."""
        return self._snapshot.schema

    @property
    def partition_columns(self) -> list[str]:
        """The names of the partition columns; empty if the table is not partitioned."""
        return list(self._snapshot.partition_columns)

    @property
    def protocol(self) -> Protocol:
        """The minimum versions and the features that a program needs to read or write this version."""
        return self._snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata action of this version: id, name, schema, partition columns, configuration."""
        return self._snapshot.metadata

    @property
    def configuration(self) -> dict[str, str]:
        """The table's stored options, without the doc mappings that `metadata.configuration` also holds."""
        return self._snapshot.options

    @property
    def warnings(self) -> list[str]:
        """Problems that reading this version works around: a broken checkpoint, a gap, a bad option in the table's configuration."""
        snapshot = self._snapshot
        config = without_invalid_column_options(
            self._context.config.with_table(snapshot.metadata.configuration), snapshot.schema, snapshot.partition_columns
        )
        return [*self._snapshot.warnings, *config.warnings]

    def refresh(self, max_staleness: float = 0) -> Table:
        """Moves this handle to the newest version, or to one that was the newest at most `max_staleness` seconds ago, and returns it."""
        self._snapshot = self._context.newest(self._snapshot, _seconds(max_staleness))
        return self

    def files(self, where: str | None = None) -> pa.Table:
        """The live splits; with `where`, only those that may hold a matching row."""
        predicate = bind(self._snapshot, where)
        return public_table(self._context.load(self._snapshot, predicate), predicate)

    def explain(self, where: str | None = None, query: str | None = None) -> Explain:
        """What a scan or search with these arguments would read, and why it skips the rest."""
        return explain_filter(verbs.Explain(where, query), self._context, self._snapshot)

    def history(self) -> pa.Table:
        """Every retained version, newest first."""
        return history_table(self._context.log)

    def changes(self, start: int, end: int | None = None) -> pa.Table:
        """The splits added and removed after version `start`, up to and including `end` (default: the version of this handle)."""
        return read_changes(self._context, self._snapshot, start, end)

    @property
    def log(self) -> TableLog:
        """Low-level access to the transaction log."""
        return TableLog(self)

    def scan(self, where: str | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Streams the rows that match `where`, with one split open at a time; `columns` selects columns and their order.

        The arguments are checked before the first batch.
        """
        return scan(verbs.Scan(where, columns), self._context, self._snapshot)

    def count(self, where: str | None = None) -> int:
        """The exact number of rows that match `where`. Splits are opened only where the log cannot answer."""
        return count(verbs.Count(where), self._context, self._snapshot)

    def search(
        self,
        query: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int = 10,
        order_by: str | None = None,
        offset: int = 0,
        snippets: Sequence[str] | None = None,
    ) -> pa.Table:
        """The best matches for a query (see docs/search.md), with `_score`; `order_by` is a column, optionally followed by `desc`.

        Scores are BM25 over all searched rows, whatever split they are in. `snippets` names text columns: `_snippet` shows the best passage
        of each, with the matching words between `**`.
        """
        return search(verbs.Search(query, columns, where, limit, order_by, offset, snippets), self._context, self._snapshot)

    def aggregate(
        self,
        aggs: Mapping[str, Any],
        group_by: Sequence[Any] | Mapping[str, Any] | None = None,
        where: str | None = None,
        query: str | None = None,
    ) -> pa.Table:
        """Aggregates the rows that match `where` and `query`: one row per group, or a single row without `group_by`.

        `aggs` maps a name to (function, column); functions are count (also of `*`), count_distinct, sum, min, max and avg. `group_by` is a
        list of columns, or maps a name to a column, ("histogram", column, width) or ("date_histogram", column, "15m"); intervals may also
        be given in w, month, quarter or year.
        """
        return aggregate(verbs.Aggregate(aggs, group_by, where, query), self._context, self._snapshot)

    def append(self, data: Any, *, txn: tuple[str, int] | None = None) -> Report:
        """Adds rows as one commit: anything with an Arrow stream, record batches, or dicts.

        With `txn`, an application name and a number, the write is committed once, even if retried.
        """
        return self._write(data, verbs.Write(**verbs.txn_options(txn)))

    def overwrite(self, data: Any, where: str | None = None, *, txn: tuple[str, int] | None = None) -> Report:
        """Replaces all rows as one commit, or only those of the partitions that match `where`; `txn` as in `append`."""
        return self._write(data, verbs.Write(mode="overwrite", where=where, **verbs.txn_options(txn)))

    def merge_splits(
        self,
        target_size: str | int | None = None,
        where: str | None = None,
        max_dest_splits: int | None = None,
        max_source_splits: int | None = None,
        dry_run: bool = False,
    ) -> Report:
        """Combines small splits of a partition into larger ones; `where` selects partitions.

        `target_size` defaults to the option `merge.targetSize` (5G), `max_source_splits` to `merge.maxSourceSplitsPerMerge` (1000).
        """
        request = verbs.MergeSplits(target_size, where, max_dest_splits, max_source_splits, dry_run)
        report, snapshot = merge_splits(request, self._context, self._context.newest(self._snapshot))
        if not dry_run:
            self._snapshot = snapshot
        return report

    def checkpoint(self, dry_run: bool = False) -> Report:
        """Writes a checkpoint of the newest version and cleans up expired log files; a dry run reports both and changes nothing."""
        report = checkpoint(verbs.Checkpoint(dry_run=dry_run), self._context)
        if not dry_run:
            self._snapshot = self._context.snapshot()
        return report

    def purge(self, older_than: str = limits.OLDER_THAN, log_retention: str | None = None, dry_run: bool = False) -> Report:
        """Deletes splits removed more than `older_than` ago, and versions older than `log_retention` that a checkpoint covers.

        `log_retention` defaults to the option `purge.txLogRetentionHours` (30 days).
        """
        return purge(verbs.Purge(older_than, log_retention, dry_run), self._context)

    def metrics(self) -> dict[str, int | float | None]:
        """Counters of this process for the table, hit rates of its cache, and the number of versions since the last checkpoint."""
        return metrics(self._context)

    def drop_partitions(self, where: str) -> Report:
        """Removes the partitions that match `where` from the table; purge deletes their files later."""
        report, self._snapshot = drop_partitions(verbs.DropPartitions(where), self._context, self._snapshot)
        return report

    def truncate_history(self, dry_run: bool = False) -> Report:
        """Reduces the log to version 0 and a checkpoint of the newest version. Splits are kept; `purge` deletes them later."""
        report = truncate_history(verbs.TruncateHistory(dry_run), self._context)
        if not dry_run:
            self._snapshot = self._context.newest(self._snapshot)
        return report

    def verify(self, deep: bool = False, executor: Executor = verbs.Verify.workload.threads) -> list[Finding]:
        """Compares every live split with the log and its checksums; `deep` also decodes rows and bounds. Empty if no problem is found."""
        return verify(verbs.Verify(deep), self._context, self._snapshot, executor)

    def doctor(self) -> list[Finding]:
        """The problems of the newest version of the table, each with the command that fixes it; changes nothing."""
        return doctor(self._context)

    def health(self) -> dict[str, Any]:
        """The findings of `doctor` and the table's figures, as one document."""
        return health(self._context)

    def describe(self) -> dict[str, Any]:
        """The figures, schema, protocol and stored options of this version, with the `metrics` of this process."""
        return describe(self._context, self._snapshot)

    def describe_state(self) -> dict[str, Any]:
        """The newest checkpoint: its format, version, files, bytes, manifests and tombstones, and whether it is due for compaction."""
        return describe_state(self._context)

    def describe_log(self, include_all: bool = False) -> pa.Table:
        """The actions of the newest checkpoint and the versions after it; with `include_all`, of every retained version."""
        return describe_log(self._context, include_all=include_all)

    def _write(self, data: Any, request: verbs.Write) -> Report:
        report, self._snapshot = write_rows(prepare_write(request, self._context, known=self._snapshot), data)
        return report

    def __repr__(self) -> str:
        return f"Table({self.path!r}, version={self.version})"


class TableLog:
    """Low-level access to the log of a table. A commit moves the table handle it was taken from."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def commit(self, actions: Iterable[Action | Mapping[str, Any]], operation: str = "commit") -> int | None:
        """Commits typed actions, or dicts as in the log (`{"add": {…}}`), and returns the version.

        With a `txn` action the commit happens once, even if retried: a repeat returns the first one's version, or None if that has expired.
        """
        table = self._table
        version, table._snapshot = commit_actions(table._context, table._snapshot, actions, operation)
        return version

    def upgrade_protocol(self, reader: int, writer: int) -> int | None:
        """Raises the table's minimum protocol versions, never lowers them; returns the version committed, or None if nothing changes."""
        table = self._table
        outcome = upgrade_protocol(table._context, table._snapshot, reader, writer)
        table._snapshot = outcome.snapshot
        return outcome.version

    def record_skipped_file(self, path: str, reason: str, operation: str = "merge_splits", cooldown_hours: float | None = None) -> int:
        """Keeps a live split out of merges until its cooldown ends (24 hours by default), and returns the version committed."""
        table = self._table
        outcome = record_skipped_file(table._context, table._snapshot, path, reason, operation, cooldown_hours)
        table._snapshot = outcome.snapshot
        assert outcome.version is not None
        return outcome.version

    def files_in_cooldown(self) -> dict[str, int]:
        """The splits that merges skip at present, and until when (ms since the epoch)."""
        return cooldown.files_in_cooldown(self._table._snapshot, self._table._context.clock.now_ms())

    def is_in_cooldown(self, path: str) -> bool:
        """Whether merges skip this split at present; `path` is as in the log or absolute."""
        return self._table._context.root.relative(path) in self.files_in_cooldown()

    def actions(self, version: int) -> list[dict[str, Any]]:
        """The actions of a version as written, including unknown ones."""
        return self._table._context.log.raw_lines(_version(version))

    def cache_stats(self) -> dict[str, float]:
        """Hit rates of this process's log cache by kind (`filesHitRate` …); empty if the cache is off."""
        return self._table._context.log.cache_stats()

    def invalidate_cache(self, kind: str | None = None) -> None:
        """Makes the next read go to the store for everything, or only for `protocol`, `metadata` or `versions`."""
        if kind not in (None, "protocol", "metadata", "versions"):
            raise InvalidArgument(f"cache kind {kind!r} is none of protocol, metadata, versions")
        self._table._context.log.invalidate_cache(kind)

    def close(self) -> None:
        """Releases everything this process caches of the log. The table stays usable and reads again what it needs."""
        self._table._context.log.close()


def create_table(
    path: Path, schema: pa.Schema, partition_by: Sequence[str] = (), options: Options | None = None, clock: Clock = SYSTEM_CLOCK
) -> Table:
    """Creates an empty table; `options` are stored in its configuration. Raises TableExists if there is a table at the path."""
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument(
            f"the schema of a table is a pyarrow.Schema, not {type(schema).__name__!r}; try pa.Table.from_pandas(df).schema"
        )
    request = verbs.Create(partition_by=partition_by)
    context = TableContext.at(path, options, clock)
    return Table(context, write_version_zero(context, new_metadata(context, schema, list(request.partition_by or ()), options or {})))


def open_table(
    path: Path,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    options: Options | None = None,
    clock: Clock = SYSTEM_CLOCK,
    max_staleness: float = 0,
) -> Table:
    """The table at its newest version, at `version`, or as it was at `timestamp`.

    With `max_staleness` (seconds), a newest version that this process saw at most so long ago is used without asking the store again.
    """
    if version is not None and timestamp is not None:
        raise InvalidArgument("give a version or a timestamp, not both")
    context = TableContext.at(path, options, clock)
    if version is not None:
        _version(version)
    if timestamp is not None:
        version = version_at(context.log, _epoch_ms(timestamp))
    return Table(context, context.snapshot(version, _seconds(max_staleness)))


def drop_table(path: Path, *, confirm: bool = False, options: Options | None = None) -> Report:
    """Deletes the table permanently, with its log and splits; requires `confirm=True`."""
    return drop(verbs.Drop(confirm), TableContext.at(path, options))


def repair_log(source: Path, destination: Path, options: Options | None = None, clock: Clock = SYSTEM_CLOCK) -> Report:
    """Writes a new log of the valid splits into the folder `destination`; the source is not changed."""
    return repair(verbs.Repair(str(destination)), source, options, clock)


def exists(path: Path, options: Options | None = None) -> bool:
    """Whether there is a table at the path, readable or not."""
    return not TableContext.at(path, options).log.listing().is_empty


def _seconds(max_staleness: float) -> float:
    if isinstance(max_staleness, bool) or not isinstance(max_staleness, int | float) or not 0 <= max_staleness <= 1e9:
        raise InvalidArgument(f"max_staleness {max_staleness!r} is not a number of seconds from 0 to a billion")
    return max_staleness


def _version(version: int) -> int:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidArgument(f"version {version!r} is not a whole number")
    return version


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
