"""A consistent view of a table at one version: the newest valid checkpoint at or before it, and the versions after."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from indextables.actions import Action, Add, Metadata, Protocol, Txn
from indextables.actions.replay import Replay
from indextables.errors import LogCorrupted, TableNotFound, UnsafePath, VersionGap, VersionNotFound
from indextables.log.log import TransactionLog, VersionFile
from indextables.log.names import LogListing
from indextables.schema import from_spark_json
from indextables.state.json_checkpoint import read_checkpoint
from indextables.table.protocol import LEGACY, check_readable

RELISTINGS = 5
logger = logging.getLogger("indextables")


@dataclass(frozen=True)
class Snapshot:
    """Immutable; `files` is keyed by path relative to the table, oldest first."""

    version: int
    protocol: Protocol
    metadata: Metadata
    files: Mapping[str, Add]
    txns: Mapping[str, Txn]
    checkpoint: int | None  # the base it was read from
    gap_at: int | None  # the first missing version, where later ones exist
    warnings: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        return from_spark_json(self.metadata.schema_string)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.partition_columns)

    @property
    def num_records(self) -> int:
        return sum(add.num_records or 0 for add in self.files.values())

    @property
    def size(self) -> int:
        return sum(add.size for add in self.files.values())

    def require_no_gap(self) -> None:
        """Writers refuse a log with a hole rather than fill it."""
        if self.gap_at is not None:
            raise VersionGap(f"version {self.gap_at} is missing from the log although later ones exist; restore it before writing")


def load_snapshot(log: TransactionLog, version: int | None = None) -> Snapshot:
    """The table at `version`, by default the newest; TableNotFound, VersionNotFound, LogCorrupted, UnsafePath, ProtocolUnsupported."""
    if version is not None:
        return _load(log, version)
    for _ in range(RELISTINGS):
        with suppress(VersionNotFound):  # a purge went by between the listing and the reading
            return _load(log, None)
    return _load(log, None)


def _load(log: TransactionLog, version: int | None) -> Snapshot:
    listing = log.listing()
    if listing.is_empty:
        raise TableNotFound(f"no transaction log found at {log.store.root}")
    base = _newest_base(log, listing, version)
    tail, gap_at = listing.tail(-1 if base.version is None else base.version)
    newest = tail[-1] if tail else base.version
    if version is None:
        _refuse_loss(log, listing, base, newest, gap_at)
    if newest is None or (version is not None and not 0 <= version <= newest):
        raise _not_found(log, listing, version, newest, gap_at)
    _replay_tail(base.replay, log.read_many([v for v in tail if version is None or v <= version]))
    warnings = [f"failed to read checkpoint at version {v}, reading the log instead: {why}" for v, why in base.broken.items()]
    if gap_at is not None and version is None:
        warnings.append(f"version {gap_at} is missing from the log although later ones exist: the table is read as of version {newest}")
    return _frozen(base.replay, newest if version is None else version, base.version, gap_at, warnings)


def advance(log: TransactionLog, snapshot: Snapshot) -> Snapshot:
    """The newest version, reading only what is new. Where the new versions do not follow on, everything is read again."""
    listing = log.listing()
    tail, gap_at = listing.tail(snapshot.version)
    if gap_at is not None or (not tail and snapshot.version not in (*listing.versions, *listing.checkpoints)):
        return load_snapshot(log)
    if not tail:
        return snapshot
    replay = Replay(
        log.store.root.relative, protocol=snapshot.protocol, metadata=snapshot.metadata, files=snapshot.files, txns=snapshot.txns
    )
    try:
        _replay_tail(replay, log.read_many(tail))
    except VersionNotFound:  # it expired since the listing
        return load_snapshot(log)
    return _frozen(replay, tail[-1], snapshot.checkpoint, None, [])


def committed(log: TransactionLog, base: Snapshot, version: int, actions: Sequence[Action]) -> Snapshot:
    """The table right after a commit on `base`: nothing is read, so what others did since can neither show nor fail it."""
    replay = Replay(log.store.root.relative, protocol=base.protocol, metadata=base.metadata, files=base.files, txns=base.txns)
    replay.apply(version, actions)
    return _frozen(replay, version, base.checkpoint, None, [])


@dataclass(frozen=True, slots=True)
class _Base:
    replay: Replay
    version: int | None  # None: nothing but the log's beginning
    broken: Mapping[int, str]  # newer checkpoints that cannot be used, and why


def _newest_base(log: TransactionLog, listing: LogListing, version: int | None) -> _Base:
    """The newest valid checkpoint at or before `version`; broken ones are passed over."""
    broken: dict[int, str] = {}
    for candidate in reversed(listing.checkpoints):
        if version is not None and candidate > version:
            continue
        try:
            return _Base(read_checkpoint(log.store, candidate, log.store.root.relative), candidate, broken)
        except LogCorrupted as error:
            if isinstance(error, UnsafePath):
                raise
            broken[candidate] = str(error)
    return _Base(Replay(log.store.root.relative), None, broken)


def _refuse_loss(log: TransactionLog, listing: LogListing, base: _Base, newest: int | None, gap_at: int | None) -> None:
    """An older or smaller answer is never given silently where there is a sign that more was there."""
    root = log.store.root
    had_checkpoints = bool(listing.checkpoints) or listing.has_pointer
    if newest is None and not had_checkpoints:
        raise TableNotFound(f"no transaction log found at {root}: version 0 is missing")
    beyond = [v for v in base.broken if newest is None or v > newest]
    if newest is None or beyond or (base.version is None and gap_at is not None and had_checkpoints):
        missing = f"version {gap_at}" if gap_at is not None else "version 0 or a valid checkpoint"
        broken = f"; broken checkpoints: {', '.join(str(v) for v in base.broken)}" if base.broken else ""
        raise LogCorrupted(
            f"the log of {root} does not reach back to a valid base: {missing} is missing{broken}; restore it or a checkpoint"
        )


def _replay_tail(replay: Replay, versions: Sequence[VersionFile]) -> None:
    for file in versions:
        replay.apply(file.version, file.actions)
        if file.unknown:
            logger.debug("version %s has %s unknown actions, which were ignored", file.version, file.unknown)


def _frozen(replay: Replay, version: int, base: int | None, gap_at: int | None, warnings: list[str]) -> Snapshot:
    for warning in warnings:
        logger.warning("%s", warning)
    if replay.metadata is None:
        raise LogCorrupted(f"no metadata found in the log up to version {version}")
    protocol = replay.protocol or LEGACY
    check_readable(protocol)
    return Snapshot(version, protocol, replay.metadata, replay.files, replay.txns, base, gap_at, tuple(warnings))


def _not_found(log: TransactionLog, listing: LogListing, version: int | None, newest: int | None, gap_at: int | None) -> VersionNotFound:
    if listing.checkpoints and version is not None and 0 <= version < listing.checkpoints[-1]:
        return VersionNotFound(f"version {version} of {log.store.root} has expired")
    if gap_at is not None and version is not None and version >= gap_at:
        return VersionNotFound(f"version {version} of {log.store.root} cannot be read: version {gap_at} is missing from the log")
    return VersionNotFound(f"version {version} of {log.store.root} does not exist; the newest is {newest}")
