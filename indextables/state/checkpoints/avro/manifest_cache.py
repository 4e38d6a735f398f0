"""Manifests in the form in which they are used, on the local disk: Arrow files that are mapped, not read.

A manifest that is named by its digest never changes, so its columns can be kept under that digest. The folder may be deleted at any time.
A file is believed only after the sums of its pages agree with what was written (about 40 ms for the 400 MB of a million files, once
in a process): a damaged one is thrown away and made again.
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

_SHAPE = hashlib.sha256(columns.SCHEMA.to_string().encode()).hexdigest()[:8]  # of another release: another name
_MAGIC = b"ixtcache"
_SEAL_BYTES = len(_MAGIC) + 32
_PAGE = 4096
_TEMPORARY = ".tmp-"
_TEMPORARY_SECONDS = 86_400  # a killed process leaves one behind


def folder() -> Path:
    return cache_folder() / "manifests"


def get(digest: str) -> pa.Table | None:
    """The mapped columns; None where they are not there, or not whole."""
    return _mapped(_path(digest), None)


def _mapped(path: Path, sealed: bytes | None) -> pa.Table | None:
    """With the seal that was made a moment ago the pages are not summed up again."""
    try:
        with pa.memory_map(str(path)) as mapped:
            data = mapped.read_buffer()
        body, seal = data.slice(0, data.size - _SEAL_BYTES), data.slice(max(0, data.size - _SEAL_BYTES)).to_pybytes()
        if data.size <= _SEAL_BYTES or seal != (sealed or _seal(body)):
            raise ValueError("the pages do not agree with the seal")
        table = pa.ipc.open_file(pa.BufferReader(body)).read_all()
        if table.schema != columns.SCHEMA:
            raise ValueError("the columns are not ours")
        if sealed is None:
            os.utime(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pa.ArrowException):
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return table


def put(digest: str, rows: pa.Table) -> pa.Table:
    """Keeps the columns; gives them mapped, or as they are where the disk does not take them."""
    path = _path(digest)
    try:
        with _published(path) as temporary:
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


def keep(path: Path, data: bytes) -> None:
    """What else is known of a manifest, in its `place`; nothing where the disk does not take it."""
    with suppress(OSError), _published(path) as temporary:
        temporary.write_bytes(data)


def place(name: str) -> Path:
    """Of a name that begins with the digest of a manifest."""
    return folder() / name[:2] / name


@contextmanager
def _published(path: Path) -> Iterator[Path]:
    """A name to write to; what is there at the end is seen under the path, whole or not at all."""
    temporary = path.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _path(digest: str) -> Path:
    return place(f"{digest}-{_SHAPE}.arrow")


def _seal(body: pa.Buffer) -> bytes:
    """A digest of the sums of all pages: no changed, lost or moved page goes unnoticed, at the speed of memory."""
    whole = body.size // _PAGE * _PAGE
    sums = np.frombuffer(body, np.uint64, whole // 8).reshape(-1, _PAGE // 8).sum(axis=1, dtype=np.uint64)
    digest = hashlib.sha256(sums.tobytes())
    digest.update(body.slice(whole).to_pybytes())
    digest.update(body.size.to_bytes(8, "little"))
    return _MAGIC + digest.digest()


def _evict(keep: Path) -> None:
    """The files used least lately go. Best effort: other processes do the same at the same time, and who has one mapped keeps it."""
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
        if file != keep:
            with suppress(OSError):
                file.unlink(missing_ok=True)
            total -= size
