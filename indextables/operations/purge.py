"""Purge: deletes version files and checkpoints that have expired, and splits that were dead for long enough. Nothing else.

A split may go when it was removed longer ago than the retention and was not created after that. What no version knows (a leftover)
goes by its age alone. Only names that our writers give are ever touched, symbolic links neither followed nor deleted. Every doubt stops it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from indextables import limits
from indextables.actions import CommitInfo, Remove
from indextables.config import parse_duration
from indextables.errors import InvalidArgument, LogCorrupted, StorageError
from indextables.log import names
from indextables.log.log import TransactionLog, VersionFile
from indextables.operations.executor import Executor, in_threads
from indextables.operations.report import Report, Status, reporter
from indextables.paths import LOG_FOLDER, TableRoot, is_our_split
from indextables.state.json_checkpoint import read_checkpoint
from indextables.storage import Entry, StoreSpec
from indextables.table.context import TableContext
from indextables.table.history import commit_time
from indextables.table.protocol import check_owned
from indextables.table.snapshot import Snapshot


class Kind(StrEnum):
    SPLIT = "split"
    VERSION = "version"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Deletion:
    path: str
    kind: Kind
    size: int
    reason: str

    def describe(self) -> dict[str, Any]:
        return {"path": self.path, "kind": str(self.kind), "bytes": self.size, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class PurgeFacts:
    """Everything a plan is made from. The files were listed before the log was read: what was committed in between is live."""

    files: Sequence[Entry]  # of the whole table folder, the log's excepted
    log_files: Sequence[Entry]
    snapshot: Snapshot
    version_times: Mapping[int, int]  # ms, of every retained version
    removed_at: Mapping[str, int]  # ms, the last removal of every path the retained versions removed
    valid_checkpoints: Sequence[int]


@dataclass(frozen=True, slots=True)
class PurgeOptions:
    older_than_ms: int
    log_retention_ms: int
    orphan_ms: int  # what no version knows is kept at least this long


def options_of(context: TableContext, older_than: str, log_retention: str) -> PurgeOptions:
    age = parse_duration(older_than)
    floor = limits.ORPHAN_HOURS * 3_600_000 if context.config.get("purge.retentionCheckEnabled") else 0
    return PurgeOptions(age, parse_duration(log_retention), max(age, floor))


def gather(context: TableContext) -> PurgeFacts:
    """Lists first, reads the log last; raises on a gap, an unreadable version or a hostile path, and nothing is deleted then."""
    everything = list(context.store.list(""))
    log_files = [entry for entry in everything if entry.path.startswith(LOG_FOLDER + "/")]
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    check_owned(snapshot.protocol)
    modified = {entry.path: entry.modified_ms for entry in log_files}
    times: dict[int, int] = {}
    removed: dict[str, int] = {}
    for file in context.log.read_present([v for v in context.log.listing().versions if v <= snapshot.version]):
        # A version that came after the listing is young: its age is not known, so it is now.
        times[file.version] = commit_time(file, modified.get(names.version_path(file.version), context.clock.now_ms()))
        for path, moment in _removals(file, times[file.version], context.root):
            removed[path] = max(moment, removed.get(path, 0))
    return PurgeFacts(_own_files(everything), log_files, snapshot, times, removed, _valid_checkpoints(context.log, snapshot))


def _own_files(everything: Sequence[Entry]) -> list[Entry]:
    """All but the log's, and but those of another table that lies in a folder of this one: its splits are none of ours."""
    logs = {entry.path.partition(f"/{LOG_FOLDER}/")[0] for entry in everything if f"/{LOG_FOLDER}/" in entry.path}
    others = (f"{LOG_FOLDER}/", *(f"{folder}/" for folder in logs))
    return [entry for entry in everything if not entry.path.startswith(others)]


def _removals(file: VersionFile, time_ms: int, root: TableRoot) -> Iterator[tuple[str, int]]:
    """Path and time of every removal in a version. Where the commit does not say when it was made, the remove itself does."""
    signed = any(isinstance(action, CommitInfo) for action in file.actions)
    for action in file.actions:
        if isinstance(action, Remove):
            own = action.deletion_timestamp
            yield root.relative(action.path), max(time_ms, own or 0) if signed or own is None else own


