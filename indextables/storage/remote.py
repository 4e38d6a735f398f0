"""A table in an object store: provides the guarantees of `Store` on top of a backend's single requests.

A backend sends one request and raises whatever its library raises. This module classifies the failure, retries, reads back, and raises our
own errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from indextables import limits
from indextables.errors import CommitUnknown, ConfigError, StorageRefused
from indextables.storage.faults import Deadline, Fault, FaultKind, attempt, retrying
from indextables.storage.file_cache import FileCache, cache_folder
from indextables.storage.partial import PartialFile
from indextables.storage.probe import require_atomic
from indextables.storage.store import Capabilities, Entry, StoreSpec


@dataclass(frozen=True, slots=True)
class Page:
    entries: Sequence[Entry]
    next: str | None  # token of the next page; None: this is the last


class Backend(Protocol):
    """Single requests, each within `seconds` if the library can be stopped; never retried, never cached."""

    creates_atomically: bool  # by specification
    needs_probe: bool  # whether some servers ignore that specification, so that a probe must test it

    def put(self, path: str, data: bytes, seconds: float, *, if_absent: bool) -> int:
        """Writes with one request; returns the time of the store in ms."""

    def get(self, path: str, seconds: float, start: int | None = None, end: int | None = None) -> bytes: ...

    def size(self, path: str, seconds: float) -> int: ...

    def page(self, folder: str, after: str | None, token: str | None, seconds: float) -> Page: ...

    def delete(self, path: str, seconds: float) -> None: ...

    def upload_parts(self, source: Path, path: str, timeout: float) -> int:
        """Uploads a file that is too large for one request, completely or not at all; returns the time of the store in ms."""


class RemoteStore:
    def __init__(self, spec: StoreSpec, backend: Backend) -> None:
        self.spec = spec
        self.root = spec.root
        self.capabilities = Capabilities(has_latency=True, needs_atomicity_probe=backend.needs_probe and not spec.single_writer)
        self.backend = backend
        if not (backend.creates_atomically or spec.single_writer):
            raise ConfigError(
                f"{str(spec.root)!r}: a {spec.root.scheme} store cannot create files atomically, so writers could overwrite each other; "
                "set storage.singleWriter=true if there is only one"
            )

    def __repr__(self) -> str:
        return f"RemoteStore({str(self.root)!r})"

    # ---- reading ----

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        token: str | None = None
        while True:
            page = retrying(self.root, folder, self.spec.timeout, partial(self.backend.page, folder, after, token))
            yield from page.entries
            if page.next is None:
                return
            token = page.next

    def read(self, path: str) -> bytes:
        return retrying(self.root, path, self.spec.timeout, partial(self.backend.get, path))

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        if len(paths) < 2:
            return [self.read(path) for path in paths]
        with ThreadPoolExecutor(min(limits.PARALLEL_READS, len(paths))) as pool:
            return list(pool.map(self.read, paths))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        return retrying(self.root, path, self.spec.timeout, partial(self.backend.get, path, start=start, end=end))

    def local_path(self, path: str, size: int) -> Path:
        return self._file_cache().get(path, size, partial(self._download, size))

    def fresh_copy(self, path: str, size: int) -> AbstractContextManager[Path]:
        return self._file_cache().fresh(path, size, partial(self._download, size))

    def partial_file(self, path: str, size: int, tail_start: int) -> PartialFile | None:
        if size <= limits.WHOLE_BYTES or not 0 < size - tail_start <= min(size, limits.PART_BYTES):
            return None  # small, or its tail is too large to be read at once
        return self._file_cache().partial(path, size, tail_start, partial(self.read_range, path))

    def _file_cache(self) -> FileCache:
        return FileCache(cache_folder() / "splits", f"{self.spec.root}\0{self.spec.endpoint}", self.spec.cache_bytes)

    def _download(self, size: int, path: str, target: Path) -> None:
        """Downloads in parts, each with its own timeout. Also asks for bytes beyond `size`, so that a file that is too long is detected."""
        if size <= limits.PART_BYTES:
            target.write_bytes(self.read(path))
            return
        starts = range(0, size + 1, limits.PART_BYTES)
        with open(target, "wb") as file, ThreadPoolExecutor(limits.PARALLEL_PARTS) as pool:

            def fetch(start: int) -> None:
                os.pwrite(file.fileno(), self.read_range(path, start, start + limits.PART_BYTES), start)

            for _ in pool.map(fetch, starts):
                pass

    # ---- writing ----

    def create(self, path: str, data: bytes) -> bool:
        self._ready_to_write(path, len(data))
        if self.spec.single_writer and self._is_there(path):
            return False
        return self.create_without_probe(path, data)

    def create_without_probe(self, path: str, data: bytes) -> bool:
        """`create` without a proof that it is atomic; the probe races this method."""
        deadline = Deadline(self.spec.timeout)
        put = partial(self.backend.put, path, data, if_absent=self.backend.creates_atomically)
        is_sent = False
        while True:
            fault = attempt(deadline, put)
            if not isinstance(fault, Fault):
                return True
            is_sent = is_sent or fault.kind in (FaultKind.LOST, FaultKind.EXISTS)
            if not is_sent and not fault.is_retryable:
                raise fault.error(self.root, path)
            if is_sent:
                # Also if the store answers that the object exists: the connection may have sent our own request twice.
                found = attempt(deadline, partial(self.backend.get, path))
                if isinstance(found, bytes):
                    return found == data
            if not deadline.pause():
                if is_sent:
                    raise CommitUnknown(f"{path!r} may have been written or not: {fault.sentence}; nothing was cleaned up")
                raise fault.error(self.root, path, deadline.seconds)

    def replace(self, path: str, data: bytes) -> None:
        self._ready_to_write(path, len(data))
        retrying(self.root, path, self.spec.timeout, partial(self.backend.put, path, data, if_absent=False))

    def upload(self, source: Path, path: str) -> int:
        self._ready_to_write(path, 0)
        if source.stat().st_size <= limits.PART_BYTES:
            data = source.read_bytes()
            modified = retrying(self.root, path, self.spec.timeout, partial(self.backend.put, path, data, if_absent=False))
        else:
            modified = self.backend.upload_parts(source, path, self.spec.timeout)
        source.unlink()
        return modified

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            retrying(self.root, path, self.spec.timeout, partial(self.backend.delete, path))

    def _ready_to_write(self, path: str, size: int) -> None:
        if size > limits.OBJECT_BYTES:
            raise StorageRefused(f"{path!r} has {size} bytes, more than the {limits.OBJECT_BYTES} that are written in one piece")
        if self.capabilities.needs_atomicity_probe:
            require_atomic(self)

    def _is_there(self, path: str) -> bool:
        try:
            retrying(self.root, path, self.spec.timeout, partial(self.backend.size, path))
        except FileNotFoundError:
            return False
        return True
