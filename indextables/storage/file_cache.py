"""A bounded cache on the local disk of remote splits and of files derived from splits, shared by the processes of a user."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from indextables import limits
from indextables.atomic_file import replacing, temporary_in
from indextables.errors import SplitCorrupted
from indextables.paths import TEMPORARY
from indextables.storage.partial import PartialFile

_TEMPORARY_SECONDS = 86_400  # older temporary files were left by killed processes


def cache_folder() -> Path:
    """INDEXTABLES_CACHE_DIR, or `indextables` in the user's cache folder. Everything in it can be made again."""
    given = os.environ.get("INDEXTABLES_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "indextables"


@contextmanager
def caching(target: Path) -> Iterator[Path]:
    """A temporary file to write to, which becomes `target` on success: readers never see a partial file. Creates the folder."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(target) as temporary:
        yield temporary


def cached_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of a cache, which are in folders of two characters. Deletes temporary files that killed processes left."""
    for file in (*folder.glob("??/*"), *folder.glob(f"{TEMPORARY}*")):
        with suppress(OSError):
            status = file.stat()
            if not file.name.startswith(TEMPORARY):
                yield file, status
            elif status.st_mtime < time.time() - _TEMPORARY_SECONDS:
                file.unlink()


class FileCache:
    """Files by location, path and size, which identify a split, since its name is never reused. `fetch(path, file)` downloads one."""

    def __init__(self, folder: Path, location: str, max_bytes: int = limits.CACHE_BYTES) -> None:
        self.folder = folder
        self.location = location
        self.max_bytes = max_bytes

    def get(self, path: str, size: int, fetch: Callable[[str, Path], object]) -> Path:
        """The local file, fetched if it is not cached. Errors of `fetch` pass through.

        SplitCorrupted if `fetch` does not write `size` bytes.
        """
        key = self._key(path, size)
        whole = self.get_or_make(key, lambda file: _fetch(fetch, path, size, file), size)
        self._sparse(key).unlink(missing_ok=True)  # processes that have it open can still use it
        return whole

    @contextmanager
    def fresh(self, path: str, size: int, fetch: Callable[[str, Path], object]) -> Iterator[Path]:
        """Like `get`, but always fetches, into a file that is deleted when the context ends; the cache is neither read nor changed."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with temporary_in(self.folder) as temporary:
            _fetch(fetch, path, size, temporary)
            yield temporary

    def partial(self, path: str, size: int, tail_start: int, read: Callable[[int, int], bytes]) -> PartialFile | None:
        """The sparse file, filled by `read`; None if the whole file is cached already."""
        key = self._key(path, size)
        if _touched(self._whole(key), size):
            return None
        target = self._sparse(key)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_cached = _touched(target, size)
        file = PartialFile(path, target, size, tail_start, read, lambda: self._evict(target))
        if not is_cached:
            self._evict(target)
        return file

    def get_or_make(self, key: str, make: Callable[[Path], None], size: int | None = None) -> Path:
        """The cached file of a key, of `size` bytes if given; if it is missing, `make` writes it. Several processes may do so at once."""
        target = self._whole(key)
        if _touched(target, size):
            return target
        with caching(target) as temporary:
            make(temporary)
        self._evict(target)
        return target

    def _key(self, path: str, size: int) -> str:
        return hashlib.sha256(f"{self.location}\0{path}\0{size}".encode()).hexdigest()

    def _whole(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.split"

    def _sparse(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.part"

    def _evict(self, keep: Path) -> None:
        """Deletes the least recently used files until the rest fits. Best effort: other processes may do the same at the same time."""
        now = time.time()
        files = [(status.st_atime, _bytes_on_disk(status), file) for file, status in cached_files(self.folder) if file != keep]
        with suppress(OSError):
            total = sum(size for _, size, _ in files) + _bytes_on_disk(keep.stat())
            for used, size, file in sorted(files):
                if total <= self.max_bytes or used > now - limits.CACHE_GRACE_SECONDS:
                    break
                file.unlink(missing_ok=True)
                total -= size


def _fetch(fetch: Callable[[str, Path], object], path: str, size: int, file: Path) -> None:
    fetch(path, file)
    found = file.stat().st_size
    if found != size:
        raise SplitCorrupted(f"split {path!r} has {found} bytes, but the log says {size}")


def _bytes_on_disk(status: os.stat_result) -> int:
    """The allocated size: holes of a sparse file do not count."""
    return min(status.st_size, status.st_blocks * 512)


def _touched(file: Path, size: int | None) -> bool:
    """Whether the file exists with this size. Then sets its access time, and keeps its modification time, which identifies open splits."""
    try:
        status = file.stat()
        if size not in (None, status.st_size):
            return False
        os.utime(file, ns=(time.time_ns(), status.st_mtime_ns))
    except FileNotFoundError:
        return False
    return True
