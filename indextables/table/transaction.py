"""Optimistic transactions: decide on a base, try to commit right after it, and decide again on the newer base if another was faster."""

from __future__ import annotations

import getpass
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from indextables.actions import Action, CommitInfo, Txn
from indextables.clock import Clock
from indextables.config import Config
from indextables.errors import CommitUnknown, ConcurrentConflict, IndexTablesError, StorageError, VersionNotFound
from indextables.log.conflicts import is_already_committed
from indextables.log.log import TransactionLog
from indextables.table.protocol import check_writable
from indextables.table.snapshot import Snapshot, advance, committed
from indextables.version import ENGINE


@dataclass(frozen=True, slots=True)
class Draft:
    """What a transaction wants to say on a given base; no actions: nothing to do."""

    actions: Sequence[Action]
    metrics: Mapping[str, int] = field(default_factory=dict)


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
        actions = [info, *([txn] if txn else []), *draft.actions]
        if _write(log, version, actions, info, compress=bool(config.get("transaction.compression.enabled"))):
            return Outcome(base.version, version, committed(log, base, version, actions), draft)
        clock.sleep(_pause(attempt, config))
        base = advance(log, base)
    raise ConcurrentConflict(
        f"{operation} lost the race for the next version {attempts} times, last for version {base.version}; nothing was written"
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


def _commit_info(operation: str, read_version: int, draft: Draft, config: Config, clock: Clock) -> CommitInfo:
    """Whoever starts jobs says in the environment which job this is; Airflow's operator does."""
    attempt = config.environment.get("INDEXTABLES_JOB_ATTEMPT", "")
    metrics: dict[str, Any] = dict(draft.metrics)
    return CommitInfo(
        id=clock.new_id(),
        timestamp=clock.now_ms(),
        operation=operation,
        user=_user(),
        engine=ENGINE,
        job_id=config.environment.get("INDEXTABLES_JOB_ID"),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else None,
        read_version=read_version,
        metrics=metrics or None,
    )


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's uid without a name
        return None


def _pause(attempt: int, config: Config) -> float:
    """Seconds: exponential, capped, with full jitter, so that writers who collided do not collide again."""
    ceiling = min(config.get("transaction.retry.baseDelayMs") * 2**attempt, config.get("transaction.retry.maxDelayMs"))
    return random.uniform(0, ceiling) / 1000
