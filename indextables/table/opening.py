"""Reads the log into a snapshot: the newest valid checkpoint or state at or before a version, and the versions after it.

The entries of a state's manifests are not read here (see `indextables.table.loading`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from indextables import limits
from indextables.actions import Action, Replay, encode_actions
from indextables.errors import IndexTablesError, LogCorrupted, TableNotFound, VersionNotFound
from indextables.log import POINTER, Anchor, CacheKind, LogListing, TransactionLog, VersionFile, names, trim
from indextables.logs import logger
from indextables.state import held_bytes, is_intact, read_pointer
from indextables.table.base import Base, newest_base
from indextables.table.declared import refuse_unsupported
from indextables.table.metrics import metrics_of
from indextables.table.protocol import LEGACY, check_readable
from indextables.table.snapshot import NO_BROKEN_STATES, Snapshot

MAX_RELISTINGS = 5
MAX_RECHECKED = 1000  # maximum number of versions that are listed again to find gaps: one page of an S3 listing


def load_snapshot(log: TransactionLog, version: int | None = None, max_staleness_ms: int = 0) -> Snapshot:
    """The table at `version`, by default the newest. With `max_staleness_ms` the listing may be that old.

    Raises TableNotFound, VersionNotFound, LogCorrupted, UnsafePath, ProtocolUnsupported.
    """
    if version is not None:
        return _load(log, version, log.listing())
    if log.has_no_listing and (found := _from_pointer(log)) is not None:
        return found
    for attempt in range(MAX_RELISTINGS):
        with suppress(VersionNotFound, _ListingTooShort):  # a purge ran between listing and reading, or the listing was partial
            return _load(log, None, log.listing(0 if attempt else max_staleness_ms))
    return _load(log, None, log.listing())


class _ListingTooShort(Exception):
    """The files from the pointer's version on are not enough to read the table."""


def _from_pointer(log: TransactionLog) -> Snapshot | None:
    """The newest version, read from the pointer's checkpoint or a later one, so that a long log need not be listed from its start.

    None if anything is unusual: the pointer is a hint, and the complete listing decides.
    """
    pointer = read_pointer(log.store)
    if pointer is None or pointer.version < 1:
        return None
    listing = log.listing(0, pointer.version)
    if not listing.bases or listing.bases[-1] < pointer.version:
        return None
    try:
        return _read(log, None, listing)
    except (_ListingTooShort, LogCorrupted, VersionNotFound):
        return None


def _load(log: TransactionLog, version: int | None, listing: LogListing) -> Snapshot:
    """From the cache of this process if it is still valid for this listing, else from the store."""
    if listing.is_empty:
        raise TableNotFound.without_log(log.store.root)
    known = _cached_snapshot(log, listing)
    if known is not None and version in (None, known.version):
        found = known if version is not None else _follow(log, known, listing)
        if found is not None:
            return found
    return _read(log, version, listing)


def _read(log: TransactionLog, version: int | None, listing: LogListing, broken: Mapping[int, str] = NO_BROKEN_STATES) -> Snapshot:
    """Reads the log without the states that are known to be broken. An unsupported protocol is reported rather than damage."""
    try:
        return _read_supported(log, version, listing, broken)
    except LogCorrupted:
        refuse_unsupported(log, listing, version)
        raise
    except VersionNotFound:
        if version is not None:  # without a version, the log is listed again
            refuse_unsupported(log, listing)
        raise


