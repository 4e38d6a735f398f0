"""A cache of decoded manifests on the local disk: Arrow files that are memory-mapped.

A manifest that is named by its digest never changes, so its columns can be cached under that digest. The folder may be deleted at any
time. A file is used only after its page sums have been verified (about 40 ms for the 400 MB of a million files, once per process); a
damaged file is deleted and created again.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from indextables import limits
from indextables.actions import columns
from indextables.storage import cache_folder

_SCHEMA_HASH = hashlib.sha256(columns.SCHEMA.to_string().encode()).hexdigest()[:8]  # part of the name, so that releases do not share files
_MAGIC = b"ixtcache"
_SEAL_BYTES = len(_MAGIC) + 32
_PAGE = 4096
_TEMPORARY = ".tmp-"
_TEMPORARY_SECONDS = 86_400  # age from which a temporary file is taken for that of a killed process


def folder() -> Path:
    return cache_folder() / "manifests"


def get(digest: str) -> pa.Table | None:
    """The memory-mapped columns; None if they are not cached or damaged."""
    return _mapped(_path(digest), None)


def _mapped(path: Path, known_seal: bytes | None) -> pa.Table | None:
    """The columns of a file. `known_seal` is the seal that was just computed for it, so that it is not computed again."""
    try:
        with pa.memory_map(str(path)) as mapped:
            data = mapped.read_buffer()
        body, seal = data.slice(0, data.size - _SEAL_BYTES), data.slice(max(0, data.size - _SEAL_BYTES)).to_pybytes()
        if data.size <= _SEAL_BYTES or seal != (known_seal or _seal(body)):
            raise ValueError("the pages do not agree with the seal")
        table = pa.ipc.open_file(pa.BufferReader(body)).read_all()
        if table.schema != columns.SCHEMA:
            raise ValueError("the columns are not ours")
        if known_seal is None:
            os.utime(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pa.ArrowException):
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return table


def put(digest: str, rows: pa.Table) -> pa.Table:
    """Caches the columns and returns them memory-mapped; returns `rows` if they cannot be written."""
    path = _path(digest)
    try:
        with _atomic_file(path) as temporary:
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, columns.SCHEMA) as writer:
                writer.write_table(rows)
            with pa.memory_map(str(temporary)) as mapped:
                seal = _seal(mapped.read_buffer())
            with open(temporary, "ab") as file:
                file.write(seal)
        _evict(path)
    except OSError:
        return rows
    found = _mapped(path, seal)
    return rows if found is None else found


def write(path: Path, data: bytes) -> None:
    """Caches other data about a manifest under its `file_path`. Does nothing if it cannot be written."""
    with suppress(OSError), _atomic_file(path) as temporary:
        temporary.write_bytes(data)


def file_path(name: str) -> Path:
    """The path of a cache file; `name` begins with the digest of a manifest."""
    return folder() / name[:2] / name


@contextmanager
def _atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file to write to, which is renamed to `path` on success: readers never see a partial file."""
    temporary = path.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _path(digest: str) -> Path:
    return file_path(f"{digest}-{_SCHEMA_HASH}.arrow")


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
    now = time.time()
    found: list[tuple[float, int, Path]] = []
    for file in folder().glob("??/*"):
        with suppress(OSError):
            status = file.stat()
            if not file.name.startswith(_TEMPORARY):
                found.append((status.st_mtime, status.st_size, file))
            elif status.st_mtime < now - _TEMPORARY_SECONDS:
                file.unlink()
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if total <= limits.MANIFEST_CACHE_BYTES:
            break
        if file != newest:
            with suppress(OSError):
                file.unlink(missing_ok=True)
            total -= size
