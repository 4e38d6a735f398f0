"""A store in a dict, fast enough for tests that create thousands of logs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from indextables.paths import TableRoot
from indextables.storage import Capabilities, Entry, StoreSpec

_NUMBERS = itertools.count()


class MemoryStore:
    """The operations that a log needs. Modification times are constant unless a test sets them."""

    capabilities = Capabilities(has_latency=True, needs_atomicity_probe=False)  # runs the same code paths as a remote store

    def __init__(self) -> None:
        self.root = TableRoot(f"/memory/table-{next(_NUMBERS)}")
        self.spec = StoreSpec(self.root)
        self.files: dict[str, bytes] = {}
        self.modified_ms = 1_700_000_000_000
        self.reads: list[str] = []
        self.lists = 0
        self.shown: list[str] = []  # all listed paths

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        self.lists += 1
        for path, data in sorted(self.files.items()):
            if (path.startswith(folder + "/") or not folder) and (after is None or path > after):
                self.shown.append(path)
                yield Entry(path, len(data), self.modified_ms)

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        return [self.read(path) for path in paths]

    def create(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.files[path] = data
        return True

    def replace(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def upload(self, source: Path, path: str) -> int:
        self.files[path] = source.read_bytes()
        source.unlink()
        return self.modified_ms

    def delete(self, path: str) -> None:
        self.files.pop(path, None)
