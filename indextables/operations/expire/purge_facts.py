"""Gathers the facts for a purge plan: the files in the table's folder, and what the log records about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from indextables.actions import Action, Add, AddBlock, CommitInfo, Remove
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import LogListing, TransactionLog, VersionFile, names
from indextables.operations.checkpoint import is_incomplete_state, is_self_contained, referenced_manifests, with_checked_bases
from indextables.operations.expire.folder_listing import FolderListing
from indextables.operations.expire.purge_plan import PurgeFacts, PurgeOptions, bases_to_read
from indextables.paths import LOG_FOLDER, TableRoot
from indextables.state import FileLoader, Inventory, LogFacts, read_checkpoint
from indextables.table import Snapshot, TableContext, commit_time

_AT_A_TIME = 64  # version files


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
    judged = with_checked_bases(facts.log, options.policy, now_ms, lambda version: is_self_contained(log, listing, version, thorough=True))
    facts = replace(facts, log=judged)
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
        actions = [item for item in file.items if not isinstance(item, AddBlock)]
        for path, moment in _removals(actions, time, root):
            self.removed_at[path] = max(moment, self.removed_at.get(path, 0))
        if file.version > 0:
            self.added.update(root.relative(action.path) for action in actions if isinstance(action, Add))
            for item in file.items:
                if isinstance(item, AddBlock):
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
        current=snapshot.version,
        latest=snapshot.checkpoint,
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


def _removals(actions: Sequence[Action], time_ms: int, root: TableRoot) -> Iterator[tuple[str, int]]:
    """Path and time of every removal in a version. Without a commitInfo, the remove action's own timestamp is used."""
    has_commit_info = any(isinstance(action, CommitInfo) for action in actions)
    for action in actions:
        if isinstance(action, Remove):
            own = action.deletion_timestamp
            yield root.relative(action.path), max(time_ms, own or 0) if has_commit_info or own is None else own