def _read_supported(log: TransactionLog, version: int | None, listing: LogListing, broken: Mapping[int, str]) -> Snapshot:
    if broken:
        listing = replace(listing, states=tuple(state for state in listing.states if state not in broken))
    started = log.clock.now_ms()
    base = newest_base(log, listing, version)
    tail, gap_at = listing.tail(-1 if base.version is None else base.version)
    newest = tail[-1] if tail else base.version
    if listing.since > 0 and (base.version is None or base.broken or gap_at is not None):
        raise _ListingTooShort
    if version is None:
        _check_nothing_lost(log, listing, base, newest, gap_at)
    if newest is None or (version is not None and not 0 <= version <= newest):
        raise (
            _missing_versions(log, {**base.broken, **broken}, newest) if broken else _not_found(log, listing, base, version, newest, gap_at)
        )
    last = _replay_tail(base.replay, log.read_many([v for v in tail if version is None or v <= version]))
    warnings = [f"failed to read checkpoint at version {v}, reading the log instead: {why}" for v, why in base.broken.items()]
    if gap_at is not None and version is None:
        warnings.append(f"version {gap_at} is missing from the log although later ones exist: the table is read as of version {newest}")
    pointer = read_pointer(log.store) if version is None and listing.since == 0 and listing.has_pointer else None
    if pointer is not None and pointer.version > newest:
        if log.listing() != listing:
            return load_snapshot(log)  # the pointer names a version that was committed after the listing
        warnings.append(f"{POINTER} names a version after {newest}, the newest in the log")
    at = newest if version is None else version
    snapshot = _build_snapshot(base.replay, at, base.version, gap_at, _anchor(log, listing, at, last), warnings, broken)
    duration_ms = log.clock.now_ms() - started
    metrics_of(log.store.spec).state_loaded(duration_ms, from_checkpoint=base.version is not None)
    if base.version is not None:
        fields = {"event": "state_loaded", "version": at, "checkpoint": base.version, "duration_ms": duration_ms}
        logger.debug("Table state loaded from checkpoint in %sms", duration_ms, extra=fields)
    _cache_snapshot(log, snapshot, is_newest=version is None)
    return snapshot


def advance(log: TransactionLog, snapshot: Snapshot, max_staleness_ms: int = 0) -> Snapshot:
    """The newest version; only new versions are read. If they do not continue the snapshot, the log is read from its base.

    The listing starts at the last checkpoint: a version file that has gone missing since is a gap, on which no writer may commit.
    """
    return _follow(log, snapshot, log.listing(max_staleness_ms, min(snapshot.version, _checked_from(snapshot) + 1))) or load_snapshot(log)


def _checked_from(snapshot: Snapshot) -> int:
    """The version from which the listing must have no gap: that of the checkpoint, but at most MAX_RECHECKED versions back."""
    return max(-1 if snapshot.checkpoint is None else snapshot.checkpoint, snapshot.version - MAX_RECHECKED)


def snapshot_after_commit(log: TransactionLog, base: Snapshot | None, version: int, actions: Sequence[Action]) -> Snapshot:
    """The table right after a commit on `base` (None for version 0). Reads nothing, so concurrent commits neither show nor make it fail."""
    file = VersionFile(version, actions, 0, encode_actions(actions))
    return _apply(log, base, [file], Anchor(names.version_path(version), file.digest, None))


def on_newest_state(log: TransactionLog, snapshot: Snapshot) -> Snapshot:
    """The same version, read from the newest state before it, so that a new state can reuse the manifests of that one."""
    states = [state for state in log.uncached_listing().states if state < snapshot.version]
    base = snapshot.layers.base
    if not states or (base is not None and base.version >= states[-1]):
        return snapshot
    return _read(log, snapshot.version, log.uncached_listing())


def without_broken_states(log: TransactionLog, snapshot: Snapshot) -> Snapshot:
    """The same version, read without damaged states. States are checked in full, from the newest to the first that is undamaged."""
    listing = log.uncached_listing()
    broken: dict[int, str] = {}
    for state in reversed([state for state in listing.states if state <= snapshot.version]):
        if is_intact(log, state):
            break
        broken[state] = f"state {state} is damaged or incomplete"
    return _read(log, snapshot.version, listing, broken)


