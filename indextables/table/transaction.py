"""Optimistic transactions: decide on a base, try to commit right after it, and decide again on the newer base if another was faster."""

from __future__ import annotations

import getpass
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from indextables import interrupts
from indextables.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn
from indextables.clock import Clock
from indextables.config import Config
from indextables.errors import CommitUnknown, ConcurrentConflict, IndexTablesError, StorageError, VersionNotFound
from indextables.log import TransactionLog, is_already_committed
from indextables.state import NEEDED, deduplicated
from indextables.table.loading import load
from indextables.table.opening import advance, committed, load_snapshot
from indextables.table.protocol import CURRENT, LEGACY, check_writable, has_registry, is_foreign, raised, upgraded
from indextables.table.snapshot import LoadedSnapshot, Snapshot
from indextables.version import ENGINE


@dataclass(frozen=True, slots=True)
class Draft:
    """What a transaction wants to say on a given base; no actions: nothing to do."""

    actions: Sequence[Action]
    metrics: Mapping[str, int] = field(default_factory=dict)
    new_paths: bool = False  # every add has a path that was made up for it


@dataclass(frozen=True, slots=True)
class Outcome:
    base_version: int
    version: int | None  # None: nothing was committed
    snapshot: Snapshot  # at the committed version, or the newest seen
    draft: Draft | None  # None: the txn was in the table already


Build = Callable[[Snapshot], Draft]


def transact(
    log: TransactionLog, base: Snapshot, operation: str, build: Build, *, config: Config, clock: Clock, txn: Txn | None = None
) -> Outcome:
    """Commits what `build` drafts, on the newest base that no one else gets ahead of.

    `build` runs again on every newer base and raises ConcurrentConflict where its own reads no longer hold. ConcurrentConflict too when
    every attempt was outrun: nothing is written then.
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
        number = [] if txn is None or txn in draft.actions else [txn]
        actions = [info, *_first_protocol(base, draft), *number, *_with_refs(base, draft.actions)]
        with interrupts.held_back() as versions:  # an interrupt would leave open whether it was made
            made = _write(log, version, actions, info, compress=bool(config.get("transaction.compression.enabled")))
            if made and _took_effect(log, version, actions, info):
                versions.append(version)
        if versions:
            with interrupts.after(version):
                return Outcome(base.version, version, committed(log, base, version, actions), draft)
        clock.sleep(_pause(attempt, config))
        base = advance(log, base)
    raise ConcurrentConflict(
        f"concurrent write conflict: failed to write transaction log version {base.version} - file already exists; "
        f"{operation} was outrun {attempts} times, and nothing was written"
    )


def _write(log: TransactionLog, version: int, actions: Sequence[Action], info: CommitInfo, *, compress: bool) -> bool:
    """Whether this commit made the version. Where the store failed, what stands there decides; CommitUnknown where that cannot be read."""
    try:
        return log.write(version, actions, compress=compress)
    except StorageError as failure:
        try:
            found = log.read(version).actions
        except VersionNotFound:
            raise failure from None
        except IndexTablesError as error:
            raise CommitUnknown(f"version {version} may have been written, since the store failed: {failure}; then {error}") from failure
        return any(isinstance(action, CommitInfo) and action.id == info.id for action in found)


def _first_protocol(base: Snapshot, draft: Draft) -> list[Protocol]:
    """A table without a protocol gets one with its first write (PRT-05)."""
    has_one = base.protocol is not LEGACY or any(isinstance(action, Protocol) for action in draft.actions)
    return [] if has_one else [CURRENT]


def _with_refs(base: Snapshot, actions: Sequence[Action]) -> Sequence[Action]:
    """Doc mappings as references, where the protocol has them; what the table does not know yet comes along in this same commit.

    It is decided on each base anew, so that no one's entry is lost. Tables of an older protocol keep their mappings spelt out: readers
    that know nothing of references stay able to read them until a checkpoint, or someone, raises the protocol.
    """
    protocol = next((action for action in reversed(actions) if isinstance(action, Protocol)), base.protocol)
    if not has_registry(protocol):
        return actions
    rewritten, refers = deduplicated(actions, base.metadata)
    needed = raised(protocol, NEEDED)
    if not refers or needed is protocol or is_foreign(protocol):  # another program's protocol is left as it is
        return rewritten
    return [needed, *(action for action in rewritten if not isinstance(action, Protocol))]


def _took_effect(log: TransactionLog, version: int, actions: Sequence[Action], info: CommitInfo) -> bool:
    """Whether a version that was just made is part of the table. False: its number had been used, and expired since the base was read.

    Then no reader would ever see it, so it is taken back. A version expires only behind a later checkpoint, and earlier versions first:
    where ours is there and later ones are not, it came after them. CommitUnknown if ours has gone too, or added nothing to go by; and if
    the store fails now: whoever hears of a plain failure would write it all once more.
    """
    try:
        return _is_in_effect(log, version, actions, info)
    except StorageError as error:
        raise CommitUnknown(f"version {version} was written, and whether the table holds it cannot be told: {error}") from error


def _is_in_effect(log: TransactionLog, version: int, actions: Sequence[Action], info: CommitInfo) -> bool:
    listing = log.look(after=version)
    later = [checkpoint for checkpoint in listing.bases if checkpoint > version]
    if not later:
        return True
    ours = {log.store.root.relative(action.path) for action in actions if isinstance(action, Add)}
    newest = load(log, load_snapshot(log))
    if _shows(newest, version, actions, ours, log) or _removed_later(log, version, ours):
        return True
    try:
        found = log.read(version).actions
    except VersionNotFound:
        found = []
    is_there = any(isinstance(action, CommitInfo) and action.id == info.id for action in found)
    others_expired = not set(listing.versions).issuperset(range(version + 1, min(later)))
    if not is_there or not (ours or others_expired):
        raise CommitUnknown(f"version {version} was written and has expired at once; whether the table holds it cannot be told")
    log.withdraw(version)
    return False


def _shows(newest: LoadedSnapshot, version: int, actions: Sequence[Action], ours: Collection[str], log: TransactionLog) -> bool:
    """Whether the newest version holds what this one said: a split of it, or, of one that adds none, all else."""
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
    """Whether a later commit removed one of the splits, and so had seen it."""
    for later in log.listing().versions:
        try:
            removes = [a for a in log.read(later).actions if isinstance(a, Remove)] if later > version else []
        except VersionNotFound:  # expired meanwhile
            continue
        if any(log.store.root.relative(action.path) in paths for action in removes):
            return True
    return False


def _commit_info(operation: str, read_version: int, draft: Draft, config: Config, clock: Clock) -> CommitInfo:
    """Whoever starts jobs says in the environment which job this is; Airflow's operator does."""
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
    except (KeyError, OSError):  # a container's uid without a name
        return None


def _as_text(text: str | None) -> str | None:
    """What the environment says may hold bytes that are no text."""
    return None if text is None else text.encode(errors="replace").decode()


def _pause(attempt: int, config: Config) -> float:
    """Seconds: exponential, capped, with full jitter, so that writers who collided do not collide again."""
    ceiling = min(config.get("transaction.retry.baseDelayMs") * 2**attempt, config.get("transaction.retry.maxDelayMs"))
    return random.uniform(0, ceiling) / 1000
