"""Whether an Avro state is there with every byte of it, and which manifests this process has found to be."""

from __future__ import annotations

import random
from collections.abc import Hashable

from indextables import limits
from indextables.errors import LogCorrupted
from indextables.log import TransactionLog
from indextables.process_cache import ProcessCache
from indextables.state.checkpoints.avro.manifests import decode_manifest, digest_in, digest_of
from indextables.state.checkpoints.avro.state_files import manifest_path, read_state_manifest, state_metadata

_VERIFIED: ProcessCache[Hashable, set[str]] = ProcessCache(lambda: (limits.CACHED_TABLES,))


def verified_manifests(log: TransactionLog) -> set[str]:
    """Manifests that this process has read or written in full. They never change, so that a table which is written to often is not read
    again and again; damage since then is found by the next process."""
    found: set[str] = _VERIFIED.get_or_make(log.store.spec, set)
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
