"""A consistent view of a table at one version: the newest valid checkpoint or state at or before it, and the versions after."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from indextables.actions import Action, Add, Metadata, Protocol, Skip, Txn
from indextables.actions.replay import Replay
from indextables.errors import IndexTablesError, LogCorrupted, TableNotFound, VersionGap, VersionNotFound
from indextables.log.log import TransactionLog, VersionFile
from indextables.log.names import POINTER, LogListing
from indextables.schema import from_spark_json
from indextables.table.base import Base, is_pointed_beyond, newest_base
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
    skips: Mapping[str, Skip] = field(default_factory=dict)  # by path, of files that were not removed since

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
    base = newest_base(log, listing, version)
    tail, gap_at = listing.tail(-1 if base.version is None else base.version)
    newest = tail[-1] if tail else base.version
    if version is None:
        _refuse_loss(log, listing, base, newest, gap_at)
    if newest is None or (version is not None and not 0 <= version <= newest):
        raise _not_found(log, listing, base, version, newest, gap_at)
    _replay_tail(base.replay, log.read_many([v for v in tail if version is None or v <= version]))
    warnings = [f"failed to read checkpoint at version {v}, reading the log instead: {why}" for v, why in base.broken.items()]
    if gap_at is not None and version is None:
        warnings.append(f"version {gap_at} is missing from the log although later ones exist: the table is read as of version {newest}")
    if version is None and is_pointed_beyond(log, listing, newest):
        if log.listing() != listing:
            return load_snapshot(log)  # the pointer is of a version that came after the listing
        warnings.append(f"{POINTER} names a version after {newest}, the newest that is there")
    return _frozen(base.replay, newest if version is None else version, base.version, gap_at, warnings)


def advance(log: TransactionLog, snapshot: Snapshot) -> Snapshot:
    """The newest version, reading only what is new. Where the new versions do not follow on, everything is read again."""
    listing = log.listing()
    tail, gap_at = listing.tail(snapshot.version)
    newest = tail[-1] if tail else snapshot.version
    is_known = tail or snapshot.version in (*listing.versions, *listing.bases)
    if gap_at is not None or not is_known or (listing.bases and listing.bases[-1] > newest):
        return load_snapshot(log)
    if not tail:
        return snapshot
    replay = _replay_of(log, snapshot)
    try:
        _replay_tail(replay, log.read_many(tail))
    except VersionNotFound:  # it expired since the listing
        return load_snapshot(log)
    return _frozen(replay, tail[-1], snapshot.checkpoint, None, [])


def committed(log: TransactionLog, base: Snapshot, version: int, actions: Sequence[Action]) -> Snapshot:
    """The table right after a commit on `base`: nothing is read, so what others did since can neither show nor fail it."""
    replay = _replay_of(log, base)
    replay.apply(version, actions)
    return _frozen(replay, version, base.checkpoint, None, [])


def _replay_of(log: TransactionLog, snapshot: Snapshot) -> Replay:
    """A replay that goes on where the snapshot stands."""
    return Replay(
        log.store.root.relative,
        protocol=None if snapshot.protocol is LEGACY else snapshot.protocol,
        metadata=snapshot.metadata,
        files=snapshot.files,
        txns=snapshot.txns,
        skips=snapshot.skips,
    )


def _refuse_loss(log: TransactionLog, listing: LogListing, base: Base, newest: int | None, gap_at: int | None) -> None:
    """An older or smaller answer is never given silently where there is a sign that more was there."""
    root = log.store.root
    had_checkpoints = bool(listing.bases) or listing.has_pointer
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
    return Snapshot(version, protocol, replay.metadata, replay.files, replay.txns, base, gap_at, tuple(warnings), replay.skips)


def _not_found(
    log: TransactionLog, listing: LogListing, base: Base, version: int | None, newest: int | None, gap_at: int | None
) -> IndexTablesError:
    if version in base.broken and version not in listing.versions:
        return LogCorrupted(f"version {version} of {log.store.root} cannot be read: {base.broken[version]}")
    if listing.bases and version is not None and 0 <= version < listing.bases[-1]:
        return VersionNotFound(f"version {version} of {log.store.root} has expired")
    if gap_at is not None and version is not None and version >= gap_at:
        return VersionNotFound(f"version {version} of {log.store.root} cannot be read: version {gap_at} is missing from the log")
    return VersionNotFound(f"version {version} of {log.store.root} does not exist; the newest is {newest}")
