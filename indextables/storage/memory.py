"""Tables in the memory of this process, for trying out and for tests. A lock makes the create atomic."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from indextables.paths import TableRoot
from indextables.storage.downloads import Downloads
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Entry

_lock = threading.Lock()
_files: dict[str, tuple[bytes, int]] = {}  # bytes and time by whole path: all stores of a process see the same


def _after_fork() -> None:
    """Another thread may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class MemoryStore:
    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec

    @cached_property
    def _folder(self) -> Path:
        """For what is asked for as a file."""
        folder = tempfile.mkdtemp(prefix="indextables-memory-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # nobody closes a store
        return Path(folder)

    @property
    def root(self) -> TableRoot:
        return self.spec.root

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        base = self.root.path + "/"
        prefix = base + (folder + "/" if folder else "")
        with _lock:
            found = [(key.removeprefix(base), *value) for key, value in _files.items() if key.startswith(prefix)]
        yield from (Entry(path, len(data), modified) for path, data, modified in sorted(found) if after is None or path > after)

    def read(self, path: str) -> bytes:
        with _lock:
            if self.root.join(path) not in _files:
                raise FileNotFoundError(path)
            return _files[self.root.join(path)][0]

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self.read(path)[start:end]

    def create(self, path: str, data: bytes) -> bool:
        with _lock:
            if self.root.join(path) in _files:
                return False
            self._put(path, data)
            return True

    def replace(self, path: str, data: bytes) -> None:
        with _lock:
            self._put(path, data)

    def upload(self, source: Path, path: str) -> int:
        data = source.read_bytes()
        with _lock:
            modified = self._put(path, data)
        source.unlink()
        return modified

    def local_path(self, path: str, size: int) -> Path:
        return Downloads(self._folder, self.root.path, self.spec.cache_bytes).get(
            path, size, lambda name, file: _write(file, self.read(name))
        )

    def partial_file(self, path: str, size: int, tail_start: int) -> None:
        return None  # all of it is here

    def delete(self, path: str) -> None:
        with _lock:
            _files.pop(self.root.join(path), None)

    def _put(self, path: str, data: bytes) -> int:
        modified = time.time_ns() // 1_000_000
        _files[self.root.join(path)] = (bytes(data), modified)
        return modified


def _write(file: Path, data: bytes) -> None:
    file.write_bytes(data)
