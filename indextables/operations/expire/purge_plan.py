"""The purge plan: which files to delete, decided purely from a listing of the folder and facts of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.log import LogListing
from indextables.operations.expire.folder_listing import FolderListing
from indextables.paths import is_our_split, is_split
from indextables.state import Deletion, File, FileKind, LogFacts, NotGathered, Plan, Policy, retention
from indextables.table import Snapshot

UNREFERENCED = "not referenced by any version"


@dataclass(frozen=True, slots=True)
class PurgeOptions:
    older_than_ms: int
    unreferenced_ms: int  # minimum age of splits that no version references
    max_splits: int
    policy: Policy  # of the log


@dataclass(frozen=True, slots=True)
class PurgeFacts:
    """The input of a purge plan. The files are listed before the log is read, so a split committed in between is live."""

    folder: FolderListing
    live: frozenset[str]  # paths in the newest version
    snapshot: Snapshot
    log: LogFacts
    removed_at: Mapping[str, int]  # ms; the last removal of each path in the retained versions
    added: Collection[str]  # paths that the retained versions after 0 added
    listing: LogListing  # of the log, as it was read
    read_bases: frozenset[int] = frozenset()  # versions whose checkpoints and states have been read
    base_splits: frozenset[str] | None = frozenset()  # the splits that these list; None: one of them cannot be read

    def dead_splits(self) -> Iterator[File]:
        """The listed splits of this table that are not live: those with our names, and another program's with a logged removal."""
        for row, path in self.folder:
            if path not in self.live and (is_our_split(path) or (path in self.removed_at and is_split(path))):
                yield self.folder.file(row)

    def unreferenced_splits(self) -> list[File]:
        """Splits that are neither live nor removed in any retained version."""
        return [file for file in self.dead_splits() if file.path not in self.removed_at]


def plan_purge(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> Plan:
    """Pure. All deletions by kind, splits last and the largest first. The order in which kinds are deleted is that of `purge_files.run`."""
    log = retention.plan(facts.log, options.policy, now_ms)
    splits = _split_deletions(facts, log, options, now_ms)
    found = sorted(splits.deletions, key=lambda deletion: (-deletion.size, deletion.path))
    cut = []
    if len(found) > options.max_splits:
        cut.append(f"{options.max_splits} of {len(found)} dead splits are deleted, largest first (purge.maxFilesToDelete); purge again")
    temporaries = _temporaries(facts, options, now_ms)
    return Plan([*log.deletions, *temporaries, *found[: options.max_splits]], [*log.kept_reasons, *splits.kept_reasons, *cut])


def _temporaries(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> list[Deletion]:
    """Temporary files past the minimum age. Younger ones are kept whatever the options say: their writer may be running."""
    end = now_ms - max(options.unreferenced_ms, options.policy.unfinished_parts)
    old = [file for file in facts.folder.temporaries() if file.modified_ms is not None and file.modified_ms <= end]
    return [Deletion(FileKind.TEMPORARY, (file,), "left by a writer that was killed") for file in old]


def bases_to_read(facts: PurgeFacts, options: PurgeOptions, now_ms: int) -> list[int]:
    """Pure. The versions whose checkpoints and states must be read before the plan; empty if no split depends on them."""
    bases = _older_bases(facts, retention.plan(facts.log, options.policy, now_ms))
    if not bases or not _are_lost_removals_expired(facts, now_ms - options.older_than_ms):
        return []
    is_any = any(_is_old_unreferenced(facts, file, now_ms - options.unreferenced_ms) for file in facts.dead_splits())
    return [base for base in bases if base not in facts.read_bases] if is_any else []


def _split_deletions(facts: PurgeFacts, log: Plan, options: PurgeOptions, now_ms: int) -> Plan:
    """Deletions of splits that are neither live nor recently removed.

    A split that a retained version added or a retained checkpoint lists is kept if its removal is unknown: the version with the removal
    may have been deleted by another program.
    """
    cutoff = now_ms - options.older_than_ms
    removals_are_old = _are_lost_removals_expired(facts, cutoff)
    dead, unknown, ageless = [], [], 0
    for file in facts.dead_splits():
        if file.modified_ms is None:
            ageless += 1
        elif file.path in facts.removed_at:
            if max(facts.removed_at[file.path], file.modified_ms) <= cutoff:
                dead.append(Deletion(FileKind.SPLIT, facts.folder.with_checksum_file(file), "removed from the table"))
        elif removals_are_old and _is_old_unreferenced(facts, file, now_ms - options.unreferenced_ms):
            unknown.append(Deletion(FileKind.SPLIT, facts.folder.with_checksum_file(file), UNREFERENCED))
    kept_reasons = [f"the store does not report the age of {ageless} splits: they are kept"] if ageless else []
    if not unknown:
        return Plan(dead, kept_reasons)
    base_splits = _splits_in_older_bases(facts, log)
    if base_splits is None:
        reason = f"an old checkpoint cannot be read, so {len(unknown)} splits that no version references are kept"
        return Plan(dead, [*kept_reasons, reason])
    return Plan([*dead, *(deletion for deletion in unknown if deletion.path not in base_splits)], kept_reasons)


def _is_old_unreferenced(facts: PurgeFacts, file: File, latest_ms: int) -> bool:
    """Whether no retained version added or removed the file, and it was modified at `latest_ms` or before."""
    is_old = file.modified_ms is not None and file.modified_ms <= latest_ms
    return is_old and file.path not in facts.removed_at and file.path not in facts.added


def _are_lost_removals_expired(facts: PurgeFacts, cutoff_ms: int) -> bool:
    """Whether every removal in an expired version is past the cutoff: it is at least as old as the oldest retained version."""
    oldest = _first_contiguous_version(facts)
    return oldest <= 1 or facts.log.times.get(oldest, cutoff_ms + 1) <= cutoff_ms


def _first_contiguous_version(facts: PurgeFacts) -> int:
    """The start of the versions that exist without a gap up to the newest; newest + 1 if the newest one does not exist."""
    oldest = facts.snapshot.version + 1
    while oldest - 1 in facts.log.inventory.versions:
        oldest -= 1
    return oldest


def _splits_in_older_bases(facts: PurgeFacts, log: Plan) -> Collection[str] | None:
    """Splits listed by retained checkpoints and states whose removal may be in a missing version. None if one cannot be read."""
    for base in _older_bases(facts, log):
        if base not in facts.read_bases:
            raise NotGathered(base)
    return facts.base_splits


def _older_bases(facts: PurgeFacts, log: Plan) -> list[int]:
    """Versions of retained checkpoints and states that are older than the contiguous versions.

    Compares file by file: version and kind do not distinguish an unfinished checkpoint from a finished one of the same version.
    """
    gone = {file.path for deletion in log.deletions for file in deletion.files}
    inventory, end = facts.log.inventory, _first_contiguous_version(facts) - 1
    found = []
    for base in (base for base in inventory.deletable_bases if base < end):
        files = (*inventory.checkpoints.get(base, ()), *inventory.states.get(base, ()))
        if not all(file.path in gone for file in files):
            found.append(base)
    return found


def may_be_uncommitted(file: File, now_ms: int) -> bool:
    """Whether the file may belong to a write that is not committed yet."""
    return file.modified_ms is None or file.modified_ms > now_ms - limits.UNREFERENCED_HOURS * HOUR_MS