def without_state(log: TransactionLog, snapshot: Snapshot, state: int, why: str) -> Snapshot:
    """The same version, read without this damaged state and those found damaged before.

    LogCorrupted if no base remains; VersionNotFound if that is because the version expired after the snapshot was read.
    """
    logger.warning("failed to read checkpoint at version %s, reading the log instead: %s", state, why)
    listing = log.uncached_listing()
    try:
        return _read(log, snapshot.version, listing, {**snapshot.broken, state: why})
    except LogCorrupted:
        if state not in listing.states and listing.bases and listing.bases[-1] > snapshot.version:
            raise _expired(log, snapshot.version) from None
        raise


def _follow(log: TransactionLog, snapshot: Snapshot, listing: LogListing) -> Snapshot | None:
    """The newest version, read on from `snapshot`; None if the log was replaced, or the listing does not continue without a gap."""
    start = _checked_from(snapshot)
    following, gap_at = listing.tail(start)
    newest = following[-1] if following else start
    is_ahead = bool(listing.bases) and listing.bases[-1] > newest
    if newest < snapshot.version or gap_at is not None or is_ahead or not log.is_unchanged(snapshot.anchor, listing):
        return None
    tail = [version for version in following if version > snapshot.version]
    if not tail:
        return snapshot
    try:
        files = list(log.read_many(tail))
        return _apply(log, snapshot, files, _anchor(log, listing, tail[-1], files[-1]))
    except (VersionNotFound, LogCorrupted):  # a file expired after the listing, or a full read will report the damage
        return None


def _apply(log: TransactionLog, snapshot: Snapshot | None, files: Sequence[VersionFile], anchor: Anchor) -> Snapshot:
    """Applies `files` on top of `snapshot`."""
    replay = Replay(log.store.root.relative)
    if snapshot is not None:
        replay = Replay(
            log.store.root.relative,
            protocol=None if snapshot.protocol is LEGACY else snapshot.protocol,
            metadata=snapshot.metadata,
            files=snapshot.layers,
            txns=snapshot.txns,
            skips=snapshot.skips,
        )
    _replay_tail(replay, files)
    found = _build_snapshot(replay, files[-1].version, None if snapshot is None else snapshot.checkpoint, None, anchor, [])
    _cache_snapshot(log, found)
    return found


def _cache_snapshot(log: TransactionLog, snapshot: Snapshot, *, is_newest: bool = True) -> None:
    """Caches the newest snapshot for this process, unless it has warnings: the damage behind them may be repaired."""
    cache = log.cache()
    if cache is None:
        return
    if not is_newest or snapshot.warnings or snapshot.gap_at is not None:
        cache.put_anchor(snapshot.anchor, log.generation)
        return
    state = {CacheKind.PROTOCOL: snapshot.protocol, CacheKind.METADATA: snapshot.metadata, CacheKind.FILES: snapshot}
    cache.put_state(state, snapshot.anchor, held_bytes(snapshot.layers), log.clock.now_ms(), log.generation)
    trim()


def _cached_snapshot(log: TransactionLog, listing: LogListing) -> Snapshot | None:
    """The cached snapshot, if reading the listed files anew would give the same."""
    cache = log.cache()
    if cache is None:
        return None
    now = log.clock.now_ms()
    protocol, metadata, known = (
        cache.get(kind, now, log.reading.cache_ms) for kind in (CacheKind.PROTOCOL, CacheKind.METADATA, CacheKind.FILES)
    )
    if not isinstance(known, Snapshot) or protocol is not known.protocol or metadata is not known.metadata:
        return None
    base = -1 if known.checkpoint is None else known.checkpoint
    tail, _ = listing.tail(base)
    newest = tail[-1] if tail else base
    has_base = known.checkpoint is None or known.checkpoint in listing.bases
    is_ahead = any(version > newest for version in listing.bases)
    return known if has_base and not is_ahead and known.version <= newest and log.is_unchanged(known.anchor, listing) else None


