"""The heavy part of a merge: the splits of one group become one, on whatever machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from indextables import limits
from indextables.actions import Add
from indextables.errors import IndexTablesError, LogCorrupted, SplitCorrupted, StorageError
from indextables.operations.merge.capacity import Capacity
from indextables.operations.merge.plan import MergeGroup
from indextables.rows import LiveSplit, is_upstream, publish_split
from indextables.splits import BrokenSource, UpstreamTable
from indextables.splits import merge_splits as merge_files
from indextables.storage import StoreSpec, open_store


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of a group; picklable, comes back from executors."""

    group: MergeGroup  # without the sources that are broken
    add: Add | None  # the merged split, in the table's folder but not committed; None where fewer than two sources were left
    broken: tuple[tuple[Add, str], ...] = ()  # sources that could not be used, and why
    error: IndexTablesError | None = None  # why the group could not be merged, although its sources are whole


@dataclass(frozen=True, slots=True)
class MergeTask:
    """One group at a time. A broken source is put aside, and the others are merged (SKP-07); what else fails fails its group alone."""

    store: StoreSpec
    version: int  # that was planned on
    table: UpstreamTable  # the table at that version
    take_over: bool = False  # such a source may be alone

    def __call__(self, group: MergeGroup) -> Merged:
        try:
            reason = Capacity.of(self.store, runs_locally=True).shortage([group.size])
            if reason is not None:
                raise StorageError(f"{_named(group)} are left as they are: {reason}")
            with tempfile.TemporaryDirectory(prefix="indextables-sources-") as folder:
                return self._of_sources(group, *self._fetched(group, Path(folder)))
        except LogCorrupted:  # a path that leads out of the table: nothing of such a log is acted upon
            raise
        except IndexTablesError as error:
            return Merged(group, None, error=error)
        except OSError as cause:
            return Merged(group, None, error=StorageError(f"{_named(group)} could not be merged: {cause}"))

    def _of_sources(self, group: MergeGroup, found: list[tuple[Add, Path]], broken: list[tuple[Add, str]]) -> Merged:
        while len(found) > 1 or (self.take_over and found and is_upstream(found[0][0])):
            rest = MergeGroup(group.partition_values, tuple(add for add, _ in found))
            try:
                return Merged(rest, self._merged(rest, [path for _, path in found]), tuple(broken))
            except BrokenSource as error:
                broken += [(add, str(error)) for add, path in found if path == error.path]
                found = [(add, path) for add, path in found if path != error.path]
            except SplitCorrupted as error:
                return Merged(rest, None, tuple(broken), error)
        return Merged(MergeGroup(group.partition_values, tuple(add for add, _ in found)), None, tuple(broken))

    def _fetched(self, group: MergeGroup, folder: Path) -> tuple[list[tuple[Add, Path]], list[tuple[Add, str]]]:
        """The sources that can be used, and the others; several are fetched at a time, since small ones are mostly waited for."""
        store = open_store(self.store)

        def fetch(numbered: tuple[int, Add]) -> Path | str:
            number, add = numbered
            try:
                return LiveSplit(add, self.version, self.table.schema).source_file(store, self.table, folder / f"{number}.split")
            except SplitCorrupted as error:
                return str(error)

        with ThreadPoolExecutor(1 if self.store.root.is_local else limits.PARALLEL_FETCHES) as pool:
            fetched = list(zip(group.sources, pool.map(fetch, enumerate(group.sources)), strict=True))
        found = [(add, path) for add, path in fetched if isinstance(path, Path)]
        return found, [(add, why) for add, why in fetched if isinstance(why, str)]

    def _merged(self, group: MergeGroup, sources: Sequence[Path]) -> Add:
        with tempfile.TemporaryDirectory(prefix="indextables-merge-") as folder:
            target = Path(folder, "merged.split")
            info = merge_files(sources, target, Path(folder), self.table.compression)
            if info.num_records != group.rows:
                raise SplitCorrupted(f"the merge of {group.sources[0].path!r} … has {info.num_records} rows, not {group.rows}")
            generation = 1 + max(add.num_merge_ops or 0 for add in group.sources)
            values = dict(group.partition_values)
            return publish_split(open_store(self.store), self.table.partition_columns, values, target, info, num_merge_ops=generation)


def _named(group: MergeGroup) -> str:
    return f"the {len(group.sources)} splits from {group.sources[0].path!r} on"
