"""Verify: compares every live split with its log entry and with its own checksums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from indextables.actions import Add
from indextables.errors import IndexTablesError, LogCorrupted, SplitCorrupted, VersionNotFound
from indextables.operations.executor import Executor
from indextables.operations.findings import Finding, Severity, command, unreadable
from indextables.operations.inspect.log_damage import damaged_checkpoints
from indextables.operations.verbs import Verify
from indextables.paths import is_our_split
from indextables.rows import LiveSplit, is_upstream
from indextables.splits import ColumnStatistics, SplitReader, is_upstream_split, verified_rows
from indextables.storage import StoreSpec, open_store
from indextables.table import Snapshot, TableContext
from indextables.values import decode_value

MISSING = "missing-split"


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """Verifies one split, on any machine."""

    store: StoreSpec
    deep: bool

    def __call__(self, add: Add) -> list[Finding]:
        try:
            with open_store(self.store).fresh_copy(add.path, add.size) as path:
                return [self._finding("split-differs", problem) for problem in self._problems(path, add)]
        except FileNotFoundError:
            return [self._finding(MISSING, f"split {add.path!r} is missing from the table")]
        except SplitCorrupted as error:
            message = str(error) if add.path in str(error) else f"split {add.path!r} is damaged: {error}"
            return [self._finding("damaged-split", message)]
        except IndexTablesError as error:  # a malicious split affects only its own finding
            if error.retryable:  # the store did not answer: that says nothing about the split
                raise
            return [self._finding("unreadable-split", f"split {add.path!r} cannot be read: {error}")]

    def _problems(self, path: Path, add: Add) -> list[str]:
        """Differences between the log entry and the split. SplitCorrupted if the split's own checksums do not match."""
        size = path.stat().st_size
        if is_upstream(add) and is_upstream_split(path):
            return _basic_differences(add, size, verified_rows(path))
        with SplitReader(path) as split:  # not the shared reader, which has parts of the file in memory
            if is_our_split(add.path):
                split.verify()
            return [*_basic_differences(add, size, split.num_records), *self._differences(split, add)]

    def _finding(self, code: str, message: str) -> Finding:
        return Finding(code, Severity.ERROR, message, command("repair", str(self.store.root), "NEW_LOG"))

    def _differences(self, split: SplitReader, add: Add) -> Iterator[str]:
        """Differences in offsets, sizes and time range, and with `deep` in the rows."""
        if not is_our_split(add.path):
            return
        info = split.info
        fields = {
            "footerStartOffset": (add.footer_start_offset, info.footer_start_offset),
            "footerEndOffset": (add.footer_end_offset, info.footer_end_offset),
            "hotcacheStartOffset": (add.hotcache_start_offset, info.hotcache_start_offset),
            "hotcacheLength": (add.hotcache_length, info.hotcache_length),
            "uncompressedSizeBytes": (add.uncompressed_size_bytes, info.uncompressed_size_bytes),
            "timeRangeStart": (add.time_range_start, info.time_range_start),
            "timeRangeEnd": (add.time_range_end, info.time_range_end),
        }
        for name, (logged, true) in fields.items():
            if logged is not None and logged != true:
                yield f"split {add.path!r} has {name} {true}, but the log says {logged}"
        if self.deep:
            yield from _decoded_differences(split, add)


def _basic_differences(add: Add, size: int, rows: int) -> list[str]:
    found = [("bytes", size, add.size), ("rows", rows, add.num_records)]
    return [
        f"split {add.path!r} has {true} {what}, but the log says {logged}" for what, true, logged in found if logged not in (None, true)
    ]


def _decoded_differences(split: SplitReader, add: Add) -> Iterator[str]:
    """Decodes all rows of the file, live or not, and compares their number and bounds with the log entry."""
    rows, statistics = split.decoded()
    if rows != split.num_records:
        yield f"split {add.path!r} has {rows} rows, but its footer says {split.num_records}"
    for name in split.footer.hotcache.partition_columns:
        if not _is_partition(statistics[name], rows, add.partition_values.get(name), split.schema.field(name).type):
            yield f"split {add.path!r} has rows whose {name!r} is not {add.partition_values.get(name)!r}, the partition value in the log"
    for name, true in statistics.items():
        for kind, logged, found in (("min", add.min_values, true.min), ("max", add.max_values, true.max)):
            if logged is not None and name in logged and logged[name] != found:
                yield f"split {add.path!r} has {kind} {found!r} of {name!r}, but the log says {logged[name]!r}"


def _is_partition(statistics: ColumnStatistics, rows: int, value: str | None, kind: pa.DataType) -> bool:
    """Whether all rows have the partition value of the log entry; True if there are no bounds to compare (NaN)."""
    if value is None or statistics.nulls:
        return value is None and statistics.nulls == rows
    if statistics.min is None or statistics.max is None:
        return True
    try:
        return all(decode_value(bound, kind) == decode_value(value, kind) for bound in (statistics.min, statistics.max))
    except ValueError:
        return False


def verify(request: Verify, context: TableContext, snapshot: Snapshot, executor: Executor = Verify.workload.threads) -> list[Finding]:
    """Checks sizes, footers, checksums and row counts of all live splits, and with `deep` rows and bounds. Empty if all are intact.

    The log and the splits are read again from the store, whatever the snapshot or a cache holds of them.
    """
    uncached = context.uncached()
    try:
        with suppress(VersionNotFound):  # it has expired since the table was opened
            snapshot = uncached.snapshot(snapshot.version)
        adds, damage = list(uncached.load(snapshot).adds()), list(_log_damage(uncached, snapshot))
    except LogCorrupted as error:
        return [unreadable(str(context.root), error)]
    found = dict(zip((add.path for add in adds), executor(VerifyTask(context.store.spec, request.deep), adds), strict=True))
    absent = [add for add in adds if any(finding.code == MISSING for finding in found[add.path])]
    live = uncached.load(uncached.snapshot()).files if absent else ()
    purged = [add for add in absent if add.path not in live]
    for add in purged:
        del found[add.path]
    return [*damage, *_purged(context, snapshot, purged), *(finding for findings in found.values() for finding in findings)]


def _log_damage(uncached: TableContext, snapshot: Snapshot) -> Iterator[Finding]:
    """Damage of the checkpoint that the snapshot is based on, and of newer checkpoints."""
    listing, first = uncached.log.listing(), snapshot.checkpoint or 0
    for damage in damaged_checkpoints(uncached.log, listing, [base for base in listing.bases if first <= base <= snapshot.version]):
        yield Finding("broken-checkpoint", Severity.WARNING, damage.message, command("checkpoint", str(uncached.root)))


def _purged(context: TableContext, snapshot: Snapshot, splits: Sequence[Add]) -> Iterator[Finding]:
    """A finding for splits that were purged after this version: the table is not damaged, but they cannot be restored."""
    if splits:
        first = LiveSplit.of(snapshot, splits[0])
        more = f", as were {len(splits) - 1} more of its splits" if len(splits) > 1 else ""
        message = f"{first.missing(context)}{more}; history lists the versions to read instead"
        yield Finding("purged-version", Severity.WARNING, message, command("history", str(context.root)))
