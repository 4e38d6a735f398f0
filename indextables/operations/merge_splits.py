"""Merge splits: many small files of a partition become few large ones, with the same rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indextables import limits
from indextables.actions import Action, Add, Skip
from indextables.config import parse_size
from indextables.errors import ConcurrentConflict, IndexTablesError, InvalidArgument, SplitCorrupted
from indextables.log.conflicts import require_live
from indextables.operations.after_commit import after_commit
from indextables.operations.executor import Executor, in_threads
from indextables.operations.report import Report, Status, reporter
from indextables.operations.split_task import publish_split
from indextables.operations.upstream import is_upstream, upstream_table
from indextables.operations.write import removal
from indextables.predicates import Predicate, parse_predicate
from indextables.splits import BrokenSource
from indextables.splits import merge_splits as merge_files
from indextables.splits.upstream import UpstreamTable, is_upstream_split, translate
from indextables.storage import Store, StoreSpec
from indextables.table.context import TableContext
from indextables.table.cooldown import files_in_cooldown, log_recorded, new_skip, protocol_for_skips, without_cooling
from indextables.table.files import narrow, rows_of_partitions
from indextables.table.protocol import check_owned, is_foreign, taken_over
from indextables.table.snapshot import Snapshot
from indextables.table.transaction import Draft, transact


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Splits of one partition that become one; picklable, goes to executors."""

    partition_values: Mapping[str, str]
    sources: tuple[Add, ...]

    @property
    def rows(self) -> int:
        return sum(add.num_records or 0 for add in self.sources)

    @property
    def size(self) -> int:
        return sum(add.size for add in self.sources)

    def describe(self) -> dict[str, Any]:
        paths = [add.path for add in self.sources]
        return {"partition": dict(self.partition_values), "sources": paths, "rows": self.rows, "bytes": self.size}


@dataclass(frozen=True, slots=True)
class MergePlan:
    base: Snapshot
    groups: tuple[MergeGroup, ...]  # most sources first


@dataclass(frozen=True, slots=True)
class MergeOptions:
    target_size: int
    where: Predicate | None = None
    max_dest_splits: int | None = None
    max_source_splits: int = 1000
    take_over: bool = False  # every split of another program is a source, also alone and whatever its size


def options_of(
    context: TableContext,
    snapshot: Snapshot,
    target_size: str | int | None = None,
    where: str | None = None,
    max_dest_splits: int | None = None,
    max_source_splits: int = 1000,
) -> MergeOptions:
    """Checked; InvalidArgument, InvalidPredicate."""
    config = context.config.with_table(snapshot.metadata.configuration)
    size = int(config.get("merge.targetSize")) if target_size is None else parse_size(target_size)
    if size < limits.MIB:
        raise InvalidArgument(f"target size {target_size!r} is below the minimum of 1M")
    if max_dest_splits is not None and max_dest_splits < 1:
        raise InvalidArgument(f"max_dest_splits {max_dest_splits!r} is not a whole number from 1 on")
    if max_source_splits < 2:
        raise InvalidArgument(f"max_source_splits {max_source_splits!r} is not a whole number from 2 on")
    allowed = snapshot.partition_columns
    predicate = (
        None if where is None else parse_predicate(where, snapshot.schema, allowed=allowed, purpose="merge (partition columns only)")
    )
    return MergeOptions(size, predicate, max_dest_splits, max_source_splits, bool(config.get("storage.takeOver")))


def plan(snapshot: Snapshot, options: MergeOptions, now_ms: int = 0) -> MergePlan:
    """Pure. Splits of exactly one partition, oldest first, packed up to the target size; the groups with most sources come first.

    Splits in cooldown at `now_ms` are left out.
    """
    partitions: dict[tuple[tuple[str, str], ...], list[Add]] = {}
    view = narrow(snapshot, options.where)
    rows = rows_of_partitions(view, options.where)
    sizes = view.files_table().column("size").to_numpy()[rows]
    small = sizes < limits.MERGE_SKIP_RATIO * options.target_size
    candidates = [*view.adds(rows[small]), *(_upstream(view.adds(rows[~small])) if options.take_over else ())]
    for add in without_cooling(candidates, files_in_cooldown(snapshot, now_ms)):
        partitions.setdefault(tuple(sorted(add.partition_values.items())), []).append(add)
    groups = [
        MergeGroup(dict(partition), tuple(sources))
        for partition, adds in partitions.items()
        for sources in _packed(sorted(adds, key=lambda a: (a.modification_time, a.path)), options)
        if len(sources) > 1 or (options.take_over and is_upstream(sources[0]))
    ]
    groups.sort(key=lambda g: (-len(g.sources), g.sources[0].modification_time, g.sources[0].path))
    return MergePlan(snapshot, tuple(groups[: options.max_dest_splits]))


