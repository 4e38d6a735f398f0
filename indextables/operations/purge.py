"""Purge: deletes versions, checkpoints, states and manifests that have expired, and splits that were dead for long enough. Nothing else.

A split may go when it was removed longer ago than the retention and was not created after that. What no version knows (a leftover)
goes by its age alone, as does a temporary file of a writer that was killed. Only names that our writers give are ever touched, and splits
of other programs that the log says were removed; symbolic links are neither followed nor deleted. Every doubt stops what it touches, and
the report says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from indextables import limits
from indextables.config import parse_duration
from indextables.errors import InvalidArgument
from indextables.operations.deletion import Deleted, delete, still_unused
from indextables.operations.executor import Executor, in_many_threads
from indextables.operations.purge_facts import PurgeFacts, gather
from indextables.operations.report import Report, Status, reporter
from indextables.state import retention
from indextables.state.retention import HOUR, Deletion, Kind, Plan, Policy
from indextables.table.context import TableContext
from indextables.table.protocol import check_owned


@dataclass(frozen=True, slots=True)
class PurgeOptions:
    older_than_ms: int
    orphan_ms: int  # what no version knows is kept at least this long
    most_splits: int
    policy: Policy  # of the log


def options_of(context: TableContext, older_than: str, log_retention: str | None) -> PurgeOptions:
    """InvalidArgument for what is no duration, or too short to be safe."""
    config = context.config
    age, floor = parse_duration(older_than), limits.ORPHAN_HOURS * HOUR
    checked = config.get("purge.retentionCheckEnabled")
    if checked and age < floor:
        raise InvalidArgument(
            f"older_than {older_than!r} is less than {limits.ORPHAN_HOURS}h: readers and writers at work may need what was live then; "
            "set purge.retentionCheckEnabled=false if there are none"
        )
    hours: int = config.get("purge.txLogRetentionHours")
    log = hours * HOUR if log_retention is None else parse_duration(log_retention)
    # The floor of clean-up is its own default; one that somebody chose holds here too.
    keep = config.get("checkpoint.retention") if config.is_set("checkpoint.retention") else 0
    return PurgeOptions(
        age, max(age, floor) if checked else age, config.get("purge.maxFilesToDelete"), Policy.of(config, log=log, keep_versions=keep)
    )


def plan(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> Plan:
    """Pure. Version files first, then checkpoints, states, manifests, temporary files, then splits, the largest first."""
    log = retention.plan(facts.log, options.policy, now_ms)
    splits = _dead_splits(facts, log, options, now_ms)
    found = sorted(splits.deletions, key=lambda deletion: (-deletion.size, deletion.path))
    cut = []
    if len(found) > options.most_splits:
        cut.append(
            f"{options.most_splits} of {len(found)} dead splits go, the largest, as purge.maxFilesToDelete says; purge again for the rest"
        )
    temporaries = _temporaries(facts, options, now_ms)
    return Plan([*log.deletions, *temporaries, *found[: options.most_splits]], [*log.doubts, *splits.doubts, *cut])


def _temporaries(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> list[Deletion]:
    """Never a young one, whatever is asked: its writer may be at work."""
    end = now_ms - max(options.orphan_ms, options.policy.loose_parts)
    old = [file for file in facts.listed.temporaries() if file.modified_ms is not None and file.modified_ms <= end]
    return [Deletion(Kind.TEMPORARY, (file,), "left by a writer that was killed") for file in old]


def _dead_splits(facts: PurgeFacts, log: Plan, options: PurgeOptions, now_ms: int) -> Plan:
    """Live is what the newest version holds, and what was removed lately. What a retained version added, or a retained checkpoint lists,
    without a removal that we know of, is kept too: another program may have deleted the version that removed it."""
    cutoff = now_ms - options.older_than_ms
    forgotten = _are_unknown_removals_old(facts, cutoff)
    dead, unknown, ageless = [], [], 0
    for row, path in facts.listed:
        if not facts.is_dead_split(path):
            continue
        file = facts.listed.file(row)
        if file.modified_ms is None:
            ageless += 1
        elif path in facts.removed_at:
            if max(facts.removed_at[path], file.modified_ms) <= cutoff:
                dead.append(Deletion(Kind.SPLIT, facts.listed.with_side_file(file), "removed from the table"))
        elif forgotten and path not in facts.added and file.modified_ms <= now_ms - options.orphan_ms:
            unknown.append(Deletion(Kind.SPLIT, facts.listed.with_side_file(file), "in no version of the table"))
    doubts = [f"the store does not say how old {ageless} splits are: they are kept"] if ageless else []
    if not unknown:
        return Plan(dead, doubts)
    listed = _listed_below(facts, log)
    if listed is None:
        return Plan(dead, [*doubts, f"an old checkpoint cannot be read, so {len(unknown)} splits that no version knows are kept"])
    return Plan([*dead, *(deletion for deletion in unknown if deletion.path not in listed)], doubts)


def _are_unknown_removals_old(facts: PurgeFacts, cutoff_ms: int) -> bool:
    """A removal may have stood in a version that has expired: then it is at least as old as the oldest version we have."""
    oldest = _oldest_unbroken(facts)
    return oldest <= 1 or facts.log.times.get(oldest, cutoff_ms + 1) <= cutoff_ms


def _oldest_unbroken(facts: PurgeFacts) -> int:
    """Every version from this one to the newest is there; one more than the newest where not even that is."""
    oldest = facts.snapshot.version + 1
    while oldest - 1 in facts.log.inventory.versions:
        oldest -= 1
    return oldest


def _listed_below(facts: PurgeFacts, log: Plan) -> set[str] | None:
    """What the checkpoints and states that stay list, and that may have been removed in versions we do not have. None: unreadable."""
    gone = {(deletion.kind, deletion.version) for deletion in log.deletions}
    inventory, end = facts.log.inventory, _oldest_unbroken(facts) - 1
    below = [base for base in inventory.bases if base < end]
    listed: set[str] = set()
    for base in below:
        forms = {kind for kind, held in ((Kind.CHECKPOINT, inventory.checkpoints), (Kind.STATE, inventory.states)) if base in held}
        if all((kind, base) in gone for kind in forms):
            continue
        paths = facts.paths_of_base(base)
        if paths is None:
            return None
        listed.update(paths)
    return listed


def run(context: TableContext, facts: PurgeFacts, planned: Plan, executor: Executor = in_many_threads) -> Report:
    """The log's files here; manifests after a second look; splits wherever the executor works."""
    report = reporter("purge", str(context.root), context.clock)
    by_kind = {kind: [deletion for deletion in planned.deletions if deletion.kind is kind] for kind in Kind}
    deleted = delete(context, [*by_kind[Kind.VERSION], *by_kind[Kind.CHECKPOINT], *by_kind[Kind.STATE], *by_kind[Kind.TEMPORARY]])
    manifests, warnings = still_unused(context.log, facts.log.inventory, by_kind[Kind.MANIFEST])
    warnings[:0] = planned.doubts
    deleted += delete(context, manifests) + delete(context, by_kind[Kind.SPLIT], executor)
    context.log.invalidate_cache()
    status = Status.NO_ACTION if not planned.deletions else Status.PARTIAL if deleted.problems else Status.SUCCESS
    return report(status, metrics_of(deleted), base_version=facts.snapshot.version, warnings=[*warnings, *deleted.problems])


