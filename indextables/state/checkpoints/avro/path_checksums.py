"""A local cache of the sorted CRC-32 checksums of the paths in a manifest, to rule out paths without reading the manifest.

A new state has to know whether a path that was added or removed since is in its base (C-46). Four bytes per entry are quick to search;
reading the manifests could mean a million paths. Checksums may collide, so a path that is found here has to be looked up in the manifest;
one that is not found is not in it. The files lie next to the decoded manifests, under the same digest. They may be deleted at any time, and
a damaged file is ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa

from indextables.state.checkpoints.avro import manifest_cache

_MAGIC = b"ixtpaths"
_SEAL_BYTES = len(_MAGIC) + 32
_SUM = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class PathChecksums:
    """The checksums of the paths in the manifest with this digest."""

    digest: str
    num_entries: int

    def save(self, paths: pa.ChunkedArray) -> None:
        """Caches the checksums of the manifest's paths."""
        if os.path.exists(self._path):  # unlike pathlib, this does not raise if the folder is not readable
            return
        texts = paths.cast(pa.binary()).to_pylist()
        body = np.sort(np.fromiter(map(crc32, texts), _SUM, len(texts))).tobytes()
        manifest_cache.write(self._path, _seal(body) + body)

    def candidates(self, paths: Collection[str]) -> list[str] | None:
        """The paths that may be in the manifest; None if its checksums are not cached."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return None
        seal, body = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        if len(body) != _SUM.itemsize * self.num_entries or seal != _seal(body):
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            return None
        known, names = np.frombuffer(body, _SUM), list(paths)
        sums = np.fromiter((crc32(path.encode()) for path in names), _SUM, len(names))
        return [names[at] for at in np.flatnonzero(np.searchsorted(known, sums, "right") > np.searchsorted(known, sums))]

    @property
    def _path(self) -> Path:
        return manifest_cache.file_path(f"{self.digest}.paths")


def _seal(body: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(body).digest()
