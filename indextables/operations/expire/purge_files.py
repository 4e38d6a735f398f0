"""Purge: deletes expired versions, checkpoints, states and manifests, and splits that have been dead for long enough. Nothing else.

A removed split is deleted once both its removal and its creation are older than the retention. Splits that no version references, and
temporary files of killed writers, are deleted by age. Only files with names that our writers give are deleted, and splits of other programs
that the log records as removed; symbolic links are neither followed nor deleted. In case of doubt a file is kept, and the report says why.
"""

from __future__ import annotations

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.config import Config, parse_duration
from indextables.errors import InvalidArgument, TableNotFound
from indextables.operations.deletion import Deleted, delete, still_unreferenced
from indextables.operations.executor import Executor
from indextables.operations.expire.purge_facts import complete_purge_facts, gather_purge_facts
from indextables.operations.expire.purge_plan import PurgeFacts, PurgeOptions, plan_purge
from indextables.operations.report import Report, Status, reporter
from indextables.operations.verbs import Purge
from indextables.state import FileKind, Plan, Policy
from indextables.table import TableContext, check_owned


def purge_options(request: Purge, config: Config) -> PurgeOptions:
    """The request, completed from the table's options or their defaults. InvalidArgument if `older_than` is too short to be safe."""
    age, floor = parse_duration(request.older_than), limits.ORPHAN_HOURS * HOUR_MS
    checked = config.get("purge.retentionCheckEnabled")
    if checked and age < floor:
        raise InvalidArgument(
            f"older_than {request.older_than!r} is less than {limits.ORPHAN_HOURS}h: running readers and writers may need the splits "
            "that were live then; set purge.retentionCheckEnabled=false if there are none"
        )
    hours: int = config.get("purge.txLogRetentionHours")
    log = hours * HOUR_MS if request.log_retention is None else parse_duration(request.log_retention)
    # The default of checkpoint.retention is meant for cleanup; purge applies only a value that is set.
    keep = config.get("checkpoint.retention") if config.is_set("checkpoint.retention") else 0
    return PurgeOptions(
        age, max(age, floor) if checked else age, config.get("purge.maxFilesToDelete"), Policy.of(config, log=log, keep_versions=keep)
    )


def run(context: TableContext, facts: PurgeFacts, planned: Plan, executor: Executor) -> Report:
    """Deletes log files first, then manifests that are still unreferenced, then splits through the executor."""
    report = reporter("purge", str(context.root), context.clock)
    by_kind = {kind: [deletion for deletion in planned.deletions if deletion.kind is kind] for kind in FileKind}
    deleted = delete(
        context, [*by_kind[FileKind.VERSION], *by_kind[FileKind.CHECKPOINT], *by_kind[FileKind.STATE], *by_kind[FileKind.TEMPORARY]]
    )
    manifests, warnings = still_unreferenced(context.log, facts.log.inventory, by_kind[FileKind.MANIFEST])
    warnings[:0] = planned.kept_reasons
    deleted += delete(context, manifests) + delete(context, by_kind[FileKind.SPLIT], executor)
    context.log.invalidate_cache()
    status = Status.NO_ACTION if not planned.deletions else Status.PARTIAL if deleted.problems else Status.SUCCESS
    return report(status, metrics_of(deleted), base_version=facts.snapshot.version, warnings=[*warnings, *deleted.problems])


def metrics_of(deleted: Deleted) -> dict[str, int]:
    return {
        "files_deleted": deleted.count(FileKind.SPLIT),
        "bytes_deleted": sum(deletion.size for deletion in deleted.done),
        "versions_deleted": deleted.count(FileKind.VERSION),
        "checkpoints_deleted": deleted.count(FileKind.CHECKPOINT),
        "states_deleted": deleted.count(FileKind.STATE),
        "manifests_deleted": deleted.count(FileKind.MANIFEST),
    }


def purge(request: Purge, context: TableContext, executor: Executor = Purge.workload.threads) -> Report:
    """Plans a purge and runs it. A dry run returns the plan and changes nothing."""
    if context.log.listing().is_empty:  # before the folder is listed, which may be a whole bucket
        raise TableNotFound.without_log(context.root)
    facts = gather_purge_facts(context)
    check_owned(facts.snapshot.protocol)
    bound = context.for_table(facts.snapshot)
    bound.config.check()  # an invalid retention may be meant to be longer than the default
    options, now_ms = purge_options(request, bound.config), context.clock.now_ms()
    facts = complete_purge_facts(bound, facts, options, now_ms)
    planned = plan_purge(facts, options, now_ms)
    if not request.dry_run:
        return run(bound, facts, planned, executor)
    report = reporter("purge", str(context.root), context.clock)
    status = Status.SUCCESS if planned.deletions else Status.NO_ACTION
    result: Report = report(
        status,
        metrics_of(Deleted(planned.deletions, [])),
        base_version=facts.snapshot.version,
        dry_run=True,
        warnings=planned.kept_reasons,
        plan=[line for deletion in planned.deletions for line in deletion.describe()],
    )
    return result
