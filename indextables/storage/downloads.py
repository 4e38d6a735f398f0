"""Splits of remote stores, and what is made of splits, on the local disk: whole, or sparse, shared by the user's processes, bounded."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.storage.partial import PartialFile

_TEMPORARY = ".tmp-"
_TEMPORARY_SECONDS = 86_400  # a killed process leaves one behind


def cache_folder() -> Path:
    """INDEXTABLES_CACHE_DIR, or a folder of ours in the user's cache folder: for what can be made again."""
    given = os.environ.get("INDEXTABLES_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "indextables"


class Downloads:
    """`fetch(path, file)` writes the bytes of `path` into the file. Names of splits are used once, so place, name and size are the key."""

    def __init__(self, folder: Path, place: str, most_bytes: int = limits.CACHE_BYTES) -> None:
        self.folder = folder
        self.place = place
        self.most_bytes = most_bytes

    def get(self, path: str, size: int, fetch: Callable[[str, Path], None]) -> Path:
        """The local file; whatever `fetch` raises, and SplitCorrupted if it did not give `size` bytes."""
        key = self._key(path, size)

        whole = self.kept(key, lambda file: _fetch(fetch, path, size, file), size)
        self._sparse(key).unlink(missing_ok=True)  # who has it open may go on
        return whole

    @contextmanager
    def fresh(self, path: str, size: int, fetch: Callable[[str, Path], None]) -> Iterator[Path]:
        """Like `get`, fetched whatever is kept here and gone when the context ends; what is kept stays as it is."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self.folder / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            _fetch(fetch, path, size, temporary)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def partial(self, path: str, size: int, tail_start: int, read: Callable[[int, int], bytes]) -> PartialFile | None:
        """The sparse file, which `read` fills; None where all of it is here already."""
        key = self._key(path, size)
        if _touched(self._whole(key), size):
            return None
        target = self._sparse(key)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = _touched(target, size)
        file = PartialFile(path, target, size, tail_start, read, lambda: self._evict(target))
        if not known:
            self._evict(target)
        return file

    def kept(self, key: str, make: Callable[[Path], None], size: int | None = None) -> Path:
        """The file of a key, of `size` bytes if given; where it is not there, what `make` writes. Several may make it at the same time."""
        target = self._whole(key)
        if _touched(target, size):
            return target
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = target.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            make(temporary)
            os.replace(temporary, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        self._evict(target)
        return target

    def _key(self, path: str, size: int) -> str:
        return hashlib.sha256(f"{self.place}\0{path}\0{size}".encode()).hexdigest()

    def _whole(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.split"

    def _sparse(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.part"

    def _evict(self, keep: Path) -> None:
        """Best effort: other processes do the same at the same time."""
        now = time.time()
        files: list[tuple[float, int, Path]] = []
        for file in (*self.folder.glob("??/*"), *self.folder.glob(f"{_TEMPORARY}*")):
            with suppress(OSError):
                status = file.stat()
                if file.name.startswith(_TEMPORARY):
                    if status.st_mtime < now - _TEMPORARY_SECONDS:
                        file.unlink()
                elif file != keep:
                    files.append((status.st_atime, _bytes_on_disk(status), file))
        with suppress(OSError):
            total = sum(size for _, size, _ in files) + _bytes_on_disk(keep.stat())
            for used, size, file in sorted(files):
                if total <= self.most_bytes or used > now - limits.CACHE_GRACE_SECONDS:
                    break
                file.unlink(missing_ok=True)
                total -= size


def _fetch(fetch: Callable[[str, Path], None], path: str, size: int, file: Path) -> None:
    fetch(path, file)
    found = file.stat().st_size
    if found != size:
        raise SplitCorrupted(f"split {path!r} has {found} bytes and the log says {size}")


def _bytes_on_disk(status: os.stat_result) -> int:
    """Without the holes of a sparse file."""
    return min(status.st_size, status.st_blocks * 512)


def _touched(file: Path, size: int | None) -> bool:
    """Whether it is there and whole; its time of use is set then, while its time of change stays (open splits go by it)."""
    try:
        status = file.stat()
        if size not in (None, status.st_size):
            return False
        os.utime(file, ns=(time.time_ns(), status.st_mtime_ns))
    except FileNotFoundError:
        return False
    return True