def _upstream(adds: Iterable[Add]) -> Iterator[Add]:
    return (add for add in adds if is_upstream(add))


def _packed(adds: Sequence[Add], options: MergeOptions) -> list[list[Add]]:
    groups: list[list[Add]] = []
    size = 0
    for add in adds:
        if not groups or size + add.size > options.target_size or len(groups[-1]) >= options.max_source_splits:
            groups.append([])
            size = 0
        groups[-1].append(add)
        size += add.size
    return groups


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of a group; picklable, comes back from executors."""

    group: MergeGroup  # without the sources that are broken
    add: Add | None  # the merged split, in the table's folder but not committed; None where fewer than two sources were left
    broken: tuple[tuple[Add, str], ...] = ()  # sources that could not be used, and why
    problem: str | None = None  # why the group could not be merged, although its sources are whole


@dataclass(frozen=True, slots=True)
class MergeTask:
    """The heavy part, one group at a time, on whatever machine. A broken source is put aside, and the others are merged (SKP-07)."""

    store: StoreSpec
    table: UpstreamTable  # for sources of other programs
    take_over: bool = False  # such a source may be alone

    def __call__(self, group: MergeGroup) -> Merged:
        with tempfile.TemporaryDirectory(prefix="indextables-sources-") as folder:
            return self._of_sources(group, *self._fetched(group, Path(folder)))

    def _of_sources(self, group: MergeGroup, found: list[tuple[Add, Path]], broken: list[tuple[Add, str]]) -> Merged:
        while len(found) > 1 or (self.take_over and found and is_upstream(found[0][0])):
            rest = MergeGroup(group.partition_values, tuple(add for add, _ in found))
            try:
                return Merged(rest, self._merged(rest, [path for _, path in found]), tuple(broken))
            except BrokenSource as error:
                broken += [(add, str(error)) for add, path in found if path == error.path]
                found = [(add, path) for add, path in found if path != error.path]
            except SplitCorrupted as error:
                return Merged(rest, None, tuple(broken), str(error))
        return Merged(MergeGroup(group.partition_values, tuple(add for add, _ in found)), None, tuple(broken))

    def _fetched(self, group: MergeGroup, folder: Path) -> tuple[list[tuple[Add, Path]], list[tuple[Add, str]]]:
        store = self.store.open()
        found: list[tuple[Add, Path]] = []
        broken: list[tuple[Add, str]] = []
        for number, add in enumerate(group.sources):
            try:
                found.append((add, self._source(store, add, folder / f"{number}.split")))
            except FileNotFoundError:
                broken.append((add, f"split {add.path!r} is missing from the table"))
            except SplitCorrupted as error:
                broken.append((add, str(error)))
        return found, broken

    def _merged(self, group: MergeGroup, sources: Sequence[Path]) -> Add:
        with tempfile.TemporaryDirectory(prefix="indextables-merge-") as folder:
            target = Path(folder, "merged.split")
            info = merge_files(sources, target, Path(folder), self.table.compression)
            if info.num_records != group.rows:
                raise SplitCorrupted(f"the merge of {group.sources[0].path!r} … has {info.num_records} rows, not {group.rows}")
            generation = 1 + max(add.num_merge_ops or 0 for add in group.sources)
            values = dict(group.partition_values)
            return publish_split(self.store.open(), self.table.partition_columns, values, target, info, num_merge_ops=generation)

    def _source(self, store: Store, add: Add, target: Path) -> Path:
        """The split on this machine in our form; one of another program becomes the file `target`."""
        path = store.local_path(add.path, add.size)
        if not is_upstream(add) or not is_upstream_split(path):
            return path
        translate(path, target, self.table, add.partition_values)
        return target


def run(context: TableContext, merge_plan: MergePlan, executor: Executor = in_threads) -> tuple[Report, Snapshot]:
    """Merges every group and commits them together. Sources that are broken stay as they are, and are recorded as skipped."""
    report = reporter("merge_splits", str(context.root), context.clock)
    base = merge_plan.base
    if not merge_plan.groups:
        return report(Status.NO_ACTION, metrics_of([], [], 0), base_version=base.version), base
    task = MergeTask(context.store.spec, upstream_table(base, context.config), bool(context.config.get("storage.takeOver")))
    results: list[Merged] = executor(task, merge_plan.groups)
    commit = _Commit(results, context)
    outcome = transact(context.log, base, "merge_splits", commit, config=context.config, clock=context.clock)
    assert outcome.draft is not None
    log_recorded(action for action in outcome.draft.actions if isinstance(action, Skip))
    status = Status.PARTIAL if commit.warnings else Status.SUCCESS if outcome.version is not None else Status.NO_ACTION
    snapshot, late = (outcome.snapshot, []) if outcome.version is None else after_commit(context, outcome.snapshot, merged=True)
    warnings = [*commit.warnings, *late]
    made = report(status, outcome.draft.metrics, base_version=outcome.base_version, version=outcome.version, warnings=warnings)
    return made, snapshot


@dataclass(slots=True)
class _Commit:
    """Drafts the replacement of every group whose sources are all still live; the others are dropped, so no row comes back or doubles.

    A broken source that another commit removed meanwhile, and a purge deleted, was not broken.
    """

    results: Sequence[Merged]
    context: TableContext
    warnings: list[str] = field(default_factory=list)  # of the draft that was made last

    def __call__(self, base: Snapshot) -> Draft:
        check_owned(base.protocol, take_over=bool(self.context.config.get("storage.takeOver")))
        broken = [(add, why) for result in self.results for add, why in result.broken if add.path in base.files]
        self.warnings = [*(why for _, why in broken), *(r.problem for r in self.results if r.problem is not None)]
        valid, lost = self._still_live(base)
        if not valid and not self.warnings and lost:
            raise lost[0]
        self.warnings += [text for error in lost if (text := str(error)) not in self.warnings]
        now = self.context.clock.now_ms()
        removes = [removal(a, now, data_change=False) for group, _ in valid for a in group.sources]
        adds = [add for _, add in valid]
        metrics = metrics_of([group for group, _ in valid], adds, len(broken))
        taken = [taken_over(base.protocol)] if adds and is_foreign(base.protocol) else []
        return Draft([*taken, *self._skips(base, broken, now), *removes, *adds], metrics, new_paths=True)

    def _still_live(self, base: Snapshot) -> tuple[list[tuple[MergeGroup, Add]], list[IndexTablesError]]:
        valid: list[tuple[MergeGroup, Add]] = []
        lost: list[IndexTablesError] = []
        for result in self.results:
            if result.add is None:
                continue
            try:
                require_live("merge_splits", (a.path for a in result.group.sources), base.files, base.version)
                valid.append((result.group, result.add))
            except ConcurrentConflict as conflict:
                lost.append(conflict)
        return valid, lost

    def _skips(self, base: Snapshot, broken: Sequence[tuple[Add, str]], now_ms: int) -> list[Action]:
        config = self.context.config
        if not broken or not config.get("skippedFiles.trackingEnabled"):
            return []
        hours = config.get("skippedFiles.cooldownDuration")
        skips = [new_skip(base, add, why, "merge_splits", now_ms, hours) for add, why in broken]
        return [*protocol_for_skips(base), *skips]


def metrics_of(groups: Sequence[MergeGroup], adds: Sequence[Add], skipped: int) -> dict[str, int]:
    return {
        "groups": len(groups),
        "files_added": len(adds),
        "files_removed": sum(len(group.sources) for group in groups),
        "bytes_added": sum(add.size for add in adds),
        "bytes_removed": sum(group.size for group in groups),
        "rows": sum(group.rows for group in groups),
        "files_skipped": skipped,
    }


def merge_splits(
    context: TableContext,
    snapshot: Snapshot,
    target_size: str | int | None = None,
    where: str | None = None,
    max_dest_splits: int | None = None,
    max_source_splits: int = 1000,
    dry_run: bool = False,
    executor: Executor = in_threads,
) -> tuple[Report, Snapshot]:
    """Plan, then run; a dry run is the plan alone."""
    options = options_of(context, snapshot, target_size, where, max_dest_splits, max_source_splits)
    merge_plan = plan(snapshot, options, context.clock.now_ms())
    if not dry_run:
        snapshot.require_no_gap()
        check_owned(snapshot.protocol, take_over=bool(context.config.get("storage.takeOver")))
        return run(context.for_table(snapshot), merge_plan, executor)
    report = reporter("merge_splits", str(context.root), context.clock)
    status = Status.SUCCESS if merge_plan.groups else Status.NO_ACTION
    metrics = {**metrics_of(merge_plan.groups, [], 0), "files_added": len(merge_plan.groups)}
    steps = [group.describe() for group in merge_plan.groups]
    return report(status, metrics, base_version=snapshot.version, dry_run=True, plan=steps), snapshot
