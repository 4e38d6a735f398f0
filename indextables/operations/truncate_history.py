"""Truncate history: the newest version stays, in a checkpoint of its own; everything that only older versions need goes from the log.

Version 0 stays too (C-20), and splits are never touched: purge deletes those that no version has any more. The checkpoint is written and
read back before anything goes, and versions go oldest first, so that the table can be read at every moment. What others commit meanwhile
comes after the checkpoint, and nothing after it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indextables.errors import CheckpointValidationError
from indextables.log import names
from indextables.operations import checkpoint
from indextables.operations.cleanup import gather, named_manifests, stands_alone
from indextables.operations.deletion import Deleted, delete, still_unused
from indextables.operations.report import Report, Status, reporter
from indextables.state.inventory import File
from indextables.state.retention import ANY_AGE, HOUR, Deletion, Facts, Kind, Plan, Policy
from indextables.state.retention import plan as plan_retention
from indextables.table.context import TableContext
from indextables.table.protocol import check_owned
from indextables.table.snapshot import Snapshot

_LATEST = 2**63  # ms: of a version that is yet to be written


def plan(facts: Facts, policy: Policy, now_ms: int) -> Plan:
    """Pure. Versions, checkpoints and states before `facts.latest`, whatever their age, and the manifests that only those states name.

    A manifest that no state names may belong to one that is being written: it goes when it is old enough for purge, too.
    """
    found = plan_retention(facts, policy, now_ms)
    strays = _strays(facts, now_ms - policy.manifests)
    log = [_said(deletion, facts) for deletion in found.deletions if deletion.kind is not Kind.MANIFEST and deletion.version not in strays]
    unnamed = [deletion for deletion in found.deletions if deletion.kind is Kind.MANIFEST]
    manifests = {deletion.path: deletion for deletion in [*unnamed, *_left_alone(facts, log)]}
    kept = [f"{len(strays)} versions out of their order are kept for now: a writer may be about to take them back"] if strays else []
    return Plan([*log, *(manifests[path] for path in sorted(manifests))], [*found.doubts, *kept])


def _strays(facts: Facts, since_ms: int) -> set[int]:
    """Young versions that do not follow on to the checkpoint, or came after those that follow them: a writer took the number of one that
    had just gone, and is about to see that and take its own back. Were it deleted, the writer could not tell what became of its commit.
    """
    versions, times, first = facts.inventory.versions, facts.times, facts.current
    while first - 1 in versions and times.get(first - 1, 0) <= times.get(first, _LATEST):
        first -= 1
    return {version for version in versions if 0 < version < first and times.get(version, since_ms + 1) > since_ms}


def _said(deletion: Deletion, facts: Facts) -> Deletion:
    return replace(deletion, reason=f"older than version {facts.current}, which stays") if deletion.kind is Kind.VERSION else deletion


def _left_alone(facts: Facts, log: Sequence[Deletion]) -> list[Deletion]:
    """Manifests of the states that go, unless one that stays names them, or might."""
    references = facts.references or {}
    gone = {deletion.version for deletion in log if deletion.kind is Kind.STATE and deletion.version is not None}
    stay = set(facts.inventory.states) - gone
    if not stay <= set(references):
        return []
    named = {path for state in stay for path in references[state]}
    paths = {path for state in gone & set(references) for path in references[state]} - named
    files = facts.inventory
    found = [files.manifests[path] for path in paths if path in files.manifests]
    return [Deletion(Kind.MANIFEST, files.with_side_files([file]), "only states that go name it") for file in found]


def _policy(context: TableContext) -> Policy:
    unused = context.config.get("state.gc.minManifestAgeHours") * HOUR
    return Policy(log=ANY_AGE, keep_versions=0, checkpoints=ANY_AGE, keep_states=0, states=ANY_AGE, manifests=unused)


def _facts(context: TableContext, version: int) -> Facts:
    """With `version` as the only base that counts, which was seen to be one."""
    facts = gather(context.log, version)
    named, unreadable = named_manifests(context.log, facts.inventory)
    return replace(facts, latest=version, is_base=lambda base: base == version, references=named, unreadable=unreadable)


def _expected(context: TableContext) -> tuple[Facts, Snapshot]:
    """What would be there if the checkpoint had been made, and the table now. The new state is taken to name what the newest one does."""
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    bound = context.for_table(snapshot)
    version = checkpoint.version_to_be(bound, snapshot)
    facts = _facts(context, version)
    inventory = facts.inventory
    file = File(names.version_path(version), 0, None)
    base = {} if version in inventory.bases else {version: ()}
    versions = {version: file, **inventory.versions}
    inventory = replace(inventory, versions=versions, checkpoints={**inventory.checkpoints, **base}, has_pointer=True)
    newest = max((state for state in facts.references or {} if state < version), default=None)
    if base and newest is not None and bound.config.get("state.format") == "avro":
        inventory = replace(inventory, states={**inventory.states, version: ()})
        facts = replace(facts, references={**(facts.references or {}), version: (facts.references or {})[newest]})
    return replace(facts, inventory=inventory), snapshot


def _metrics(deleted: Deleted, version: int, live: int) -> dict[str, int]:
    return {
        "checkpoint_version": version,
        "versions_deleted": deleted.count(Kind.VERSION),
        "checkpoints_deleted": deleted.count(Kind.CHECKPOINT),
        "states_deleted": deleted.count(Kind.STATE),
        "manifests_deleted": deleted.count(Kind.MANIFEST),
        "bytes_deleted": sum(deletion.size for deletion in deleted.done),
        "files_preserved": live,
    }


def run(context: TableContext, made: Report) -> Report:
    """Deletes what the checkpoint that was `made` stands for."""
    report = reporter("truncate_history", str(context.root), context.clock)
    version = checkpoint.version_of(made)
    context.log.invalidate_cache()
    if not stands_alone(context.log, context.log.look(), version, thorough=True):
        raise CheckpointValidationError(version, "it leaves something to older files, so nothing was deleted")
    facts = _facts(context, version)
    planned = plan(facts, _policy(context), context.clock.now_ms())
    deleted, warnings = _delete(context, facts, planned)
    context.log.invalidate_cache()
    done = Status.SUCCESS if planned.deletions or made.status is Status.SUCCESS else Status.NO_ACTION
    metrics = _metrics(deleted, version, made.metrics["num_files"])
    warnings = [*made.warnings, *planned.doubts, *warnings, *deleted.problems]
    status = Status.PARTIAL if deleted.problems else done
    return report(status, metrics, base_version=made.base_version, version=made.version, warnings=warnings)


def _delete(context: TableContext, facts: Facts, planned: Plan) -> tuple[Deleted, list[str]]:
    by_kind = {kind: [deletion for deletion in planned.deletions if deletion.kind is kind] for kind in Kind}
    deleted = delete(context, by_kind[Kind.VERSION])
    if deleted.problems:  # versions that are left need the older checkpoints
        return deleted, []
    deleted += delete(context, [*by_kind[Kind.CHECKPOINT], *by_kind[Kind.STATE]])
    manifests, warnings = still_unused(context.log, facts.inventory, by_kind[Kind.MANIFEST])
    return deleted + delete(context, manifests), warnings


def truncate_history(context: TableContext, dry_run: bool = False) -> Report:
    """A checkpoint of the newest version, if it has none, and then the rest goes. A dry run writes nothing at all."""
    context.log.invalidate_cache()
    check_owned(context.snapshot().protocol)
    if not dry_run:
        return run(context, checkpoint.checkpoint(context, clean=False))
    report = reporter("truncate_history", str(context.root), context.clock)
    facts, now = _expected(context)
    planned = plan(facts, _policy(context), context.clock.now_ms())
    status = Status.SUCCESS if planned.deletions else Status.NO_ACTION
    steps = [line for deletion in planned.deletions for line in deletion.describe()]
    metrics = _metrics(Deleted(planned.deletions, []), facts.current, len(now.files))
    return report(status, metrics, base_version=now.version, dry_run=True, warnings=planned.doubts, plan=steps)
