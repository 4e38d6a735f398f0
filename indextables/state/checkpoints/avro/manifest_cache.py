"""A cache on the local disk: the decoded columns of manifests as memory-mapped Arrow files, and checksums of the paths in a manifest.

A manifest that is named by its digest never changes, so both are cached under that digest. The folder may be deleted at any time. A file
is used only after its page sums have been verified (about 40 ms for the 400 MB of a million files, once per process); a damaged file is
deleted and created again. The CRC-32 of every path, four bytes each, tells a new state which of the paths that were added or removed since
may be in its base (C-46), without reading a million paths.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables import limits
from indextables.actions import columns
from indextables.storage import cache_folder, cached_files, caching

T = TypeVar("T")
_SCHEMA_HASH = hashlib.sha256(columns.SCHEMA.to_string().encode()).hexdigest()[:8]  # part of the name, so that releases do not share files
_MAGIC = b"ixtcache"
_SEAL_BYTES = len(_MAGIC) + 32
_PAGE = 4096
_CHECKSUM = np.dtype("<u4")


def get(digest: str) -> pa.Table | None:
    """The memory-mapped columns; None if they are missing or damaged."""
    return _read(_path(f"{digest}-{_SCHEMA_HASH}.arrow"), _columns)


def put(digest: str, rows: pa.Table) -> pa.Table:
    """Caches the columns and returns them memory-mapped; returns `rows` if they cannot be written."""
    path = _path(f"{digest}-{_SCHEMA_HASH}.arrow")
    try:
        with caching(path) as temporary:
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, columns.SCHEMA) as writer:
                writer.write_table(rows)
            with pa.memory_map(str(temporary)) as mapped:
                seal = _seal(mapped.read_buffer())
            with open(temporary, "ab") as file:
                file.write(seal)
        _evict(path)
    except OSError:
        return rows
    found = _read(path, _columns, seal)
    return rows if found is None else found


def put_paths(digest: str, paths: pa.ChunkedArray) -> None:
    """Caches the checksums of the manifest's paths. Does nothing if they cannot be written."""
    path = _path(f"{digest}.crcs")
    if os.path.exists(path):  # unlike pathlib, this does not raise if the folder is not readable
        return
    body = np.sort(_checksums(paths.cast(pa.binary()).to_pylist())).tobytes()
    with suppress(OSError), caching(path) as temporary:
        temporary.write_bytes(body + _seal(pa.py_buffer(body)))


def possible_paths(digest: str, num_entries: int, paths: Collection[str]) -> list[str] | None:
    """The paths that may be in the manifest; None if its checksums are not cached.

    Checksums may collide, so a path that is returned has to be looked up in the manifest; one that is not returned is not in it.
    """

    def decode(body: pa.Buffer) -> npt.NDArray[np.uint32]:
        if body.size != _CHECKSUM.itemsize * num_entries:
            raise ValueError("the number of checksums is not that of the entries")
        return np.frombuffer(body, _CHECKSUM, num_entries)

    known = _read(_path(f"{digest}.crcs"), decode)
    if known is None:
        return None
    names = list(paths)
    sums = _checksums([path.encode() for path in names])
    return [names[at] for at in np.flatnonzero(np.searchsorted(known, sums, "right") > np.searchsorted(known, sums))]


def _checksums(paths: list[bytes]) -> npt.NDArray[np.uint32]:
    return np.fromiter(map(crc32, paths), _CHECKSUM, len(paths))


def _folder() -> Path:
    return cache_folder() / "manifests"


def _path(name: str) -> Path:
    """The path of a cache file; `name` begins with the digest of a manifest."""
    return _folder() / name[:2] / name


def _read(path: Path, decode: Callable[[pa.Buffer], T], known_seal: bytes | None = None) -> T | None:
    """The decoded memory-mapped file without its seal; None if it is missing or damaged. `known_seal` was just computed for it."""
    try:
        with pa.memory_map(str(path)) as mapped:
            data = mapped.read_buffer()
        body, seal = data.slice(0, max(0, data.size - _SEAL_BYTES)), data.slice(max(0, data.size - _SEAL_BYTES)).to_pybytes()
        if seal != (known_seal or _seal(body)):
            raise ValueError("the pages do not agree with the seal")
        found = decode(body)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pa.ArrowException):
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    if known_seal is None:
        with suppress(OSError):  # a file of another user or a read-only cache can still be used
            os.utime(path)  # eviction is ordered by the time of last use
    return found


def _columns(body: pa.Buffer) -> pa.Table:
    table = pa.ipc.open_file(pa.BufferReader(body)).read_all()
    if table.schema != columns.SCHEMA:
        raise ValueError("the columns are not ours")
    return table


def _seal(body: pa.Buffer) -> bytes:
    """A digest of the sums of all pages: it detects changed, lost and moved pages, and runs at memory speed."""
    whole = body.size // _PAGE * _PAGE
    sums = np.frombuffer(body, np.uint64, whole // 8).reshape(-1, _PAGE // 8).sum(axis=1, dtype=np.uint64)
    digest = hashlib.sha256(sums.tobytes())
    digest.update(body.slice(whole).to_pybytes())
    digest.update(body.size.to_bytes(8, "little"))
    return _MAGIC + digest.digest()


def _evict(newest: Path) -> None:
    """Deletes the least recently used files. Best effort: other processes may do the same concurrently; mapped files stay readable."""
    found = [(status.st_mtime, status.st_size, file) for file, status in cached_files(_folder())]
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if total <= limits.MANIFEST_CACHE_BYTES:
            break
        if file != newest:
            with suppress(OSError):
                file.unlink(missing_ok=True)
            total -= size
