"""Truncate history: writes a checkpoint of the newest version and deletes the log files that only older versions need.

Version 0 is kept (C-20). Splits are not deleted; purge deletes those that no version references any more. The checkpoint is written and
read back before any deletion, and versions are deleted oldest first, so the table stays readable. Concurrent commits come after the
checkpoint and are not affected.
"""

from __future__ import annotations

from dataclasses import replace

from indextables.clock import HOUR_MS
from indextables.errors import CheckpointValidationError
from indextables.operations.checkpoint import (
    checkpoint,
    checkpoint_version,
    gather_log_facts,
    is_self_contained,
    next_checkpoint_version,
    referenced_manifests,
    with_checkpoint,
)
from indextables.operations.deletion import Deleted, delete, of_kinds, still_unreferenced
from indextables.operations.expire.truncate_plan import plan_truncation
from indextables.operations.report import Report, Status, dry_run_report, reporter
from indextables.operations.verbs import Checkpoint, TruncateHistory
from indextables.state import ANY_AGE, FileKind, LogFacts, Plan, Policy
from indextables.table import Snapshot, TableContext, check_owned


def _policy(context: TableContext) -> Policy:
    unused = context.config.get("state.gc.minManifestAgeHours") * HOUR_MS
    return Policy(log=ANY_AGE, keep_versions=0, checkpoints=ANY_AGE, keep_states=0, states=ANY_AGE, manifests=unused)


def _facts(context: TableContext, version: int) -> LogFacts:
    """The facts of the log with `version`, which has been verified, as the only base."""
    facts, _ = gather_log_facts(context.log, version)
    named, unreadable = referenced_manifests(context.log, facts.inventory)
    is_base = {base: base == version for base in facts.inventory.deletable_bases}
    return replace(facts, newest_checkpoint=version, is_base=is_base, references=named, unreadable=unreadable)


def _expected_facts(context: TableContext, snapshot: Snapshot) -> LogFacts:
    """The facts as if the checkpoint were written. A new state is assumed to reference the same manifests."""
    bound = context.for_table(snapshot)
    version = next_checkpoint_version(bound, snapshot)
    return with_checkpoint(_facts(context, version), version, is_state=bound.config.get("state.format") == "avro")


def _metrics(deleted: Deleted, version: int, live: int) -> dict[str, int]:
    of_log = deleted.counts(FileKind.VERSION, FileKind.CHECKPOINT, FileKind.STATE, FileKind.MANIFEST)
    return {"checkpoint_version": version, **of_log, "bytes_deleted": deleted.size, "files_preserved": live}


def run(context: TableContext, made: Report) -> Report:
    """Deletes the history before the checkpoint that `made` reports."""
    report = reporter("truncate_history", str(context.root), context.clock)
    version = checkpoint_version(made)
    context.log.invalidate_cache()
    if not is_self_contained(context.log, context.log.uncached_listing(), version, thorough=True):
        raise CheckpointValidationError(version, "it depends on older files, so nothing was deleted")
    facts = _facts(context, version)
    planned = plan_truncation(facts, _policy(context), context.clock.now_ms())
    deleted, warnings = _delete(context, facts, planned)
    context.log.invalidate_cache()
    done = Status.SUCCESS if planned.deletions or made.status is Status.SUCCESS else Status.NO_ACTION
    metrics = _metrics(deleted, version, made.metrics["num_files"])
    warnings = [*made.warnings, *planned.kept_reasons, *warnings, *deleted.problems]
    status = Status.PARTIAL if deleted.problems else done
    return report(status, metrics, base_version=made.base_version, version=made.version, warnings=warnings)


def _delete(context: TableContext, facts: LogFacts, planned: Plan) -> tuple[Deleted, list[str]]:
    deleted = delete(context, of_kinds(planned.deletions, FileKind.VERSION))
    if deleted.problems:  # the remaining versions need the older checkpoints
        return deleted, []
    deleted += delete(context, of_kinds(planned.deletions, FileKind.CHECKPOINT, FileKind.STATE))
    manifests, warnings = still_unreferenced(context.log, facts.inventory, of_kinds(planned.deletions, FileKind.MANIFEST))
    return deleted + delete(context, manifests), warnings


def truncate_history(request: TruncateHistory, context: TableContext) -> Report:
    """Writes a checkpoint of the newest version if it has none, then deletes the older history. A dry run changes nothing."""
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    check_owned(snapshot.protocol)
    if not request.dry_run:
        return run(context, checkpoint(Checkpoint(), context, clean=False))
    report = reporter("truncate_history", str(context.root), context.clock)
    snapshot.require_no_gap()
    facts = _expected_facts(context, snapshot)
    planned = plan_truncation(facts, _policy(context), context.clock.now_ms())
    steps = [line for deletion in planned.deletions for line in deletion.describe()]
    metrics = _metrics(Deleted(planned.deletions), facts.newest_version, context.totals(snapshot).num_files)
    return dry_run_report(report, steps, metrics, snapshot.version, planned.kept_reasons)