def _anchor(log: TransactionLog, listing: LogListing, version: int, file: VersionFile | None) -> Anchor:
    """Identifies the log by the file of this version; if there is none, by its checkpoint or state."""
    path = names.version_path(version)
    stamp = listing.stamp(path)
    if file is not None:
        return Anchor(path, file.digest, stamp)
    if stamp is not None and stamp[0] <= limits.MIB:
        return Anchor(path, log.digest(path), stamp)
    places = names.head_paths(version)
    return next((Anchor(place, None, found) for place in places if (found := listing.stamp(place)) is not None), Anchor(path, None, None))


def _check_nothing_lost(log: TransactionLog, listing: LogListing, base: Base, newest: int | None, gap_at: int | None) -> None:
    """Raises rather than silently reading an older version when there are signs that newer files were lost."""
    root = log.store.root
    had_checkpoints = bool(listing.bases) or listing.has_pointer
    if newest is None and not had_checkpoints:
        raise TableNotFound.without_log(root, "version 0 is missing")
    beyond = [v for v in base.broken if newest is None or v > newest]
    if newest is None or beyond or (gap_at is not None and had_checkpoints):
        raise _missing_versions(log, base.broken, newest)


def _missing_versions(log: TransactionLog, broken: Mapping[int, str], newest: int | None) -> LogCorrupted:
    """An error that names what is missing after the `newest` readable version, the broken checkpoints, and what can be done."""
    missing = f"version {newest + 1}" if newest is not None else "version 0 or a valid checkpoint"
    others = sorted(broken, reverse=True)
    details = f"; broken checkpoints: {', '.join(map(str, others))} ({broken[others[0]]})" if others else ""
    return LogCorrupted(
        f"the log of {log.store.root} is incomplete: {missing} is missing{details}; "
        "restore it or a valid checkpoint, or build a new log from the remaining splits with `indextables repair`"
    )


def _replay_tail(replay: Replay, versions: Iterable[VersionFile]) -> VersionFile | None:
    """Applies the versions; returns the last one."""
    file = None
    for file in versions:
        replay.apply(file.version, file.items)
        if file.unknown:
            logger.debug("ignored %s unknown actions in version %s", file.unknown, file.version)
    return file


def _build_snapshot(
    replay: Replay,
    version: int,
    base: int | None,
    gap_at: int | None,
    anchor: Anchor,
    warnings: list[str],
    broken: Mapping[int, str] = NO_BROKEN_STATES,
) -> Snapshot:
    for warning in warnings:
        logger.warning("%s", warning)
    if replay.metadata is None:
        raise LogCorrupted(f"no metadata found in the log up to version {version}")
    protocol = replay.protocol or LEGACY
    check_readable(protocol)
    return Snapshot(
        version, protocol, replay.metadata, replay.files(), replay.txns, base, gap_at, anchor, tuple(warnings), replay.skips, broken
    )


def _not_found(
    log: TransactionLog, listing: LogListing, base: Base, version: int | None, newest: int | None, gap_at: int | None
) -> IndexTablesError:
    if version in base.broken and version not in listing.versions:
        return LogCorrupted(f"version {version} of {log.store.root} cannot be read: {base.broken[version]}")
    if base.broken and version in listing.versions:
        return _missing_versions(log, base.broken, newest)
    if listing.bases and version is not None and 0 <= version < listing.bases[-1]:
        if version in listing.versions:
            missing = listing.missing_before(version)
            return VersionNotFound(f"version {version} of {log.store.root} cannot be read: version {missing} is missing from the log")
        return _expired(log, version)
    if gap_at is not None and version is not None and version >= gap_at:
        return VersionNotFound(f"version {version} of {log.store.root} cannot be read: version {gap_at} is missing from the log")
    return VersionNotFound(f"version {version} of {log.store.root} does not exist; the newest is {newest}")


def _expired(log: TransactionLog, version: int) -> VersionNotFound:
    return VersionNotFound(f"version {version} of {log.store.root} has expired")
