"""What an Avro state holds. Of one of ours only the state manifest is read: the files in its manifests are read when they are needed.

A missing or cut manifest shows in the listing of the log. What else is wrong with one shows when it is read, by its digest; the table
then reads on from an older base. States of other programs have no such digests, and are read in full at once.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from indextables import limits
from indextables.actions import Skip, Txn, columns
from indextables.actions.live import LiveFiles
from indextables.actions.replay import Replay
from indextables.actions.stored import Stored, StoredSegment
from indextables.errors import LogCorrupted
from indextables.log.log import TransactionLog
from indextables.log.names import LogListing
from indextables.state import manifest_cache
from indextables.state.avro_state import (
    ManifestInfo,
    StateManifest,
    listed,
    manifest_path,
    read_state_manifest,
    state_metadata,
    state_protocol,
)
from indextables.state.manifests import decode_manifest, digest_in, digest_of
from indextables.state.path_sums import PathSums
from indextables.state.registry import Registry
from indextables.storage import LocalStore


def read_state(log: TransactionLog, listing: LogListing, version: int) -> Replay:
    """LogCorrupted if the state is damaged or not of that version, or a file of it is missing; UnsafePath."""
    state = read_state_manifest(log.store, version)
    normalise = log.store.root.relative
    replay = Replay(
        normalise,
        protocol=state_protocol(state),
        metadata=state_metadata(state),
        files=_files(log, listing, state, Registry(state.schema_registry or {})),
    )
    for txn in listed(state.txn, list[Txn], version):
        replay.put_txn(txn)
    for skip in listed(state.mergeskip, list[Skip], version):
        replay.put_skip(skip)
    return replay


def _files(log: TransactionLog, listing: LogListing, state: StateManifest, registry: Registry) -> LiveFiles:
    segments = [_segment(log, listing, state, info) for info in state.manifests]
    gone = frozenset(map(log.store.root.relative, state.tombstones or ()))
    if state.is_ours:
        numbers = state.num_files, state.total_bytes or 0, state.total_records or 0
        return LiveFiles(
            base=Stored(state.state_version, tuple(segments), gone, *numbers, registry.restored, registry.texts, _prefetch(log))
        )
    return _foreign(log, state, segments, gone, registry)


def _segment(log: TransactionLog, listing: LogListing, state: StateManifest, info: ManifestInfo) -> StoredSegment:
    version = state.state_version
    path = manifest_path(info.path, version)
    stamp = listing.stamp(path)
    source = f"manifest {info.path!r} of state {version}"
    if stamp is None:
        raise LogCorrupted(f"{source} is missing")
    if info.size_bytes is not None and info.size_bytes != stamp[0]:
        raise LogCorrupted(f"{source} has {stamp[0]} bytes, and the state says {info.size_bytes}")
    digest = digest_in(info.path)
    sums = None if digest is None else PathSums(digest, info.num_entries)
    return StoredSegment(info.num_entries, partial(load_manifest, log, path, info, source), info.bounds(), (info, version), sums)


def load_manifest(log: TransactionLog, path: str, info: ManifestInfo, source: str) -> pa.Table:
    """From the cache of this machine where it has it. A manifest whose name is a digest must have that digest."""
    digest = digest_in(info.path)
    if digest is not None:
        cached = manifest_cache.get(digest)
        if cached is not None and cached.num_rows == info.num_entries:
            return cached
    try:
        data = log.store.read(path)
    except FileNotFoundError:
        raise LogCorrupted(f"{source} is missing") from None
    if digest is not None and digest_of(data) != digest:
        verified_manifests(log).discard(path)
        raise LogCorrupted(f"{source} does not match the digest in its name")
    rows, is_plain = decode_manifest(data, info.num_entries, log.store.root.relative, source)
    return manifest_cache.put(digest, rows) if digest is not None and is_plain else rows


def _prefetch(log: TransactionLog) -> Callable[[Sequence[StoredSegment]], None] | None:
    """Several at a time, where waiting is what takes the time."""
    if isinstance(log.store, LocalStore) or log.reading.manifests == 1:
        return None

    def prefetch(segments: Sequence[StoredSegment]) -> None:
        with ThreadPoolExecutor(log.reading.manifests) as pool:
            for _ in pool.map(lambda segment: segment.rows, segments):
                pass

    return prefetch


def _foreign(
    log: TransactionLog, state: StateManifest, segments: list[StoredSegment], gone: frozenset[str], registry: Registry
) -> LiveFiles:
    """Counted and compared, since nothing else vouches for such a state. Where manifests share a path, the later entry stands."""
    version = state.state_version
    prefetch = _prefetch(log)
    if prefetch is not None:
        prefetch(segments)
    rows = pa.concat_tables([columns.SCHEMA.empty_table(), *(segment.rows for segment in segments)])
    alive = rows.filter(pc.invert(pc.is_in(rows.column("path"), pa.array(sorted(gone), pa.string()))))
    found = pc.count_distinct(alive.column("path")).as_py()
    # Upstream subtracts every tombstone from its count, also one that no entry has.
    if state.num_files not in (found, rows.num_rows - len(state.tombstones or ())):
        raise LogCorrupted(f"state {version} has {found} files, and says it has {state.num_files}")
    if found == alive.num_rows:
        size, records = (pc.sum(alive.column(name)).as_py() or 0 for name in ("size", "num_records"))
        return LiveFiles(base=Stored(version, tuple(segments), gone, found, size, records, registry.restored, registry.texts))
    replay = Replay(log.store.root.relative)
    for add in columns.decode(alive):
        replay.put(registry.restored(add))
    return replay.files()


_VERIFIED: OrderedDict[Hashable, set[str]] = OrderedDict()  # tables used least lately are forgotten


def verified_manifests(log: TransactionLog) -> set[str]:
    """Manifests that this process has read or written in full. They never change, so that a table which is written to often is not read
    again and again; damage since then is found by the next process."""
    found = _VERIFIED.setdefault(log.store.spec, set())
    _VERIFIED.move_to_end(log.store.spec)
    while len(_VERIFIED) > limits.CACHED_TABLES:
        _VERIFIED.popitem(last=False)
    if len(found) > limits.CHECKPOINT_PARTS:
        found.clear()
    return found


def is_whole(log: TransactionLog, version: int, verified: set[str] | None = None, most_bytes: int | None = None) -> bool:
    """Whether the state is there with every byte of it: all its manifests are read and compared, not just looked at.

    Those that were `verified` before are not read again, and those that are read now become some of them. With `most_bytes` no more than
    that is read, and another part of a large state each time: then the cost does not grow with the table.
    """
    try:
        state = read_state_manifest(log.store, version)
        first = random.Random(version).randrange(len(state.manifests) or 1)
        read = 0
        for info in (*state.manifests[first:], *state.manifests[:first]):
            path = manifest_path(info.path, version)
            if (verified is not None and path in verified) or (most_bytes is not None and read > most_bytes):
                continue
            data = log.store.read(path)
            read += len(data)
            digest = digest_in(info.path)
            if digest is None:
                decode_manifest(data, info.num_entries, log.store.root.relative, info.path)
            elif digest_of(data) != digest:
                return False
            if verified is not None:
                verified.add(path)
        state_metadata(state)
    except (FileNotFoundError, LogCorrupted):
        return False
    return True
