"""Follow-up steps of a write: a merge (`mergeOnWrite`), then a purge (`purgeOnWrite`), if the table's options enable them.

The write is committed before they start. A failure of a follow-up step becomes a warning in the report of the write. The merge runs through
the executor of the write; the purge runs in threads, which delete a few thousand files before Spark has started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from indextables import interrupts, logs
from indextables.actions import CommitInfo
from indextables.errors import VersionNotFound
from indextables.operations.executor import Executor
from indextables.operations.expire import purge
from indextables.operations.merge import merge_options, plan_merge, run_merge
from indextables.operations.report import Report
from indextables.operations.verbs import WRITE_MODES, MergeSplits, Purge
from indextables.table import Snapshot, TableContext


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The result of the follow-up steps: the newest snapshot, with metrics and warnings for the report."""

    snapshot: Snapshot
    metrics: Mapping[str, int] = field(default_factory=dict)  # metrics of each step with its verb as prefix, such as `merge_groups`
    warnings: Sequence[str] = ()

    def reported(self, verb: str, report: Report) -> FollowUp:
        metrics = {f"{verb}_{name}": count for name, count in report.metrics.items()}
        warnings = [f"{verb} after the write: {warning}" for warning in report.warnings]
        return replace(self, metrics={**self.metrics, **metrics}, warnings=[*self.warnings, *warnings])


def after_write(context: TableContext, done: FollowUp, version: int, executor: Executor) -> FollowUp:
    """Runs the enabled steps. `context` has the table's configuration; `version` is the committed version of the write."""
    merged = done
    with interrupts.naming_commit(version):
        if context.config.get("mergeOnWrite.enabled"):
            merged = _attempt("merge", done, lambda: _merge(context, done, executor))
        if context.config.get("purgeOnWrite.enabled"):
            return _attempt("purge", merged, lambda: _purge(context, merged, version))
    return merged


def _attempt(verb: str, before: FollowUp, work: Callable[[], FollowUp]) -> FollowUp:
    try:
        return work()
    except Exception as error:
        logs.log_failure(error, f"the {verb} after version {before.snapshot.version} failed")
        return replace(before, warnings=[*before.warnings, f"the {verb} after the write failed: {error}"])


def _merge(context: TableContext, done: FollowUp, executor: Executor) -> FollowUp:
    options = merge_options(MergeSplits(target_size=context.config.get("mergeOnWrite.targetSize")), context.config, done.snapshot)
    planned = plan_merge(context.load(done.snapshot), options, context.clock.now_ms())
    if sum(len(group.paths) for group in planned.groups) < context.config.get("mergeOnWrite.minSourceSplits"):
        return done
    report, snapshot = run_merge(context, planned, executor)
    return replace(done, snapshot=snapshot).reported("merge", report)


def _purge(context: TableContext, done: FollowUp, version: int) -> FollowUp:
    config = context.config
    after_merge = config.get("purgeOnWrite.triggerAfterMerge") and done.metrics.get("merge_groups", 0) > 0
    if not after_merge and not _is_due(context, version, int(config.get("purgeOnWrite.triggerAfterWrites"))):
        return done
    splits, log = config.get("purgeOnWrite.splitRetentionHours"), config.get("purgeOnWrite.txLogRetentionHours")
    return done.reported("purge", purge(Purge(older_than=f"{splits}h", log_retention=f"{log}h"), context))


def _is_due(context: TableContext, version: int, interval: int) -> bool:
    """Whether this is the first write at or after a multiple of `interval`. Decided from the log alone, so all writers agree.

    Other commits count as versions too; if one of them has the multiple itself, the next write is due.
    """
    start = version // interval * interval if interval else 0
    return start > 0 and not any(_is_write(context, earlier) for earlier in range(version - 1, start - 1, -1))


def _is_write(context: TableContext, version: int) -> bool:
    try:
        actions = context.log.read(version).actions
    except VersionNotFound:  # expired
        return False
    return any(isinstance(action, CommitInfo) and action.operation in WRITE_MODES for action in actions)
