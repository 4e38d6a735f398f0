"""The task of a merge: combines the splits of one group into one split, on any machine."""

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
from indextables.operations.merge.plan import MergeGroup, described, not_merged
from indextables.rows import LiveSplit, is_upstream, publish_split
from indextables.splits import BrokenSource, SplitSettings
from indextables.splits import merge_splits as merge_files
from indextables.storage import StoreSpec, open_store


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging one group; picklable, returned by executors."""

    group: MergeGroup  # without damaged sources, unless there is an `error`
    add: Add | None  # the merged split, published but not committed; None if fewer than two usable sources were left
    broken: tuple[tuple[Add, str], ...] = ()  # damaged or missing sources, each with the reason
    error: IndexTablesError | None = None  # why the group could not be merged although its sources are intact


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merges one group. A damaged source is excluded and the others are merged (SKP-07); any other error fails only this group."""

    store: StoreSpec
    version: int  # of the snapshot that the merge is planned on
    settings: SplitSettings  # of the table at that version
    take_over: bool = False  # a split of another program may be the only source

    def __call__(self, group: MergeGroup) -> Merged:
        broken: list[tuple[Add, str]] = []  # kept if an error follows, so that the next merge does not fetch them again
        try:
            reason = Capacity.of(self.store, runs_locally=True).shortage([group.size])
            if reason is not None:
                raise StorageError(not_merged(group, reason))
            with tempfile.TemporaryDirectory(prefix="indextables-sources-") as folder:
                return self._merge_usable(group, self._fetch(group, Path(folder), broken), broken)
        except LogCorrupted:  # a path outside the table: do not act on such a log at all
            raise
        except IndexTablesError as error:
            return Merged(group, None, tuple(broken), error)
        except OSError as cause:
            return Merged(group, None, tuple(broken), StorageError(f"{described(group)} could not be merged: {cause}"))

    def _merge_usable(self, group: MergeGroup, found: list[tuple[Add, Path]], broken: list[tuple[Add, str]]) -> Merged:
        while len(found) > 1 or (self.take_over and found and is_upstream(found[0][0])):
            rest = MergeGroup(group.partition_values, tuple(add for add, _ in found))
            try:
                return Merged(rest, self._merge(rest, [path for _, path in found]), tuple(broken))
            except BrokenSource as error:
                broken += [(add, str(error)) for add, path in found if path == error.path]
                found = [(add, path) for add, path in found if path != error.path]
            except SplitCorrupted as error:
                return Merged(rest, None, tuple(broken), error)
        return Merged(MergeGroup(group.partition_values, tuple(add for add, _ in found)), None, tuple(broken))

    def _fetch(self, group: MergeGroup, folder: Path, broken: list[tuple[Add, str]]) -> list[tuple[Add, Path]]:
        """The usable sources; adds the others to `broken`. Fetches several at a time, since latency dominates for small splits."""
        store, found = open_store(self.store), list[tuple[Add, Path]]()

        def fetch(numbered: tuple[int, Add]) -> Path | str:
            number, add = numbered
            try:
                return LiveSplit(add, self.version, self.settings.schema).source_file(store, self.settings, folder / f"{number}.split")
            except SplitCorrupted as error:
                return str(error)

        with ThreadPoolExecutor(1 if self.store.root.is_local else limits.PARALLEL_FETCHES) as pool:
            for add, path in zip(group.sources, pool.map(fetch, enumerate(group.sources)), strict=True):
                if isinstance(path, Path):
                    found.append((add, path))
                else:
                    broken.append((add, path))
        return found

    def _merge(self, group: MergeGroup, sources: Sequence[Path]) -> Add:
        with tempfile.TemporaryDirectory(prefix="indextables-merge-") as folder:
            target = Path(folder, "merged.split")
            info = merge_files(sources, target, Path(folder), self.settings.compression)
            if info.num_records != group.rows and all(add.num_records is not None for add in group.sources):
                raise SplitCorrupted(f"the merge of {group.sources[0].path!r} … has {info.num_records} rows, not {group.rows}")
            generation = 1 + max(add.num_merge_ops or 0 for add in group.sources)
            values = dict(group.partition_values)
            return publish_split(open_store(self.store), self.settings.partition_columns, values, target, info, num_merge_ops=generation)
