"""Tables in the memory of this process, for experiments and tests.

There is no lock, because a fork could copy it while another thread holds it: each change is a single dict operation, which is atomic.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from indextables.storage.file_cache import FileCache
from indextables.storage.store import LOCAL_CAPABILITIES, Entry, StoreSpec

_files: dict[str, tuple[bytes, int]] = {}  # bytes and time by full path, shared by all stores of the process


class MemoryStore:
    capabilities = LOCAL_CAPABILITIES

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.root = spec.root

    @cached_property
    def _folder(self) -> Path:
        """Temporary folder for files that callers need on disk."""
        folder = tempfile.mkdtemp(prefix="indextables-memory-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # stores are never closed
        return Path(folder)

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        base = self.root.path + "/"
        prefix = base + (folder + "/" if folder else "")
        found = [(key.removeprefix(base), *value) for key, value in _files.copy().items() if key.startswith(prefix)]
        yield from (Entry(path, len(data), modified) for path, data, modified in sorted(found) if after is None or path > after)

    def read(self, path: str) -> bytes:
        found = _files.get(self.root.join(path))
        if found is None:
            raise FileNotFoundError(path)
        return found[0]

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self.read(path)[start:end]

    def create(self, path: str, data: bytes) -> bool:
        new = _file(data)
        return _files.setdefault(self.root.join(path), new) is new

    def replace(self, path: str, data: bytes) -> None:
        _files[self.root.join(path)] = _file(data)

    def upload(self, source: Path, path: str) -> int:
        file = _file(source.read_bytes())
        _files[self.root.join(path)] = file
        source.unlink()
        return file[1]

    def local_path(self, path: str, size: int) -> Path:
        return self._file_cache().get(path, size, lambda name, file: file.write_bytes(self.read(name)))

    def fresh_copy(self, path: str, size: int) -> AbstractContextManager[Path]:
        return self._file_cache().fresh(path, size, lambda name, file: file.write_bytes(self.read(name)))

    def partial_file(self, path: str, size: int, tail_start: int) -> None:
        return None  # the whole file is local

    def _file_cache(self) -> FileCache:
        return FileCache(self._folder, self.root.path, self.spec.cache_bytes)

    def delete(self, path: str) -> None:
        _files.pop(self.root.join(path), None)


def _file(data: bytes) -> tuple[bytes, int]:
    return bytes(data), time.time_ns() // 1_000_000