def metrics_of(deleted: Deleted) -> dict[str, int]:
    return {
        "files_deleted": deleted.count(Kind.SPLIT),
        "bytes_deleted": sum(deletion.size for deletion in deleted.done),
        "versions_deleted": deleted.count(Kind.VERSION),
        "checkpoints_deleted": deleted.count(Kind.CHECKPOINT),
        "states_deleted": deleted.count(Kind.STATE),
        "manifests_deleted": deleted.count(Kind.MANIFEST),
    }


def purge(
    context: TableContext,
    older_than: str = "7d",
    log_retention: str | None = None,
    dry_run: bool = False,
    executor: Executor = in_many_threads,
) -> Report:
    """Plan, then run; a dry run is the plan alone and changes nothing. Without `log_retention` it is `purge.txLogRetentionHours`."""
    for text in (older_than, *(() if log_retention is None else (log_retention,))):
        parse_duration(text)  # before anything is listed
    facts = gather(context)
    check_owned(facts.snapshot.protocol)
    bound = context.for_table(facts.snapshot)
    planned = plan(facts, options_of(bound, older_than, log_retention), context.clock.now_ms())
    if not dry_run:
        return run(bound, facts, planned, executor)
    report = reporter("purge", str(context.root), context.clock)
    status = Status.SUCCESS if planned.deletions else Status.NO_ACTION
    result: Report = report(
        status,
        metrics_of(Deleted(planned.deletions, [])),
        base_version=facts.snapshot.version,
        dry_run=True,
        warnings=planned.doubts,
        plan=[line for deletion in planned.deletions for line in deletion.describe()],
    )
    return result
