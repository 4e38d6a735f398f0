"""What of a log may go: expired versions, old checkpoints and states, manifests in no use. Pure; unknown age, and every doubt, means keep.

Every version that is retained keeps its base and all versions from there on. One is retained while it is young, among the newest, at or
after the newest checkpoint, or the current one; version 0 always is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from indextables import limits
from indextables.config import Config
from indextables.state.inventory import File, Inventory

HOUR = 3_600_000
ANY_AGE = -1  # as a retention: nothing is too young to go, and what has no age may go too


class FileKind(StrEnum):
    SPLIT = "split"
    VERSION = "version"
    CHECKPOINT = "checkpoint"
    STATE = "state"
    MANIFEST = "manifest"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Deletion:
    """One thing to delete, which may be of several files; they go in this order."""

    kind: FileKind
    files: tuple[File, ...]
    reason: str
    version: int | None = None

    @property
    def path(self) -> str:
        """Of the file that makes it what it is."""
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def describe(self) -> list[dict[str, Any]]:
        """One line a file."""
        return [{"path": file.path, "kind": str(self.kind), "bytes": file.size, "reason": self.reason} for file in self.files]


@dataclass(frozen=True, slots=True)
class Plan:
    deletions: Sequence[Deletion]
    doubts: Sequence[str] = ()  # why more was not planned


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things are kept, at least; ms where nothing else is said."""

    log: int  # versions
    keep_versions: int  # this many below the newest checkpoint, whatever their age
    checkpoints: int
    keep_states: int  # this many, whatever their age
    states: int
    manifests: int
    loose_parts: int = limits.ORPHAN_HOURS * HOUR

    @classmethod
    def of(cls, config: Config, *, log: int, keep_versions: int) -> Policy:
        return cls(
            log=log,
            keep_versions=keep_versions,
            checkpoints=config.get("checkpointRetention.duration"),
            keep_states=config.get("state.retention.versions"),
            states=config.get("state.retention.hours") * HOUR,
            manifests=config.get("state.gc.minManifestAgeHours") * HOUR,
        )

    @property
    def spacing(self) -> int:
        """Checkpoints this far apart stay although they are old: without them no version could go before the newest checkpoint is itself
        older than the log's retention, which in a table that is written to never comes."""
        return max(self.log // 2, 24 * HOUR)


@dataclass(frozen=True, slots=True)
class LogFacts:
    inventory: Inventory
    current: int  # the newest version of the table
    latest: int | None  # the newest checkpoint or state that is valid
    times: Mapping[int, int]  # ms, of the versions whose age is known
    is_base: Mapping[int, bool]  # whether the checkpoint of a version can be read, and needs nothing older; of those in `unchecked_base`
    references: Mapping[int, Collection[str]] | None = None  # paths of the manifests a state names; None: nobody looked
    unreadable: Mapping[int, str] = field(default_factory=dict)  # states that cannot be read, and why
    leaning: Collection[int] = ()  # states that leave the metadata or the protocol to older files


class NotGathered(LookupError):
    """A plan depends on a fact that was not gathered for it."""

    def __init__(self, version: int) -> None:
        super().__init__(f"whether the checkpoint of version {version} is a base was not gathered")
        self.version = version


def unchecked_base(facts: LogFacts, policy: Policy, now_ms: int) -> int | None:
    """Pure. The next version of which `plan` has to know whether its checkpoint is a base; None: it has all facts.

    To find out, a checkpoint is read to its last byte, and a plan depends on few of them. So they are gathered one by one.
    """
    try:
        _retained(facts, policy, now_ms)
    except NotGathered as missing:
        return missing.version
    return None


def plan(facts: LogFacts, policy: Policy, now_ms: int) -> Plan:
    """Pure. Versions first, then checkpoints, states, manifests. NotGathered unless `unchecked_base` is None."""
    loose = _loose_parts(facts, policy, now_ms)
    if facts.latest is None:
        return Plan(loose)
    expired, kept, bases = _retained(facts, policy, now_ms)
    states = _old_states(facts, policy, now_ms, bases)
    versions = [] if (leans := _leaning(facts, states)) else _versions(facts, expired - kept)
    states = [] if leans else states
    manifests, doubts = _unused_manifests(facts, policy, now_ms, states)
    return Plan([*versions, *_old_checkpoints(facts, policy, now_ms, bases), *loose, *states, *manifests], [*leans, *doubts])


def _retained(facts: LogFacts, policy: Policy, now_ms: int) -> tuple[set[int], set[int], set[int]]:
    """The versions that have expired, those that are kept whether they have or not, and the bases that are kept."""
    if facts.latest is None:
        return set(), set(), set()
    expired = _expired(facts, policy, now_ms)
    kept, bases = _needed(facts, expired)
    return expired, kept, bases | _spaced(facts, policy, kept, bases)


def _is_base(facts: LogFacts, version: int) -> bool:
    if version not in facts.is_base:
        raise NotGathered(version)
    return facts.is_base[version]


def _is_older(time_ms: int | None, than_ms: int, now_ms: int) -> bool:
    """An unknown age is never old, where the age counts."""
    return than_ms == ANY_AGE or (time_ms is not None and now_ms - time_ms > than_ms)


def _expired(facts: LogFacts, policy: Policy, now_ms: int) -> set[int]:
    """Versions that no gate keeps for their own sake (RET-01, C-19, C-20), also such as only a checkpoint or state tells of."""
    assert facts.latest is not None
    end = min(facts.latest - policy.keep_versions, facts.current)
    known = {*facts.inventory.versions, *facts.inventory.bases}
    return {version for version in known if 0 < version < end and _is_older(_time(facts, version), policy.log, now_ms)}


def _time(facts: LogFacts, version: int) -> int | None:
    if version in facts.inventory.versions:
        return facts.times.get(version)
    return base_time(facts.inventory, version)


def base_time(inventory: Inventory, version: int) -> int | None:
    """Of the last of its files; None where the time of any is not known."""
    files = [*inventory.checkpoints.get(version, ()), *inventory.states.get(version, ())]
    times = [file.modified_ms for file in files if file.modified_ms is not None]
    return max(times) if files and len(times) == len(files) else None


def _runs(versions: Iterable[int]) -> list[range]:
    """Versions without a gap between them belong together: one can be read from any base before it in its run."""
    runs: list[range] = []
    for version in sorted(versions):
        if runs and runs[-1].stop == version:
            runs[-1] = range(runs[-1].start, version + 1)
        else:
            runs.append(range(version, version + 1))
    return runs


def _needed(facts: LogFacts, expired: set[int]) -> tuple[set[int], set[int]]:
    """The version files and the bases without which a retained version could not be read (C-50)."""
    assert facts.latest is not None
    versions, with_checkpoint = facts.inventory.versions, facts.inventory.bases
    kept: set[int] = {0, max(versions, default=0)}  # other programs tell the next version from the newest file
    bases = {facts.latest, *(base for base in with_checkpoint if base not in versions and base not in expired)}
    for run in _runs(versions):
        retained = [version for version in run if version > 0 and version not in expired]
        if not retained:
            continue
        before = (base for base in reversed(with_checkpoint) if run.start - 1 <= base <= retained[0])
        base = next((base for base in before if _is_base(facts, base)), None)
        kept.update(run if base is None else range(base, run.stop))
        if base is None and run.start > 0:  # the first ones cannot be read; what can is read from here
            base = next((base for base in with_checkpoint if base in run and _is_base(facts, base)), None)
        bases |= set() if base is None else {base}
    return kept, bases


def _spaced(facts: LogFacts, policy: Policy, kept: set[int], bases: set[int]) -> set[int]:
    """Of the checkpoints after the oldest needed one some far apart, which will be the bases of what is young today."""
    oldest = min((version for version in kept if version > 0), default=0)
    last = _time(facts, oldest)
    chosen = set()
    for base in facts.inventory.bases:
        time = _time(facts, base)
        if base < oldest or time is None:
            continue
        if base in bases or (last is not None and time - last > policy.spacing and _is_base(facts, base)):
            chosen.add(base)
            last = time
    return chosen


def _versions(facts: LogFacts, gone: set[int]) -> list[Deletion]:
    files = facts.inventory
    reason = f"expired; checkpoint {facts.latest} or an older one stands for it"
    return [
        Deletion(FileKind.VERSION, files.with_side_files([files.versions[version]]), reason, version)
        for version in sorted(gone & set(files.versions))
    ]


def _old_checkpoints(facts: LogFacts, policy: Policy, now_ms: int, bases: set[int]) -> list[Deletion]:
    """RET-03: JSON and Parquet."""
    assert facts.latest is not None
    found = []
    for version, files in sorted(facts.inventory.checkpoints.items()):
        if version < facts.latest and version not in bases and _all_older(files, policy.checkpoints, now_ms):
            reason = f"old; checkpoint {facts.latest} is newer, and no retained version begins with this one"
            found.append(Deletion(FileKind.CHECKPOINT, facts.inventory.with_side_files(files), reason, version))
    return found


def _loose_parts(facts: LogFacts, policy: Policy, now_ms: int) -> list[Deletion]:
    """A checkpoint that is being written has young parts and no head yet."""
    return [
        Deletion(FileKind.CHECKPOINT, facts.inventory.with_side_files(files), "part of a checkpoint that was never finished", version)
        for version, files in sorted(facts.inventory.loose_parts.items())
        if _all_older(files, policy.loose_parts, now_ms)
    ]


def _all_older(files: Iterable[File], than_ms: int, now_ms: int) -> bool:
    return all(_is_older(file.modified_ms, than_ms, now_ms) for file in files)


def _old_states(facts: LogFacts, policy: Policy, now_ms: int, bases: set[int]) -> list[Deletion]:
    """RET-09, C-48: beyond the newest ones, and old, and no manifest in its folder is named by a state that stays."""
    assert facts.latest is not None
    readable = [version for version in sorted(facts.inventory.states) if version not in facts.unreadable]
    newest = {*readable[max(0, len(readable) - policy.keep_states) :], *(v for v in facts.inventory.states if v >= facts.latest)}
    candidates = {
        version: files
        for version, files in sorted(facts.inventory.states.items())
        if version not in newest and version not in bases and _all_older(files, policy.states, now_ms)
    }
    named = _named(facts, set(facts.inventory.states) - set(candidates))
    reason = f"old; state {max(facts.inventory.states, default=0)} is newer, and no retained version begins with this one"
    return [
        Deletion(FileKind.STATE, facts.inventory.with_side_files(files), reason, version)
        for version, files in candidates.items()
        if _is_free(facts.inventory.in_folder_of(version), named)
    ]


def _named(facts: LogFacts, retained: Collection[int]) -> set[str] | None:
    """Manifests that these states name; None where it is not known of all."""
    if facts.references is None or any(state not in facts.references for state in retained):
        return None
    return {path for state in retained for path in facts.references[state]}


def _is_free(inside: Sequence[File], named: set[str] | None) -> bool:
    return not inside or (named is not None and all(file.path not in named for file in inside))


def _leaning(facts: LogFacts, states: Sequence[Deletion]) -> list[str]:
    retained = sorted(set(facts.leaning) - {deletion.version for deletion in states})
    if not retained:
        return []
    return [f"state {retained[-1]} leaves the metadata or the protocol to older files: versions and states are kept"]


def _unused_manifests(facts: LogFacts, policy: Policy, now_ms: int, states: Sequence[Deletion]) -> tuple[list[Deletion], list[str]]:
    """GC-01, C-49. Nothing goes unless every state that stays was read."""
    files = facts.inventory
    if facts.references is None or not files.manifests:
        return [], []
    retained = set(files.states) - {deletion.version for deletion in states}
    unread = sorted(retained - set(facts.references))
    if not retained:
        return [], ["no state says which manifests are in use: all are kept"]
    if unread:
        why = facts.unreadable.get(unread[-1], "it came after the listing")
        return [], [f"state {unread[-1]} cannot be read, so all manifests are kept: {why}"]
    if not files.has_pointer:
        return [], ["_last_checkpoint is missing, so all manifests are kept; a checkpoint writes it anew"]
    named = {path for state in retained for path in facts.references[state]}
    unused = [file for path, file in sorted(files.manifests.items()) if path not in named]
    old = [file for file in unused if _is_older(file.modified_ms, policy.manifests, now_ms)]
    return [Deletion(FileKind.MANIFEST, files.with_side_files([file]), "no retained state names it") for file in old], []
