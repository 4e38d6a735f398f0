"""Local disk. The atomic create is a hard link to a finished temporary file: no reader sees half a file, exactly one linker wins."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from indextables import limits
from indextables.errors import StorageError, StorageRefused, UnsafePath
from indextables.paths import TableRoot
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Entry


class LocalStore:
    """A table's folder on a file system with hard links."""

    def __init__(self, root: TableRoot) -> None:
        self.root = root

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec(self.root)

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        with _translated(folder):
            found = _walk(os.path.join(self.root.path, folder) if folder else self.root.path, folder)
            yield from (entry for entry in found if after is None or entry.path > after)

    def read(self, path: str) -> bytes:
        # Unbuffered and without a Path: half the time for a small file.
        with _translated(path), open(f"{self.root.path}/{path}", "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > limits.OBJECT_BYTES:
                raise StorageRefused(f"{path!r} is larger than the {limits.OBJECT_BYTES} bytes that are read in one piece")
            return file.read()

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        return [self.read(path) for path in paths]  # faster than threads can take turns: four of them took twice the CPU

    def read_range(self, path: str, start: int, end: int) -> bytes:
        with _translated(path), open(self._absolute(path), "rb") as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def create(self, path: str, data: bytes) -> bool:
        target = self._absolute(path)
        if target.exists():  # a loser need not write; who wins is decided by the link
            return False
        with _translated(path), _temporary_beside(target, data) as temporary:
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            _sync_folder(target.parent)
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self._absolute(path)
        with _translated(path), _temporary_beside(target, data) as temporary:
            os.replace(temporary, target)
            _sync_folder(target.parent)

    def upload(self, source: Path, path: str) -> int:
        target = self._absolute(path)
        with _translated(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy_durably(source, target)
            _sync_folder(target.parent)
            return target.stat().st_mtime_ns // 1_000_000

    def local_path(self, path: str, size: int) -> Path:
        target = self._absolute(path)
        real_root = os.path.realpath(self.root.path)
        if os.path.commonpath([real_root, os.path.realpath(target)]) != real_root:
            raise UnsafePath(f"path {path!r} leads through a symbolic link out of the table {self.root.path!r}")
        if not target.is_file():
            raise FileNotFoundError(path)
        return target

    def delete(self, path: str) -> None:
        with _translated(path), suppress(FileNotFoundError):
            os.unlink(self._absolute(path))

    def _absolute(self, path: str) -> Path:
        return Path(self.root.path, path)


def _walk(folder: str, shown: str) -> Iterator[Entry]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        name = f"{shown}/{entry.name}" if shown else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, name)
        elif entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield Entry(name, status.st_size, status.st_mtime_ns // 1_000_000)


@contextmanager
def _temporary_beside(target: Path, data: bytes) -> Iterator[Path]:
    """A synced file with `data` in the target's folder, under a name that no reader takes for anything; gone afterwards."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".tmp-{uuid.uuid4().hex}"
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
    temporary = target.parent / f".tmp-{uuid.uuid4().hex}"
    try:
        shutil.copyfile(source, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.rename(temporary, target)
        os.unlink(source)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """FileNotFoundError stays what it is; every other failure of the file system is a StorageError naming the path."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{path!r}: {error.strerror or error}") from error