def plan(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> list[Deletion]:
    """Pure. Version files first, then checkpoints, then splits."""
    return [*_expired_log(facts, now_ms - options.log_retention_ms), *_dead_splits(facts, options, now_ms)]


def _expired_log(facts: PurgeFacts, cutoff_ms: int) -> list[Deletion]:
    """Versions and checkpoints that no retained version needs. Version 0 stays, and so does the base of the oldest retained one."""
    young = [version for version, time in facts.version_times.items() if time >= cutoff_ms]
    oldest_retained = min([facts.snapshot.version, *(v for v in young if v > 0)])
    bases = [version for version in facts.valid_checkpoints if version <= oldest_retained]
    if not bases:
        return []
    base = max(bases)
    sizes = {entry.path: entry.size for entry in facts.log_files}
    versions = [(names.version_path(v), Kind.VERSION) for v in sorted(facts.version_times) if 0 < v < base]
    checkpoints = [(names.checkpoint_path(v), Kind.CHECKPOINT) for v in sorted(facts.valid_checkpoints) if v < base]
    reason = f"expired; checkpoint {base} stands for it"
    return [Deletion(path, kind, sizes[path], reason) for path, kind in (*versions, *checkpoints) if path in sizes]


def _dead_splits(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> list[Deletion]:
    deletions = []
    for entry in facts.files:
        if is_our_split(entry.path) and entry.path not in facts.snapshot.files:
            reason = _why_dead(entry, facts, options, now_ms)
            if reason is not None:
                deletions.append(Deletion(entry.path, Kind.SPLIT, entry.size, reason))
    return deletions


def _why_dead(entry: Entry, facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> str | None:
    """Why a split that is not live may go; None: it may not."""
    cutoff = now_ms - options.older_than_ms
    if entry.path in facts.removed_at:
        return "removed from the table" if max(facts.removed_at[entry.path], entry.modified_ms) <= cutoff else None
    if entry.modified_ms > now_ms - options.orphan_ms:
        return None
    # Its removal may have stood in a version that has expired: then it is at least as old as the oldest version we have.
    oldest = _oldest_unbroken(facts)
    if oldest > 1 and (oldest not in facts.version_times or facts.version_times[oldest] > cutoff):
        return None
    return "in no version of the table"


def _oldest_unbroken(facts: PurgeFacts) -> int:
    """Every version from this one to the newest is there; one more than the newest where not even that is."""
    oldest = facts.snapshot.version + 1
    while oldest - 1 in facts.version_times:
        oldest -= 1
    return oldest


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Deletes one file, on whatever machine; None when done, else why not. Gone already is done."""

    store: StoreSpec

    def __call__(self, path: str) -> str | None:
        try:
            self.store.open().delete(path)
        except StorageError as error:
            return f"could not delete {error}"
        return None


def run(context: TableContext, deletions: Sequence[Deletion], base_version: int, executor: Executor = in_threads) -> Report:
    report = reporter("purge", str(context.root), context.clock)
    task = DeleteTask(context.store.spec)
    log_part = [d for d in deletions if d.kind is not Kind.SPLIT]
    splits = [d for d in deletions if d.kind is Kind.SPLIT]
    # The log's files in order and here: readers that list meanwhile always find a base and its tail.
    problems = [task(d.path) for d in log_part] + executor(task, [d.path for d in splits])
    done = [d for d, problem in zip([*log_part, *splits], problems, strict=True) if problem is None]
    warnings = [problem for problem in problems if problem is not None]
    status = Status.NO_ACTION if not deletions else Status.PARTIAL if warnings else Status.SUCCESS
    return report(status, metrics_of(done), base_version=base_version, warnings=warnings)


def metrics_of(deletions: Sequence[Deletion]) -> dict[str, int]:
    counts = {kind: sum(d.kind is kind for d in deletions) for kind in Kind}
    return {
        "files_deleted": counts[Kind.SPLIT],
        "bytes_deleted": sum(d.size for d in deletions),
        "versions_deleted": counts[Kind.VERSION],
        "checkpoints_deleted": counts[Kind.CHECKPOINT],
        "states_deleted": 0,
        "manifests_deleted": 0,
    }


def purge(
    context: TableContext, older_than: str = "7d", log_retention: str = "30d", dry_run: bool = False, executor: Executor = in_threads
) -> Report:
    """Plan, then run; a dry run is the plan alone and changes nothing."""
    for text in (older_than, log_retention):
        if not isinstance(text, str):
            raise InvalidArgument(f"{text!r} is not a duration; write it like 7d or 36h")
    facts = gather(context)
    bound = context.for_table(facts.snapshot)
    deletions = plan(facts, options_of(bound, older_than, log_retention), context.clock.now_ms())
    if not dry_run:
        return run(bound, deletions, facts.snapshot.version, executor)
    report = reporter("purge", str(context.root), context.clock)
    status = Status.SUCCESS if deletions else Status.NO_ACTION
    steps = [deletion.describe() for deletion in deletions]
    result: Report = report(status, metrics_of(deletions), base_version=facts.snapshot.version, dry_run=True, plan=steps)
    return result


def _valid_checkpoints(log: TransactionLog, snapshot: Snapshot) -> list[int]:
    valid = []
    for version in log.listing().checkpoints:
        try:
            read_checkpoint(log.store, version, log.store.root.relative)
        except LogCorrupted:
            continue
        if version <= snapshot.version:
            valid.append(version)
    return valid
