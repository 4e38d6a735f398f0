"""Checks every byte of an Avro state, and remembers which manifests this process has verified."""

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
    """Paths of the manifests that this process has verified or written. Manifests never change, so frequent writers need not read them
    again; damage that happens later is found by the next process."""
    found: set[str] = _VERIFIED.get_or_make(log.store.spec, set)
    if len(found) > limits.CHECKPOINT_PARTS:
        found.clear()
    return found


def is_intact(log: TransactionLog, version: int, verified: set[str] | None = None, max_bytes: int | None = None) -> bool:
    """Whether the state and all its manifests are complete and match their digests; every manifest is read.

    Manifests in `verified` are not read again, and those that are read are added to it. With `max_bytes`, reading stops after that many
    bytes, and starts at another manifest for each version: the cost does not grow with the table.
    """
    try:
        state = read_state_manifest(log.store, version)
        first = random.Random(version).randrange(len(state.manifests) or 1)
        read = 0
        for info in (*state.manifests[first:], *state.manifests[:first]):
            path = manifest_path(info.path, version)
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
        state_metadata(state)
    except (FileNotFoundError, LogCorrupted):
        return False
    return True
