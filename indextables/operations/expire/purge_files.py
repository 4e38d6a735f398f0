"""Purge: deletes expired versions, checkpoints, states and manifests, and splits that have been dead for long enough. Nothing else.

A removed split is deleted once both its removal and its creation are older than the retention. Splits that no version references, and
temporary files of killed writers, are deleted by age. Only files with names that our writers give are deleted, and splits of other programs
that the log records as removed; symbolic links are neither followed nor deleted. In case of doubt a file is kept, and the report says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from indextables import limits
from indextables.actions import Add, AddBlock, CommitInfo, Remove
from indextables.clock import HOUR_MS
from indextables.config import Config, parse_duration
from indextables.errors import InvalidArgument, LogCorrupted, TableNotFound, UnsafePath
from indextables.log import LogListing, TransactionLog, VersionFile, names
from indextables.operations.checkpoint import is_incomplete_state, is_self_contained, referenced_manifests, with_checked_bases
from indextables.operations.deletion import Deleted, delete, of_kinds, still_unreferenced
from indextables.operations.executor import Executor
from indextables.operations.expire.folder_listing import FolderListing
from indextables.operations.expire.purge_plan import PurgeFacts, PurgeOptions, bases_to_read, plan_purge
from indextables.operations.report import Report, Status, dry_run_report, reporter
from indextables.operations.verbs import Purge
from indextables.paths import LOG_FOLDER, TableRoot
from indextables.state import FileKind, FileLoader, Inventory, LogFacts, Plan, Policy, read_checkpoint
from indextables.table import Snapshot, TableContext, check_owned, commit_time

_AT_A_TIME = 64  # version files read at the same time


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
    steps = [line for deletion in planned.deletions for line in deletion.describe()]
    return dry_run_report(report, steps, metrics_of(Deleted(planned.deletions)), facts.snapshot.version, planned.kept_reasons)


def purge_options(request: Purge, config: Config) -> PurgeOptions:
    """The request, completed from the table's options or their defaults. InvalidArgument if `older_than` is too short to be safe."""
    age, floor = parse_duration(request.older_than), limits.UNREFERENCED_HOURS * HOUR_MS
    checked = config.get("purge.retentionCheckEnabled")
    if checked and age < floor:
        raise InvalidArgument(
            f"older_than {request.older_than!r} is less than {limits.UNREFERENCED_HOURS}h: running readers and writers may need the splits "
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
    deleted = delete(context, of_kinds(planned.deletions, FileKind.VERSION, FileKind.CHECKPOINT, FileKind.STATE, FileKind.TEMPORARY))
    manifests, warnings = still_unreferenced(context.log, facts.log.inventory, of_kinds(planned.deletions, FileKind.MANIFEST))
    deleted += delete(context, manifests) + delete(context, of_kinds(planned.deletions, FileKind.SPLIT), executor)
    context.log.invalidate_cache()
    status = Status.NO_ACTION if not planned.deletions else Status.PARTIAL if deleted.problems else Status.SUCCESS
    warnings = [*planned.kept_reasons, *warnings, *deleted.problems]
    return report(status, metrics_of(deleted), base_version=facts.snapshot.version, warnings=warnings)


def metrics_of(deleted: Deleted) -> dict[str, int]:
    of_log = deleted.counts(FileKind.VERSION, FileKind.CHECKPOINT, FileKind.STATE, FileKind.MANIFEST)
    return {"files_deleted": deleted.count(FileKind.SPLIT), "bytes_deleted": deleted.size, **of_log}


# --- gathering the facts


def gather_purge_facts(context: TableContext) -> PurgeFacts:
    """Lists the folder first and reads the log last. Raises on a gap, an unreadable version or a path outside the table.

    `complete_purge_facts` adds the facts that depend on the options; call it before `plan_purge`.
    """
    folder = FolderListing.of(context.store.list(""))
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    listing = context.log.listing()
    found = _read_versions(context, [v for v in listing.versions if v <= snapshot.version], folder)
    return PurgeFacts(
        folder=folder,
        live=frozenset(context.load(snapshot).files.paths()),
        snapshot=snapshot,
        log=_log_facts(context.log, snapshot, Inventory.of(folder.log), found.times),
        removed_at=found.removed_at,
        added=found.added,
        listing=listing,
    )


def complete_purge_facts(context: TableContext, facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> PurgeFacts:
    """Adds the facts that a plan with these options needs: which checkpoints are valid bases, and the splits listed by old ones."""
    log, listing = context.log, facts.listing
    checked = with_checked_bases(facts.log, options.policy, now_ms, lambda version: is_self_contained(log, listing, version, thorough=True))
    facts = replace(facts, log=checked)
    for base in bases_to_read(facts, options, now_ms):
        found = None if facts.base_splits is None else _paths_of(log, listing, base)
        base_splits = None if facts.base_splits is None or found is None else facts.base_splits | found
        facts = replace(facts, read_bases=facts.read_bases | {base}, base_splits=base_splits)
    return facts


@dataclass(frozen=True, slots=True)
class _VersionFacts:
    """Facts from version files: commit times, removals and added paths."""

    times: dict[int, int] = field(default_factory=dict)
    removed_at: dict[str, int] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)

    def include(self, file: VersionFile, modified_ms: int, root: TableRoot) -> None:
        time = self.times[file.version] = commit_time(file, modified_ms)
        has_commit_info = any(isinstance(item, CommitInfo) for item in file.items)
        for item in file.items:
            if isinstance(item, Remove):
                own = item.deletion_timestamp  # counts alone if the version has no commitInfo
                moment = max(time, own or 0) if has_commit_info or own is None else own
                path = root.relative(item.path)
                self.removed_at[path] = max(moment, self.removed_at.get(path, 0))
            elif isinstance(item, Add) and file.version > 0:
                self.added.add(root.relative(item.path))
            elif isinstance(item, AddBlock) and file.version > 0:
                self.added.update(item.texts)  # paths in a block are not encoded


def _read_versions(context: TableContext, versions: Sequence[int], folder: FolderListing) -> _VersionFacts:
    """Reads a few files at a time to bound memory."""
    found = _VersionFacts()
    for start in range(0, len(versions), _AT_A_TIME):
        for file in context.log.read_present(versions[start : start + _AT_A_TIME]):
            # A version committed after the listing has no time in it; use the current time.
            name = names.version_path(file.version).removeprefix(LOG_FOLDER + "/")
            found.include(file, folder.log.get(name, (0, context.clock.now_ms()))[1], context.root)
    return found


def _log_facts(log: TransactionLog, snapshot: Snapshot, inventory: Inventory, times: Mapping[int, int]) -> LogFacts:
    present = {version: file for version, file in inventory.versions.items() if version in times}
    inventory = replace(inventory, versions=present)  # another purge may have deleted the others since the listing
    named, unreadable = referenced_manifests(log, inventory)
    return LogFacts(
        inventory=inventory,
        newest_version=snapshot.version,
        newest_checkpoint=snapshot.checkpoint,
        times={version: time for version, time in times.items() if time > 0},
        is_base={},
        references=named,
        unreadable=unreadable,
        incomplete_states=[version for version in named if is_incomplete_state(log, version)],
    )


def _paths_of(log: TransactionLog, listing: LogListing, version: int) -> frozenset[str] | None:
    try:
        replay, _ = read_checkpoint(log, listing, version)
        return frozenset(FileLoader(log).load(replay.files()).paths())
    except UnsafePath:
        raise
    except LogCorrupted:
        return None
