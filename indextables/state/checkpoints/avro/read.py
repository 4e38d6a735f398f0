"""Reads an Avro state, and checks one in full. Of our states only the state manifest is read; entries are loaded on demand.

A missing or truncated manifest is detected from the listing of the log, other damage by its digest when it is loaded; the table is then
read from an older base. States of other programs have no digests and are loaded in full at once.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import LayeredFiles, Manifest, ManifestSet, Replay, Totals, columns, restored
from indextables.errors import LogCorrupted
from indextables.log import LogListing, TransactionLog
from indextables.state.checkpoints.avro import state_files
from indextables.state.checkpoints.avro.file_loader import FileLoader
from indextables.state.checkpoints.avro.manifests import decode_manifest, digest_in, digest_of
from indextables.state.checkpoints.schema_registry import Registry


def read_state(log: TransactionLog, listing: LogListing, version: int) -> Replay:
    """The state of a version. Raises LogCorrupted if it is damaged, incomplete or of another version, and UnsafePath."""
    state, normalise = state_files.read_state_manifest(log.store, version), log.store.root.relative
    registry = Registry(state.schema_registry or {})
    manifests = tuple(_manifest(listing, version, info) for info in state.manifests)
    gone = frozenset(map(normalise, state.tombstones or ()))
    if state.is_ours:
        numbers = state.num_files, state.total_bytes or 0, state.total_records or 0
        files = LayeredFiles(base=ManifestSet(version, manifests, gone, *numbers, registry.texts))
    else:
        files = _foreign(log, state, manifests, gone, registry)
    replay = Replay(normalise, protocol=state_files.state_protocol(state), metadata=state_files.state_metadata(state), files=files)
    replay.put_txns_and_skips(state_files.state_txns(state), state_files.state_skips(state))
    return replay


def _manifest(listing: LogListing, version: int, info: state_files.ManifestInfo) -> Manifest:
    path = state_files.manifest_path(info.path, version)
    stamp = listing.stamp(path)
    source = f"manifest {info.path!r} of state {version}"
    if stamp is None:
        raise LogCorrupted(f"{source} is missing")
    if info.size_bytes is not None and info.size_bytes != stamp[0]:
        raise LogCorrupted(f"{source} has {stamp[0]} bytes, but the state says {info.size_bytes}")
    return Manifest(path, info.path, info.num_entries, info.bounds(), digest_in(info.path), version, info)


def _foreign(
    log: TransactionLog, state: state_files.StateManifest, manifests: tuple[Manifest, ...], gone: frozenset[str], registry: Registry
) -> LayeredFiles:
    """The files of another program's state. Its only check is the number of files. If manifests share a path, the later entry wins."""
    version = state.state_version
    segments = FileLoader(log).segments(manifests)
    rows = pa.concat_tables([columns.SCHEMA.empty_table(), *(segment.rows for segment in segments)])
    alive = rows.filter(pc.invert(pc.is_in(rows.column("path"), pa.array(sorted(gone), pa.string()))))
    found = pc.count_distinct(alive.column("path")).as_py()
    # Upstream subtracts every tombstone from its count, even one without an entry.
    if state.num_files not in (found, rows.num_rows - len(state.tombstones or ())):
        raise LogCorrupted(f"state {version} has {found} files, but declares {state.num_files}")
    if found == alive.num_rows:
        totals = Totals.of(alive)
        return LayeredFiles(base=ManifestSet(version, manifests, gone, found, totals.size, totals.num_records, registry.texts))
    replay = Replay(log.store.root.relative)
    for add in columns.decode(alive):
        replay.put(restored(add, registry.texts))
    return replay.files()


def is_intact(log: TransactionLog, version: int, verified: set[str] | None = None, max_bytes: int | None = None) -> bool:
    """Whether the state and all its manifests are complete and match their digests; every manifest is read.

    Manifests in `verified` are not read again, and those that are read are added to it. With `max_bytes`, reading stops after that many
    bytes, so that the cost does not grow with the table; the manifest to start at depends on the version.
    """
    try:
        state = state_files.read_state_manifest(log.store, version)
        first = random.Random(version).randrange(len(state.manifests) or 1)
        read = 0
        for info in (*state.manifests[first:], *state.manifests[:first]):
            path = state_files.manifest_path(info.path, version)
            if (verified is not None and path in verified) or (max_bytes is not None and read > max_bytes):
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
        state_files.state_metadata(state)
    except (FileNotFoundError, LogCorrupted):
        return False
    return True
