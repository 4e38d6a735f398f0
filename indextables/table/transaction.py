"""Optimistic transactions: build actions on a base version, try to commit the next version, and rebuild on the newer base on conflict."""

from __future__ import annotations

import getpass
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from indextables import interrupts
from indextables.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn
from indextables.clock import Clock
from indextables.config import Config
from indextables.errors import CommitUnknown, ConcurrentConflict, IndexTablesError, StorageError, VersionNotFound
from indextables.log import TransactionLog, VersionFile, is_already_committed
from indextables.state import NEEDED, deduplicated
from indextables.table.loading import load
from indextables.table.opening import advance, load_snapshot, snapshot_after_commit
from indextables.table.protocol import CURRENT, LEGACY, check_writable, has_registry, is_foreign, upgraded, upgraded_to
from indextables.table.snapshot import LoadedSnapshot, Snapshot
from indextables.version import ENGINE


@dataclass(frozen=True, slots=True)
class Draft:
    """The actions that a transaction commits on a given base; empty if there is nothing to do."""

    actions: Sequence[Action]
    metrics: Mapping[str, int] = field(default_factory=dict)
    new_paths: bool = False  # every add has a newly generated path


@dataclass(frozen=True, slots=True)
class Outcome:
    base_version: int
    version: int | None  # None: nothing was committed
    snapshot: Snapshot  # at the committed version, or the newest that was read
    draft: Draft | None  # None: the application transaction was committed before


Build = Callable[[Snapshot], Draft]


def transact(
    log: TransactionLog, base: Snapshot, operation: str, build: Build, *, config: Config, clock: Clock, txn: Txn | None = None
) -> Outcome:
    """Commits the actions that `build` returns as the version after `base`, and retries on the newest base if another writer was faster.

    `build` runs again on every newer base, and raises ConcurrentConflict if its reads no longer hold. ConcurrentConflict is also raised
    when the attempts are used up. In both cases nothing was committed.
    """
    attempts = int(config.get("transaction.retry.maxAttempts"))
    for attempt in range(attempts):
        base.require_no_gap()
        check_writable(base.protocol)
        if txn is not None and is_already_committed(txn, base.txns):
            return Outcome(base.version, None, base, None)
        draft = build(base)
        if not draft.actions:
            return Outcome(base.version, None, base, draft)
        version = base.version + 1
        info = _commit_info(operation, base.version, draft, config, clock)
        has_protocol = base.protocol is not LEGACY or any(isinstance(action, Protocol) for action in draft.actions)
        first = [] if has_protocol else [CURRENT]  # a table without a protocol gets one with its first write (PRT-05)
        txn_actions = [] if txn is None or txn in draft.actions else [txn]
        actions = [info, *first, *txn_actions, *_with_refs(base, draft.actions)]
        with interrupts.defer_interrupts() as versions:  # an interrupt would leave the outcome of the commit unknown
            made = _write(log, version, actions, info, compress=bool(config.get("transaction.compression.enabled")))
            if made and _took_effect(log, version, actions, info):
                versions.append(version)
        if versions:
            with interrupts.naming_commit(version):
                return Outcome(base.version, version, snapshot_after_commit(log, base, version, actions), draft)
        if attempt + 1 < attempts:
            # Exponential and capped, with full jitter, so that writers do not collide again.
            ceiling = min(config.get("transaction.retry.baseDelayMs") * 2**attempt, config.get("transaction.retry.maxDelayMs"))
            clock.sleep(random.uniform(0, ceiling) / 1000)
            base = advance(log, base)
    raise ConcurrentConflict(
        f"concurrent write conflict: failed to write transaction log version {base.version + 1} - file already exists; "
        f"{operation} lost to other writers {'once' if attempts == 1 else f'{attempts} times'}, and nothing was committed"
    )


def _write(log: TransactionLog, version: int, actions: Sequence[Action], info: CommitInfo, *, compress: bool) -> bool:
    """Whether this commit created the version. After a store failure the version is read back; CommitUnknown if that fails too."""
    try:
        return log.write(version, actions, compress=compress)
    except StorageError as failure:
        try:
            return _is_file_of(log.read(version), info)
        except VersionNotFound:
            raise failure from None
        except IndexTablesError as error:
            raise CommitUnknown(f"version {version} may have been written: the store failed ({failure}), and then {error}") from failure


def _is_file_of(file: VersionFile, info: CommitInfo) -> bool:
    """Whether the file is that of this commit."""
    return any(isinstance(action, CommitInfo) and action.id == info.id for action in file.actions)


