"""Local disk. A file is created atomically as a hard link to a finished temporary file: no reader sees part of it, one writer wins."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from indextables import limits
from indextables.errors import StorageError, StorageRefused, UnsafePath
from indextables.paths import TableRoot, temporary_name
from indextables.storage.store import LOCAL_CAPABILITIES, Entry, StoreSpec

# Errors that a retry does not fix.
_REFUSALS = frozenset(
    getattr(errno, name)
    for name in ("EACCES", "EPERM", "EROFS", "EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "ELOOP", "EINVAL", "ENOTSUP")
)
# The folder of a state is written once. It is deleted with its last file, as folders in object stores are.
_STATE_FOLDER = re.compile(r"state-v[0-9]{20}")


class LocalStore:
    """A table's folder on a file system with hard links."""

    capabilities = LOCAL_CAPABILITIES

    def __init__(self, root: TableRoot) -> None:
        self.root = root

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec(self.root)

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        with _translated(folder):
            yield from _walk(os.path.join(self.root.path, folder) if folder else self.root.path, folder, after or "")

    def read(self, path: str) -> bytes:
        # Through a descriptor: a file object and a context manager cost as much as reading a small file.
        try:
            descriptor = os.open(f"{self.root.path}/{path}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                if size > limits.OBJECT_BYTES:
                    raise StorageRefused(f"{path!r} is larger than the {limits.OBJECT_BYTES} bytes that are read in one piece")
                data = os.read(descriptor, size + 1)
                # One call may return less than the file has.
                return data if len(data) == size else data + b"".join(iter(lambda: os.read(descriptor, limits.MIB), b""))
            finally:
                os.close(descriptor)
        except (FileNotFoundError, IsADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as error:
            raise _failure(path, error) from error

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        return [self.read(path) for path in paths]  # no threads: four of them took twice the CPU

    def read_range(self, path: str, start: int, end: int) -> bytes:
        with _translated(path), open(self._absolute(path), "rb") as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def create(self, path: str, data: bytes) -> bool:
        target = self._absolute(path)
        if target.exists():  # saves writing the temporary file; the link decides who wins
            return False
        with _translated(path), _temporary_beside(target, data) as temporary:
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                    raise StorageRefused(f"{path!r}: the file system has no hard links, so no file can be created atomically") from error
                raise
            sync_folder(target.parent)
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self._absolute(path)
        with _translated(path), _temporary_beside(target, data) as temporary:
            os.replace(temporary, target)
            sync_folder(target.parent)

    def upload(self, source: Path, path: str) -> int:
        target = self._absolute(path)
        with _translated(path):
            _make_folder(target.parent)
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy_durably(source, target)
            sync_folder(target.parent)
            return target.stat().st_mtime_ns // 1_000_000

    def local_path(self, path: str, size: int) -> Path:
        target = self._absolute(path)
        real_root = os.path.realpath(self.root.path)
        if os.path.commonpath([real_root, os.path.realpath(target)]) != real_root:
            raise UnsafePath(f"path {path!r} leads through a symbolic link out of the table {self.root.path!r}")
        if not target.is_file():
            raise FileNotFoundError(path)
        return target

    def fresh_copy(self, path: str, size: int) -> AbstractContextManager[Path]:
        return nullcontext(self.local_path(path, size))

    def partial_file(self, path: str, size: int, tail_start: int) -> None:
        return None  # the whole file is local

    def delete(self, path: str) -> None:
        target = self._absolute(path)
        with _translated(path), suppress(FileNotFoundError):
            os.unlink(target)
        if _STATE_FOLDER.fullmatch(target.parent.name):
            with suppress(OSError):  # not empty yet
                os.rmdir(target.parent)

    def _absolute(self, path: str) -> Path:
        return Path(self.root.path, path)


def _walk(folder: str, shown: str, after: str) -> Iterator[Entry]:
    """Yields the files after `after`; files before it are never read, only their names: a log has thousands of versions to skip."""
    prefix = f"{shown}/" if shown else ""
    first = after[len(prefix) :] if after.startswith(prefix) else ""  # a folder that sorts before `after` as a whole is not walked
    try:
        found = list(filter(first.__lt__, os.listdir(folder)))  # filtered at C speed: ten thousand names may be skipped
    except (FileNotFoundError, NotADirectoryError):
        return
    # A folder may sort before `first` while files in it sort after: then its name is a prefix of `first`.
    step = first.partition("/")[0]
    found += [step[:end] for end in range(1, len(step) + 1) if step[:end] <= first and os.path.isdir(f"{folder}/{step[:end]}")]
    found.sort()
    for name in found:
        path = prefix + name
        try:
            status = os.lstat(f"{folder}/{name}")
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            if f"{path}/" > after or after.startswith(f"{path}/"):
                yield from _walk(f"{folder}/{name}", path, after)
        elif path > after and stat.S_ISREG(status.st_mode):
            yield Entry(path, status.st_size, status.st_mtime_ns // 1_000_000)


@contextmanager
def _temporary_beside(target: Path, data: bytes) -> Iterator[Path]:
    """A synced file with `data` in the target's folder, under a name that readers ignore; deleted when the context ends."""
    _make_folder(target.parent)
    temporary = target.parent / temporary_name()
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _copy_durably(source: Path, target: Path) -> None:
    temporary = target.parent / temporary_name()
    try:
        shutil.copyfile(source, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.rename(temporary, target)
        os.unlink(source)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _make_folder(folder: Path) -> None:
    """Creates a folder durably: if its name were lost in a crash, all its synced files would be lost with it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turns failures of the file system into StorageErrors that name the path; FileNotFoundError stays as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: str, error: OSError) -> StorageError:
    kind = StorageRefused if error.errno in _REFUSALS else StorageError
    return kind(f"{path!r}: {error.strerror or error}")
