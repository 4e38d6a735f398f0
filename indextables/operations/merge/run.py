"""Merge splits: combines many small splits of a partition into few large ones with the same rows.

Groups are merged in batches, and each batch is a separate commit: if a merge is killed, its committed batches remain and at most one batch
is lost. A failed batch does not stop the others. After all batches, the merge is planned again on their results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from indextables import interrupts, logs
from indextables.actions import Add, Skip
from indextables.errors import LogCorrupted, StorageError
from indextables.logs import logger
from indextables.operations.checkpoint import checkpoint_if_due
from indextables.operations.executor import Executor, in_threads
from indextables.operations.merge.capacity import Capacity, next_batch, split_by_capacity
from indextables.operations.merge.commit import BatchCommit, metrics_of
from indextables.operations.merge.plan import MergePlan, PlannedGroup, merge_options, not_merged, plan_merge
from indextables.operations.merge.task import Merged, MergeTask
from indextables.operations.report import Report, Status, dry_run_report, reporter
from indextables.operations.verbs import MergeSplits
from indextables.rows import split_settings, uncommitted_splits_in_errors
from indextables.table import Snapshot, TableContext, check_owned, check_writable, log_left_out, log_new_skips, transact


def run_merge(context: TableContext, merge_plan: MergePlan, executor: Executor = in_threads) -> tuple[Report, Snapshot]:
    """Merges the groups of the plan, then plans and merges again until no group is left, a pass merges none, or after `merge.maxPasses`.

    Damaged sources are left unchanged and recorded as skipped. If nothing could be committed, the first error is raised.
    """
    report = reporter("merge_splits", str(context.root), context.clock)
    log_left_out(merge_plan.in_cooldown)
    merging = _Merging(context, executor, merge_plan.view, merge_plan.view)
    for _ in range(int(context.config.get("merge.maxPasses"))):
        if not merge_plan.groups or not merging.run_pass(merge_plan):
            break
        merge_plan = merging.replanned(merge_plan)
    return merging.finished(report)


@dataclass(slots=True)
class _Merging:
    context: TableContext
    executor: Executor
    first: Snapshot  # at the start of the merge
    snapshot: Snapshot  # the newest
    metrics: Counter[str] = field(default_factory=Counter)
    base_version: int | None = None  # of the first commit
    version: int | None = None  # of the last commit
    errors: list[Exception] = field(default_factory=list)  # of groups that could not be merged
    warnings: list[str] = field(default_factory=list)  # these errors, and damaged sources
    notes: list[str] = field(default_factory=list)  # warnings of checkpoints between batches
    made: set[str] = field(default_factory=set)  # committed merged splits
    avoided: set[str] = field(default_factory=set)  # sources that are not tried again
    needs_checkpoint: bool = False  # whether the checkpoint after the last commit has not been considered yet

    def run_pass(self, merge_plan: MergePlan) -> bool:
        """Merges the groups of one plan; returns whether any group was merged."""
        before = self.metrics["groups"]
        store, runs_locally = self.context.store.spec, self.executor.runs_locally
        task = MergeTask(store, merge_plan.view.version, split_settings(merge_plan.view, self.context.config), merge_plan.options.take_over)
        groups, rejected = split_by_capacity(merge_plan.groups, Capacity.of(store, runs_locally=runs_locally))
        for group, reason in rejected:
            self._fail(StorageError(not_merged(group, reason)), group.paths)
        while groups:
            size = int(self.context.config.get("merge.batchSize"))
            count = next_batch(groups, size, self.executor.workers, Capacity.of(store, runs_locally=runs_locally))
            self._run_batch(merge_plan, task, groups[:count])
            groups = groups[count:]
        return self.metrics["groups"] > before

    def replanned(self, last: MergePlan) -> MergePlan:
        most = last.options.max_dest_splits
        rest = None if most is None else most - len(last.groups)
        if rest is not None and rest <= 0:
            return replace(last, groups=())
        avoided = self.avoided | self._added_by_others()
        view = self.context.load(self.snapshot, last.options.where)
        return plan_merge(view, replace(last.options, max_dest_splits=rest), self.context.clock.now_ms(), avoided)

    def _added_by_others(self) -> set[str]:
        """Splits that other writers added during this merge. They are left to the next one: a large split is not rewritten for few rows."""
        files = self.context.load(self.snapshot).files_table().select(["path", "added_at_version"])
        added = files.filter(pc.greater(files.column("added_at_version"), self.first.version))
        return set(added.column("path").to_pylist()) - self.made

    def finished(self, report: Callable[..., Report]) -> tuple[Report, Snapshot]:
        if self.version is None and self.errors:
            raise self.errors[0]
        if self.needs_checkpoint:
            self._checkpoint_if_due(merged=True)
        status = Status.PARTIAL if self.warnings else Status.NO_ACTION if self.version is None else Status.SUCCESS
        base = self.snapshot.version if self.base_version is None else self.base_version
        metrics = metrics_of([], [], 0) | self.metrics
        return report(status, metrics, base_version=base, version=self.version, warnings=[*self.warnings, *self.notes]), self.snapshot

    def _run_batch(self, merge_plan: MergePlan, task: MergeTask, groups: Sequence[PlannedGroup]) -> None:
        """Merges and commits one batch. An error fails only this batch, unless the log is corrupted."""
        try:
            if self.needs_checkpoint:
                self._checkpoint_if_due(merged=False)
            with interrupts.naming_commit(self.version):
                results: list[Merged] = self.executor(task, merge_plan.with_sources(groups))
            with uncommitted_splits_in_errors([result.add.path for result in results if result.add is not None]):
                self._commit(results)
        except LogCorrupted:
            raise
        except Exception as error:
            logs.log_failure(error, f"a batch of {len(groups)} merges failed")
            self._fail(error, (path for group in groups for path in group.paths))

    def _commit(self, results: Sequence[Merged]) -> None:
        context, commit = self.context, BatchCommit(results, self.context)
        outcome = transact(context.log, self.snapshot, "merge_splits", commit, config=context.config, clock=context.clock)
        assert outcome.draft is not None
        log_new_skips(action for action in outcome.draft.actions if isinstance(action, Skip))
        self.snapshot = outcome.snapshot
        for result in results:
            if result.error is not None:
                self._fail(result.error, result.group.paths)
        for add, why in commit.broken:
            self._warn(why)
            self.avoided.add(add.path)
        for conflict in commit.conflicts:
            self._fail(conflict, ())
        if outcome.version is None:
            return
        self.base_version = outcome.base_version if self.base_version is None else self.base_version
        self.version, self.needs_checkpoint = outcome.version, True
        self.metrics.update(outcome.draft.metrics)
        self.metrics["commits"] += 1
        self.made.update(action.path for action in outcome.draft.actions if isinstance(action, Add))
        measures = dict(outcome.draft.metrics)
        logger.info(
            "Merged %s splits into %s at version %s",
            measures["files_removed"],
            measures["files_added"],
            outcome.version,
            extra={"event": "splits_merged", "table": str(context.root), "version": outcome.version, **measures},
        )

    def _checkpoint_if_due(self, *, merged: bool) -> None:
        """Writes a checkpoint if one is due. Only the last one (`merged`) compacts the state (CMP-05)."""
        self.snapshot, warnings = checkpoint_if_due(self.context, self.snapshot, merged=merged)
        self.notes += warnings
        self.needs_checkpoint = False

    def _fail(self, error: Exception, sources: Iterable[str]) -> None:
        self.errors.append(error)
        self._warn(str(error))
        self.avoided.update(sources)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def merge_splits(
    request: MergeSplits, context: TableContext, snapshot: Snapshot, executor: Executor = MergeSplits.workload.threads
) -> tuple[Report, Snapshot]:
    """Plans a merge and runs it. A dry run returns the plan of the first pass, with a warning for each group that would not fit.

    A dry run raises whatever keeps the merge from starting.
    """
    check_writable(snapshot.protocol)
    options = merge_options(request, context.config, snapshot)
    merge_plan = plan_merge(context.load(snapshot, options.where), options, context.clock.now_ms())
    snapshot.require_no_gap()
    check_owned(snapshot.protocol, take_over=options.take_over)
    bound = context.for_table(snapshot)
    bound.config.check()
    if not request.dry_run:
        return run_merge(bound, merge_plan, executor)
    report = reporter("merge_splits", str(context.root), context.clock)
    groups = merge_plan.groups
    metrics = metrics_of(groups, [], 0) | {"files_added": len(groups)}
    _, rejected = split_by_capacity(groups, Capacity.of(context.store.spec, runs_locally=executor.runs_locally))
    warnings = [not_merged(group, reason) for group, reason in rejected]
    steps = [group.describe() for group in groups]
    return dry_run_report(report, steps, metrics, snapshot.version, warnings), snapshot