def _with_refs(base: Snapshot, actions: Sequence[Action]) -> Sequence[Action]:
    """The actions with doc mappings as references if the protocol supports that; new mappings are registered in the same commit.

    This runs on each base anew, so that no concurrently registered mapping is lost. With an older protocol adds keep their mappings, so
    that older readers can read the table until a checkpoint or a user upgrades the protocol.
    """
    protocol = next((action for action in reversed(actions) if isinstance(action, Protocol)), base.protocol)
    if not has_registry(protocol):
        return actions
    rewritten, refers = deduplicated(actions, base.metadata)
    needed = upgraded_to(protocol, NEEDED)
    if not refers or needed is protocol or is_foreign(protocol):  # another program's protocol is not changed
        return rewritten
    return [needed, *(action for action in rewritten if not isinstance(action, Protocol))]


def _took_effect(log: TransactionLog, version: int, actions: Sequence[Action], info: CommitInfo) -> bool:
    """Whether a version that was just written is part of the table. False: that version number had been used and expired since the base
    was read. No reader would ever see the new file, so it is deleted.

    Versions expire only before a checkpoint, oldest first. So if ours exists while later ones are missing, it was written after they
    expired. CommitUnknown if our file is gone as well or has no adds to recognise it by, and if the store fails: after a plain failure the
    caller would write the same data again.
    """
    try:
        listing = log.uncached_listing(after=version)
        later = [checkpoint for checkpoint in listing.bases if checkpoint > version]
        if not later:
            return True
        ours = {log.store.root.relative(action.path) for action in actions if isinstance(action, Add)}
        newest = load(log, load_snapshot(log))
        if _contains_commit(newest, version, actions, ours, log) or _removed_later(log, version, ours):
            return True
        is_there = False
        with suppress(VersionNotFound):
            is_there = _is_file_of(log.read(version), info)
        others_expired = not set(listing.versions).issuperset(range(version + 1, min(later)))
        if not is_there or not (ours or others_expired):
            raise CommitUnknown(f"version {version} was written and has already expired; whether it is part of the table is unknown")
        log.withdraw(version)
    except StorageError as error:
        raise CommitUnknown(f"version {version} was written, but whether it is part of the table is unknown: {error}") from error
    return False


def _contains_commit(newest: LoadedSnapshot, version: int, actions: Sequence[Action], ours: Collection[str], log: TransactionLog) -> bool:
    """Whether the newest version contains a split of this commit or, if the commit adds none, reflects all its other actions."""
    found = [add for path in ours if (add := newest.files.get(path)) is not None]
    if any(add.added_at_version is not None and add.added_at_version >= version for add in found):
        return True
    are_shown = [_is_shown(newest, action, log) for action in actions if not isinstance(action, CommitInfo)]
    return not ours and all(are_shown)


def _is_shown(newest: LoadedSnapshot, action: Action, log: TransactionLog) -> bool:
    if isinstance(action, Remove):
        return log.store.root.relative(action.path) not in newest.files
    if isinstance(action, Skip):
        known = newest.skips.get(log.store.root.relative(action.path))
        return known is not None and known.skip_timestamp >= action.skip_timestamp
    if isinstance(action, Txn):
        return is_already_committed(action, newest.txns)
    if isinstance(action, Protocol):
        return upgraded(newest.protocol, action.min_reader_version, action.min_writer_version) is newest.protocol
    return isinstance(action, Metadata) and action.configuration.items() <= newest.metadata.configuration.items()


def _removed_later(log: TransactionLog, version: int, paths: Collection[str]) -> bool:
    """Whether a later commit removed one of these splits, and so had seen it."""
    for later in log.listing().versions:
        with suppress(VersionNotFound):  # it expired after the listing
            removes = [a for a in log.read(later).actions if isinstance(a, Remove)] if later > version else []
            if any(log.store.root.relative(action.path) in paths for action in removes):
                return True
    return False


def _commit_info(operation: str, read_version: int, draft: Draft, config: Config, clock: Clock) -> CommitInfo:
    """The commitInfo of a draft. Job id and attempt come from the environment, where Airflow's operator sets them."""
    attempt = config.environment.get("INDEXTABLES_JOB_ATTEMPT", "")
    metrics: dict[str, Any] = dict(draft.metrics)
    return CommitInfo(
        id=clock.new_id(),
        timestamp=clock.now_ms(),
        operation=operation,
        user=_as_text(_user()),
        engine=ENGINE,
        job_id=_as_text(config.environment.get("INDEXTABLES_JOB_ID")),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else None,
        read_version=read_version,
        metrics=metrics or None,
        new_paths=draft.new_paths or None,
    )


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the uid has no name, as in some containers
        return None


def _as_text(text: str | None) -> str | None:
    """A value of the environment as valid text: it may contain bytes that are not."""
    return None if text is None else text.encode(errors="replace").decode()
