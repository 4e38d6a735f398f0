"""Which paths a manifest may have, known on this machine without reading it: the sums of all its paths, ascending.

A state that follows another has to know whether a path that was added since is one of the base's (C-46). With four bytes for each entry
of the base that costs next to nothing; the manifests themselves would be a million paths to look through. Sums of different paths may be
equal, so a path that is found here is looked for there; one that is not found is not there. Kept beside the decoded manifests, under
their digest; the folder may be deleted at any time, and a damaged file is one that is not there.
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
class PathSums:
    """Of the manifest with this digest."""

    digest: str
    num_entries: int

    def keep(self, paths: pa.ChunkedArray) -> None:
        """Its entries have these paths."""
        if os.path.exists(self._place):  # pathlib raises where the folder may not be looked into
            return
        texts = paths.cast(pa.binary()).to_pylist()
        body = np.sort(np.fromiter(map(crc32, texts), _SUM, len(texts))).tobytes()
        manifest_cache.keep(self._place, _seal(body) + body)

    def among(self, paths: Collection[str]) -> list[str] | None:
        """Those that it may have; None where this machine does not know."""
        try:
            data = self._place.read_bytes()
        except OSError:
            return None
        seal, body = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        if len(body) != _SUM.itemsize * self.num_entries or seal != _seal(body):
            with suppress(OSError):
                self._place.unlink(missing_ok=True)
            return None
        known, wanted = np.frombuffer(body, _SUM), list(paths)
        sums = np.fromiter((crc32(path.encode()) for path in wanted), _SUM, len(wanted))
        return [wanted[at] for at in np.flatnonzero(np.searchsorted(known, sums, "right") > np.searchsorted(known, sums))]

    @property
    def _place(self) -> Path:
        return manifest_cache.place(f"{self.digest}.paths")


def _seal(body: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(body).digest()
