"""What purge plans with: everything that lies in the table's folder, and what the log says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from indextables import limits
from indextables.actions import Add, CommitInfo, Remove
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import names
from indextables.log.log import TransactionLog, VersionFile
from indextables.log.names import LogListing
from indextables.operations.cleanup import is_leaning, named_manifests, stands_alone
from indextables.paths import LOG_FOLDER, TableRoot, is_our_split
from indextables.state import formats
from indextables.state.inventory import File, Inventory
from indextables.state.retention import HOUR, Facts
from indextables.storage import Entry
from indextables.table.context import TableContext
from indextables.table.history import commit_time
from indextables.table.protocol import check_owned
from indextables.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PurgeFacts:
    """The files were listed before the log was read: what was committed in between is live."""

    files: Mapping[str, File]  # of the whole table folder by path, the log's excepted
    snapshot: Snapshot
    log: Facts
    removed_at: Mapping[str, int]  # ms, the last removal of every path the retained versions removed
    added: Collection[str]  # paths that the retained versions after 0 added
    paths_of_base: Callable[[int], Collection[str] | None]  # files that a checkpoint or state lists; None: it cannot be read


def gather(context: TableContext) -> PurgeFacts:
    """Lists first, reads the log last; raises on a gap, an unreadable version or a hostile path, and nothing is deleted then."""
    everything = list(context.store.list(""))
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    check_owned(snapshot.protocol)
    listing = context.log.listing()
    stamps = {e.path.removeprefix(LOG_FOLDER + "/"): (e.size, e.modified_ms) for e in everything if e.path.startswith(LOG_FOLDER + "/")}
    times: dict[int, int] = {}
    removed: dict[str, int] = {}
    added: set[str] = set()
    for file in context.log.read_present([v for v in listing.versions if v <= snapshot.version]):
        # A version that came after the listing is young: its age is not known, so it is now.
        modified = stamps.get(names.version_path(file.version).removeprefix(LOG_FOLDER + "/"), (0, context.clock.now_ms()))[1]
        times[file.version] = commit_time(file, modified)
        for path, moment in _removals(file, times[file.version], context.root):
            removed[path] = max(moment, removed.get(path, 0))
        added.update(context.root.relative(a.path) for a in file.actions if isinstance(a, Add) and file.version > 0)
    return PurgeFacts(
        files={entry.path: File.of(entry.path, entry.size, entry.modified_ms) for entry in own_files(everything)},
        snapshot=snapshot,
        log=_log_facts(context.log, listing, snapshot, _without_expired(Inventory.of(stamps), times), times),
        removed_at=removed,
        added=added,
        paths_of_base=lambda base: _paths_of(context.log, listing, base),
    )


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


def own_files(everything: Sequence[Entry]) -> list[Entry]:
    """All but the log's, and but those of another table that lies in a folder of this one: its splits are none of ours."""
    logs = {entry.path.partition(f"/{LOG_FOLDER}/")[0] for entry in everything if f"/{LOG_FOLDER}/" in entry.path}
    others = (f"{LOG_FOLDER}/", *(f"{folder}/" for folder in logs))
    return [entry for entry in everything if not entry.path.startswith(others)]


def is_unknown(file: File, facts: PurgeFacts) -> bool:
    """Whether a split is in no version that is retained: neither live nor removed."""
    return is_our_split(file.path) and file.path not in facts.snapshot.files and file.path not in facts.removed_at


def is_fresh(file: File, now_ms: int) -> bool:
    """Whether it may belong to a write that is not committed yet."""
    return file.modified_ms is None or file.modified_ms > now_ms - limits.ORPHAN_HOURS * HOUR


def _removals(file: VersionFile, time_ms: int, root: TableRoot) -> Iterator[tuple[str, int]]:
    """Path and time of every removal in a version. Where the commit does not say when it was made, the remove itself does."""
    signed = any(isinstance(action, CommitInfo) for action in file.actions)
    for action in file.actions:
        if isinstance(action, Remove):
            own = action.deletion_timestamp
            yield root.relative(action.path), max(time_ms, own or 0) if signed or own is None else own
