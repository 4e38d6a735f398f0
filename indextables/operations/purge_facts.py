"""What purge plans with: everything that lies in the table's folder, and what the log says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from indextables import limits
from indextables.actions import Action, Add, CommitInfo, Remove
from indextables.actions.spellings import AddBlock
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import names
from indextables.log.log import TransactionLog, VersionFile
from indextables.log.names import LogListing
from indextables.operations.cleanup import is_leaning, named_manifests, stands_alone
from indextables.operations.listed import Listed
from indextables.paths import LOG_FOLDER, TableRoot, is_our_split, is_split
from indextables.state import formats
from indextables.state.inventory import File, Inventory
from indextables.state.retention import HOUR, Facts
from indextables.table.context import TableContext
from indextables.table.history import commit_time
from indextables.table.snapshot import Snapshot

_AT_A_TIME = 64  # version files


@dataclass(frozen=True, slots=True)
class PurgeFacts:
    """The files were listed before the log was read: what was committed in between is live."""

    listed: Listed
    live: frozenset[str]  # paths, of the newest version
    snapshot: Snapshot
    log: Facts
    removed_at: Mapping[str, int]  # ms, the last removal of every path the retained versions removed
    added: Collection[str]  # paths that the retained versions after 0 added
    paths_of_base: Callable[[int], Collection[str] | None]  # files that a checkpoint or state lists; None: it cannot be read

    def is_dead_split(self, path: str) -> bool:
        """Whether a listed file is a split of this table that is not live: by its name, or, of another program's, by its removal."""
        return path not in self.live and (is_our_split(path) or (path in self.removed_at and is_split(path)))


def gather(context: TableContext) -> PurgeFacts:
    """Lists first, reads the log last; raises on a gap, an unreadable version or a hostile path, and nothing is deleted then."""
    listed = Listed.of(context.store.list(""))
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    listing = context.log.listing()
    told = _told(context, [v for v in listing.versions if v <= snapshot.version], listed)
    return PurgeFacts(
        listed=listed,
        live=frozenset(snapshot.files.paths()),
        snapshot=snapshot,
        log=_log_facts(context.log, listing, snapshot, _without_expired(Inventory.of(listed.log), told.times), told.times),
        removed_at=told.removed_at,
        added=told.added,
        paths_of_base=lambda base: _paths_of(context.log, listing, base),
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What version files say."""

    times: dict[int, int] = field(default_factory=dict)
    removed_at: dict[str, int] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)

    def hear(self, file: VersionFile, modified_ms: int, root: TableRoot) -> None:
        time = self.times[file.version] = commit_time(file, modified_ms)
        actions = [item for item in file.items if not isinstance(item, AddBlock)]
        for path, moment in _removals(actions, time, root):
            self.removed_at[path] = max(moment, self.removed_at.get(path, 0))
        if file.version > 0:
            self.added.update(root.relative(action.path) for action in actions if isinstance(action, Add))
            for item in file.items:
                if isinstance(item, AddBlock):
                    self.added.update(item.texts)  # their paths are plain


def _told(context: TableContext, versions: Sequence[int], listed: Listed) -> _Told:
    """A few files at a time: all of them may take more memory than the rest of the table's facts."""
    told = _Told()
    for start in range(0, len(versions), _AT_A_TIME):
        for file in context.log.read_present(versions[start : start + _AT_A_TIME]):
            # A version that came after the listing is young: its age is not known, so it is now.
            name = names.version_path(file.version).removeprefix(LOG_FOLDER + "/")
            told.hear(file, listed.log.get(name, (0, context.clock.now_ms()))[1], context.root)
    return told


def _without_expired(inventory: Inventory, times: Mapping[int, int]) -> Inventory:
    """Version files that another purge took since the listing are not there to be thought about."""
    versions = {version: file for version, file in inventory.versions.items() if version in times}
    return Inventory(
        versions,
        inventory.checkpoints,
        inventory.states,
        inventory.manifests,
        inventory.loose_parts,
        inventory.side_files,
        inventory.has_pointer,
    )


def _log_facts(log: TransactionLog, listing: LogListing, snapshot: Snapshot, inventory: Inventory, times: Mapping[int, int]) -> Facts:
    named, unreadable = named_manifests(log, inventory)
    return Facts(
        inventory=inventory,
        current=snapshot.version,
        latest=snapshot.checkpoint,
        times={version: time for version, time in times.items() if time > 0},
        is_base=cache(lambda version: stands_alone(log, listing, version, thorough=True)),
        references=named,
        unreadable=unreadable,
        leaning=[version for version in named if is_leaning(log, version)],
    )


def _paths_of(log: TransactionLog, listing: LogListing, version: int) -> Collection[str] | None:
    try:
        replay, _ = formats.read(log, listing, version)
        return frozenset(replay.files().paths())
    except UnsafePath:
        raise
    except LogCorrupted:
        return None


def unknown_splits(facts: PurgeFacts) -> Iterator[File]:
    """Those that are in no version that is retained: neither live nor removed."""
    for row, path in facts.listed:
        if facts.is_dead_split(path) and path not in facts.removed_at:
            yield facts.listed.file(row)


def is_fresh(file: File, now_ms: int) -> bool:
    """Whether it may belong to a write that is not committed yet."""
    return file.modified_ms is None or file.modified_ms > now_ms - limits.ORPHAN_HOURS * HOUR


def _removals(actions: Sequence[Action], time_ms: int, root: TableRoot) -> Iterator[tuple[str, int]]:
    """Path and time of every removal in a version. Where the commit does not say when it was made, the remove itself does."""
    signed = any(isinstance(action, CommitInfo) for action in actions)
    for action in actions:
        if isinstance(action, Remove):
            own = action.deletion_timestamp
            yield root.relative(action.path), max(time_ms, own or 0) if signed or own is None else own
