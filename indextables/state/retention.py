"""Plans which files of a log to delete: expired versions, old checkpoints and states, unused manifests. In case of doubt a file is kept.

A version is retained while it is young, among the newest, at or after the newest checkpoint, or current; version 0 always is. A retained
version keeps its base and all versions after that base. A file of unknown age counts as young. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.config import Config
from indextables.state.inventory import File, Inventory

ANY_AGE = -1  # a retention under which files of any age may be deleted, even of unknown age


class FileKind(StrEnum):
    SPLIT = "split"
    VERSION = "version"
    CHECKPOINT = "checkpoint"
    STATE = "state"
    MANIFEST = "manifest"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Deletion:
    """One item to delete; its files are deleted in this order."""

    kind: FileKind
    files: tuple[File, ...]
    reason: str
    version: int | None = None

    @property
    def path(self) -> str:
        """The path of its main file."""
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def describe(self) -> list[dict[str, Any]]:
        """Entries of a dry run's plan, one per file."""
        return [{"path": file.path, "kind": str(self.kind), "bytes": file.size, "reason": self.reason} for file in self.files]


@dataclass(frozen=True, slots=True)
class Plan:
    deletions: Sequence[Deletion]
    kept_reasons: Sequence[str] = ()  # why other files are kept


@dataclass(frozen=True, slots=True)
class Policy:
    """Minimum retention of each type of file, in ms unless noted."""

    log: int  # versions
    keep_versions: int  # number of versions before the newest checkpoint that are kept at any age
    checkpoints: int
    keep_states: int  # number of states that are kept at any age
    states: int
    manifests: int
    unfinished_parts: int = limits.UNREFERENCED_HOURS * HOUR_MS

    @classmethod
    def of(cls, config: Config, *, log: int, keep_versions: int) -> Policy:
        return cls(
            log=log,
            keep_versions=keep_versions,
            checkpoints=config.get("checkpointRetention.duration"),
            keep_states=config.get("state.retention.versions"),
            states=config.get("state.retention.hours") * HOUR_MS,
            manifests=config.get("state.gc.minManifestAgeHours") * HOUR_MS,
        )

    @property
    def spacing(self) -> int:
        """Old checkpoints are kept at this distance, in ms. Without them no version could expire until the newest checkpoint is older than
        the log retention, which never happens in a table with frequent writes."""
        return max(self.log // 2, 24 * HOUR_MS)


@dataclass(frozen=True, slots=True)
class LogFacts:
    inventory: Inventory
    newest_version: int  # of the table
    newest_checkpoint: int | None  # the newest valid checkpoint or state
    times: Mapping[int, int]  # version -> ms, if known
    is_base: Mapping[int, bool]  # version -> whether its checkpoint is readable without older files; see `unchecked_base`
    references: Mapping[int, Collection[str]] | None = None  # state -> paths of its manifests; None: not gathered
    unreadable: Mapping[int, str] = field(default_factory=dict)  # state that cannot be read -> why
    incomplete_states: Collection[int] = ()  # states without metadata or protocol, which depend on older files


class NotGathered(LookupError):
    """The plan depends on a fact that has not been gathered."""

    def __init__(self, version: int) -> None:
        super().__init__(f"whether the checkpoint of version {version} is a valid base was not gathered")
        self.version = version


def unchecked_base(facts: LogFacts, policy: Policy, now_ms: int) -> int | None:
    """The next version whose checkpoint must be checked before `plan` can run; None if all facts are known. Pure.

    Checking a checkpoint means reading it in full, and a plan depends on few of them, so they are checked one by one.
    """
    try:
        _retained(facts, policy, now_ms)
    except NotGathered as missing:
        return missing.version
    return None


def plan(facts: LogFacts, policy: Policy, now_ms: int) -> Plan:
    """The deletions: versions first, then checkpoints, states, manifests. NotGathered unless `unchecked_base` is None. Pure."""
    unfinished = _unfinished_parts(facts, policy, now_ms)
    if facts.newest_checkpoint is None:
        return Plan(unfinished)
    expired, kept, bases = _retained(facts, policy, now_ms)
    states = _old_states(facts, policy, now_ms, bases)
    versions, reasons = _versions(facts, expired - kept), []
    if dependent := set(facts.incomplete_states) - {deletion.version for deletion in states}:
        reasons = [f"state {max(dependent)} has no metadata or no protocol and depends on older files: versions and states are kept"]
        versions, states = [], []
    manifests, kept_reasons = _unused_manifests(facts, policy, now_ms, states)
    return Plan([*versions, *_old_checkpoints(facts, policy, now_ms, bases), *unfinished, *states, *manifests], [*reasons, *kept_reasons])


def _retained(facts: LogFacts, policy: Policy, now_ms: int) -> tuple[set[int], set[int], set[int]]:
    """The expired versions, the versions that are kept even if expired, and the bases that are kept."""
    if facts.newest_checkpoint is None:
        return set(), set(), set()
    # Expired versions have passed every retention limit (RET-01, C-19, C-20); of some only a checkpoint or state is left.
    end = min(facts.newest_checkpoint - policy.keep_versions, facts.newest_version)
    known = {*facts.inventory.versions, *facts.inventory.deletable_bases}
    expired = {version for version in known if 0 < version < end and _is_older(_time(facts, version), policy.log, now_ms)}
    kept, bases = _required(facts, expired)
    return expired, kept, bases | _spaced_bases(facts, policy, kept, bases)


def _is_base(facts: LogFacts, version: int) -> bool:
    if version not in facts.is_base:
        raise NotGathered(version)
    return facts.is_base[version]


def _is_older(time_ms: int | None, than_ms: int, now_ms: int) -> bool:
    """Whether a time is more than `than_ms` ago. An unknown time is not, except under ANY_AGE."""
    return than_ms == ANY_AGE or (time_ms is not None and now_ms - time_ms > than_ms)


def _time(facts: LogFacts, version: int) -> int | None:
    if version in facts.inventory.versions:
        return facts.times.get(version)
    return base_time(facts.inventory, version)


def base_time(inventory: Inventory, version: int) -> int | None:
    """The time of the newest file of a checkpoint or state; None if the time of any of its files is unknown."""
    files = [*inventory.checkpoints.get(version, ()), *inventory.states.get(version, ())]
    times = [file.modified_ms for file in files if file.modified_ms is not None]
    return max(times) if files and len(times) == len(files) else None


def _runs(versions: Iterable[int]) -> Iterator[range]:
    """Groups versions into runs without a gap. A version can be read from any earlier base in its run."""
    for _, numbered in groupby(enumerate(sorted(versions)), lambda pair: pair[1] - pair[0]):
        run = [version for _, version in numbered]
        yield range(run[0], run[-1] + 1)


def _required(facts: LogFacts, expired: set[int]) -> tuple[set[int], set[int]]:
    """The version files and bases that are needed to read every retained version (C-50)."""
    assert facts.newest_checkpoint is not None
    versions, with_checkpoint = facts.inventory.versions, facts.inventory.deletable_bases
    kept: set[int] = {0, max(versions, default=0)}  # other programs derive the next version from the newest file
    bases = {facts.newest_checkpoint, *(base for base in with_checkpoint if base not in versions and base not in expired)}
    for run in _runs(versions):
        retained = [version for version in run if version > 0 and version not in expired]
        if not retained:
            continue
        before = (base for base in reversed(with_checkpoint) if run.start - 1 <= base <= retained[0])
        base = next((base for base in before if _is_base(facts, base)), None)
        kept.update(run if base is None else range(base, run.stop))
        if base is None and run.start > 0:  # the first versions of the run are unreadable; the others are read from this base
            base = next((base for base in with_checkpoint if base in run and _is_base(facts, base)), None)
        bases |= set() if base is None else {base}
    return kept, bases


def _spaced_bases(facts: LogFacts, policy: Policy, kept: set[int], bases: set[int]) -> set[int]:
    """Checkpoints that are kept at a distance of `Policy.spacing`: they become the bases of versions that are young today."""
    oldest = min((version for version in kept if version > 0), default=0)
    last = _time(facts, oldest)
    chosen = set()
    for base in facts.inventory.deletable_bases:
        time = _time(facts, base)
        if base < oldest or time is None:
            continue
        if base in bases or (last is not None and time - last > policy.spacing and _is_base(facts, base)):
            chosen.add(base)
            last = time
    return chosen


def _versions(facts: LogFacts, gone: set[int]) -> list[Deletion]:
    files = facts.inventory
    reason = f"expired; checkpoint {facts.newest_checkpoint} or an older one replaces it"
    return [
        Deletion(FileKind.VERSION, files.with_checksum_files([files.versions[version]]), reason, version)
        for version in sorted(gone & set(files.versions))
    ]


def _old_checkpoints(facts: LogFacts, policy: Policy, now_ms: int, bases: set[int]) -> list[Deletion]:
    """Old JSON and Parquet checkpoints that no retained version needs (RET-03)."""
    assert facts.newest_checkpoint is not None
    reason = f"old; checkpoint {facts.newest_checkpoint} is newer, and no retained version needs this one"
    return [
        Deletion(FileKind.CHECKPOINT, facts.inventory.with_checksum_files(files), reason, version)
        for version, files in sorted(facts.inventory.checkpoints.items())
        if version < facts.newest_checkpoint and version not in bases and _all_older(files, policy.checkpoints, now_ms)
    ]


def _unfinished_parts(facts: LogFacts, policy: Policy, now_ms: int) -> list[Deletion]:
    """Old parts without a head. Young ones are kept: they may belong to a checkpoint that is being written."""
    return [
        Deletion(FileKind.CHECKPOINT, facts.inventory.with_checksum_files(files), "part of a checkpoint that was never finished", version)
        for version, files in sorted(facts.inventory.unfinished_parts.items())
        if _all_older(files, policy.unfinished_parts, now_ms)
    ]


def _all_older(files: Iterable[File], than_ms: int, now_ms: int) -> bool:
    return all(_is_older(file.modified_ms, than_ms, now_ms) for file in files)


def _old_states(facts: LogFacts, policy: Policy, now_ms: int, bases: set[int]) -> list[Deletion]:
    """Old states beyond the newest ones, unless a retained state references a manifest in their folder (RET-09, C-48)."""
    assert facts.newest_checkpoint is not None
    readable = [version for version in sorted(facts.inventory.states) if version not in facts.unreadable]
    newest = {*readable[max(0, len(readable) - policy.keep_states) :], *(v for v in facts.inventory.states if v >= facts.newest_checkpoint)}
    candidates = {
        version: files
        for version, files in sorted(facts.inventory.states.items())
        if version not in newest and version not in bases and _all_older(files, policy.states, now_ms)
    }
    named = _named(facts, set(facts.inventory.states) - set(candidates))
    reason = f"old; state {max(facts.inventory.states, default=0)} is newer, and no retained version needs this one"
    return [
        Deletion(FileKind.STATE, facts.inventory.with_checksum_files(files), reason, version)
        for version, files in candidates.items()
        if all(named is not None and file.path not in named for file in facts.inventory.manifests_in_folder_of(version))
    ]


def _named(facts: LogFacts, retained: Collection[int]) -> set[str] | None:
    """The manifests that these states reference; None if that is unknown for any of them."""
    if facts.references is None or any(state not in facts.references for state in retained):
        return None
    return {path for state in retained for path in facts.references[state]}


def _unused_manifests(facts: LogFacts, policy: Policy, now_ms: int, states: Sequence[Deletion]) -> tuple[list[Deletion], list[str]]:
    """Manifests that no retained state references (GC-01, C-49); none unless every retained state was read."""
    files = facts.inventory
    if facts.references is None or not files.manifests:
        return [], []
    retained = set(files.states) - {deletion.version for deletion in states}
    named = _named(facts, retained)
    if not retained:
        return [], ["without a state it is unknown which manifests are in use: all are kept"]
    if named is None:
        unread = max(retained - set(facts.references))
        why = facts.unreadable.get(unread, "it was written after the listing")
        return [], [f"state {unread} cannot be read, so all manifests are kept: {why}"]
    if not files.has_pointer:
        return [], ["_last_checkpoint is missing, so all manifests are kept; the next checkpoint writes it again"]
    unused = [file for path, file in sorted(files.manifests.items()) if path not in named]
    old = [file for file in unused if _is_older(file.modified_ms, policy.manifests, now_ms)]
    return [Deletion(FileKind.MANIFEST, files.with_checksum_files([file]), "no retained state references it") for file in old], []
