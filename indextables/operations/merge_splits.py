"""Merge splits: many small files of a partition become few large ones, with the same rows."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indextables import limits
from indextables.actions import Add
from indextables.config import parse_size
from indextables.errors import ConcurrentConflict, IndexTablesError, InvalidArgument, SplitCorrupted
from indextables.log.conflicts import require_live
from indextables.operations.executor import Executor, in_threads
from indextables.operations.report import Report, Status, reporter
from indextables.operations.split_task import publish_split
from indextables.operations.write import removal
from indextables.predicates import Predicate, parse_predicate
from indextables.splits import merge_splits as merge_files
from indextables.storage import StoreSpec
from indextables.table.context import TableContext
from indextables.table.files import rows_of_partitions
from indextables.table.protocol import check_owned
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
    return MergeOptions(size, predicate, max_dest_splits, max_source_splits)


def plan(snapshot: Snapshot, options: MergeOptions) -> MergePlan:
    """Pure. Splits of exactly one partition, oldest first, packed up to the target size; the groups with most sources come first."""
    partitions: dict[tuple[tuple[str, str], ...], list[Add]] = {}
    rows = rows_of_partitions(snapshot, options.where)
    sizes = snapshot.files_table().column("size").to_numpy()[rows]
    for add in snapshot.adds(rows[sizes < limits.MERGE_SKIP_RATIO * options.target_size]):
        partitions.setdefault(tuple(sorted(add.partition_values.items())), []).append(add)
    groups = [
        MergeGroup(dict(partition), tuple(sources))
        for partition, adds in partitions.items()
        for sources in _packed(sorted(adds, key=lambda a: (a.modification_time, a.path)), options)
        if len(sources) > 1
    ]
    groups.sort(key=lambda g: (-len(g.sources), g.sources[0].modification_time, g.sources[0].path))
    return MergePlan(snapshot, tuple(groups[: options.max_dest_splits]))


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
class MergeTask:
    """The heavy part, one group at a time, on whatever machine."""

    store: StoreSpec
    partition_columns: tuple[str, ...]

    def __call__(self, group: MergeGroup) -> Add | str:
        """The merged split, in the table's folder but not committed; or why a source could not be merged."""
        store = self.store.open()
        try:
            with tempfile.TemporaryDirectory(prefix="indextables-merge-") as folder:
                sources = [store.local_path(add.path, add.size) for add in group.sources]
                target = Path(folder, "merged.split")
                info = merge_files(sources, target, Path(folder))
                if info.num_records != group.rows:
                    raise SplitCorrupted(f"the merge of {group.sources[0].path!r} … has {info.num_records} rows, not {group.rows}")
                generation = 1 + max(add.num_merge_ops or 0 for add in group.sources)
                values = dict(group.partition_values)
                return publish_split(store, self.partition_columns, values, target, info, num_merge_ops=generation)
        except FileNotFoundError as error:
            return f"split {str(error)!r} is missing from the table"
        except SplitCorrupted as error:
            return str(error)


def run(context: TableContext, merge_plan: MergePlan, executor: Executor = in_threads) -> tuple[Report, Snapshot]:
    """Merges every group and commits them together; groups with a damaged source are left as they are."""
    report = reporter("merge_splits", str(context.root), context.clock)
    base = merge_plan.base
    if not merge_plan.groups:
        return report(Status.NO_ACTION, metrics_of([], [], 0), base_version=base.version), base
    results = executor(MergeTask(context.store.spec, base.partition_columns), merge_plan.groups)
    done = [(group, add) for group, add in zip(merge_plan.groups, results, strict=True) if isinstance(add, Add)]
    warnings = [text for text in results if isinstance(text, str)]
    skipped = sum(len(group.sources) for group, add in zip(merge_plan.groups, results, strict=True) if isinstance(add, str))
    if not done:
        newest = context.newest(base)
        for group in merge_plan.groups:  # what another commit replaced, and a purge deleted, is not damaged
            require_live("merge_splits", (add.path for add in group.sources), newest.files, newest.version)
        raise SplitCorrupted(f"no group could be merged: {warnings[0]}")
    commit = _Commit(done, skipped, context, warnings)
    outcome = transact(context.log, base, "merge_splits", commit, config=context.config, clock=context.clock)
    assert outcome.draft is not None
    status = Status.PARTIAL if warnings else Status.SUCCESS
    made = report(status, outcome.draft.metrics, base_version=outcome.base_version, version=outcome.version, warnings=warnings)
    return made, outcome.snapshot


@dataclass(frozen=True, slots=True)
class _Commit:
    """Drafts the replacement of every group whose sources are all still live; the others are dropped, so no row comes back or doubles."""

    done: Sequence[tuple[MergeGroup, Add]]
    skipped: int
    context: TableContext
    warnings: list[str]

    def __call__(self, base: Snapshot) -> Draft:
        check_owned(base.protocol)
        valid: list[tuple[MergeGroup, Add]] = []
        lost: list[IndexTablesError] = []
        for group, add in self.done:
            try:
                require_live("merge_splits", (a.path for a in group.sources), base.files, base.version)
                valid.append((group, add))
            except ConcurrentConflict as conflict:
                lost.append(conflict)
        if not valid:
            raise lost[0]
        self.warnings.extend(text for error in lost if (text := str(error)) not in self.warnings)
        now = self.context.clock.now_ms()
        removes = [removal(a, now, data_change=False) for group, _ in valid for a in group.sources]
        adds = [add for _, add in valid]
        return Draft([*removes, *adds], metrics_of([group for group, _ in valid], adds, self.skipped))


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
    merge_plan = plan(snapshot, options_of(context, snapshot, target_size, where, max_dest_splits, max_source_splits))
    if not dry_run:
        snapshot.require_no_gap()
        check_owned(snapshot.protocol)
        return run(context.for_table(snapshot), merge_plan, executor)
    report = reporter("merge_splits", str(context.root), context.clock)
    status = Status.SUCCESS if merge_plan.groups else Status.NO_ACTION
    metrics = {**metrics_of(merge_plan.groups, [], 0), "files_added": len(merge_plan.groups)}
    steps = [group.describe() for group in merge_plan.groups]
    return report(status, metrics, base_version=snapshot.version, dry_run=True, plan=steps), snapshot
