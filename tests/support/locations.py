"""Where the tables of a simulation are stored: in memory, on local disk or on a real S3 server.

Modification times come from the clock of the simulation, since verbs depend on them.
"""

from __future__ import annotations

import http.client
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

import pytest

from indextables.paths import TableRoot
from indextables.storage import Entry, LocalStore, Store, StoreSpec, local, memory
from indextables.storage.memory import MemoryStore
from indextables.storage.remote import RemoteStore
from indextables.storage.s3 import S3Backend
from tests.support.intercepted_store import Call, Interceptor
from tests.support.s3 import Server

Image = dict[str, tuple[bytes, int]]  # bytes and time of every file, by its path in the table
Now = Callable[[], int]
CLIENT_SECONDS = 30.0


class Location(Protocol):
    """Provides addresses of tables, none a prefix of another. Whatever starts with such an address belongs to that table."""

    name: str
    options: dict[str, str]

    def patch(self, patch: pytest.MonkeyPatch, now: Now) -> None:
        """Patches the product; called first. `now` is the modification time of written files."""

    def place(self, number: int) -> str: ...

    def store(self, spec: StoreSpec, intercept: Interceptor) -> Store: ...

    def image(self, place: str) -> Image: ...

    def fill(self, place: str, image: Image) -> None: ...

    def clear(self, place: str) -> None: ...


class MemoryLocation:
    name = "memory"
    options: ClassVar[dict[str, str]] = {}

    def patch(self, patch: pytest.MonkeyPatch, now: Now) -> None:
        patch.setattr(memory, "_files", {})
        patch.setattr(memory, "time", SimpleNamespace(time_ns=lambda: now() * 1_000_000))

    def place(self, number: int) -> str:
        return f"memory://simulation/{number}t"

    def store(self, spec: StoreSpec, intercept: Interceptor) -> Store:
        return MemoryStore(spec)

    def image(self, place: str) -> Image:
        base = TableRoot.parse(place).path + "/"
        return {key.removeprefix(base): value for key, value in memory._files.items() if key.startswith(base)}

    def fill(self, place: str, image: Image) -> None:
        base = TableRoot.parse(place).path + "/"
        memory._files.update({base + path: value for path, value in image.items()})

    def clear(self, place: str) -> None:
        base = TableRoot.parse(place).path
        for key in [key for key in memory._files if key.startswith(base)]:
            del memory._files[key]


@dataclass
class FileTimes:
    """When each file was written on the clock of the simulation. A file left by a crash counts from when it was first listed."""

    now: Now = lambda: 0
    known: dict[str, dict[str, int]] = field(default_factory=dict)  # by table and path

    def of(self, root: TableRoot) -> dict[str, int]:
        return self.known.setdefault(str(root), {})

    def written(self, root: TableRoot, path: str) -> int:
        self.of(root)[path] = self.now()
        return self.now()

    def seen(self, root: TableRoot, path: str) -> int:
        return self.of(root).setdefault(path, self.now())

    def forget(self, place: str) -> None:
        for root in [root for root in self.known if root.startswith(str(TableRoot.parse(place)))]:
            del self.known[root]


class StoreWithTimes:
    """A store that reports the modification times of the simulation."""

    def __init__(self, inner: Any, times: FileTimes) -> None:
        self.inner = inner
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        return (replace(entry, modified_ms=self.times.seen(self.inner.root, entry.path)) for entry in self.inner.list(folder, after))

    def create(self, path: str, data: bytes) -> bool:
        made = self.inner.create(path, data)
        if made:
            self.times.written(self.inner.root, path)
        return bool(made)

    def replace(self, path: str, data: bytes) -> None:
        self.inner.replace(path, data)
        self.times.written(self.inner.root, path)

    def upload(self, source: Path, path: str) -> int:
        self.inner.upload(source, path)
        return self.times.written(self.inner.root, path)

    def delete(self, path: str) -> None:
        self.inner.delete(path)
        self.times.of(self.inner.root).pop(path, None)


class FileSystemSteps:
    """Replaces `os` in the local store. Its changes go through the interceptor of the machine, so that a crash can also happen
    between writing the temporary file and linking it."""

    WORDS = frozenset({"link", "rename", "replace", "unlink", "rmdir"})

    def __init__(self) -> None:
        self._thread = threading.local()

    @contextmanager
    def intercepted_by(self, intercept: Interceptor) -> Iterator[None]:
        self._thread.intercept = intercept
        try:
            yield
        finally:
            self._thread.intercept = None

    def opened(self, file: Any, mode: str) -> Any:
        if mode != "xb":
            return open(file, mode)
        self._step("make", lambda: open(file, mode).close(), file)
        return open(file, "wb")

    def _step(self, word: str, perform: Callable[[], Any], target: Any) -> Any:
        intercept = getattr(self._thread, "intercept", None)
        return perform() if intercept is None else intercept(Call(f"{word} a file", os.path.basename(target)), perform)

    def __getattr__(self, word: str) -> Any:
        real = getattr(os, word)
        return (lambda *paths: self._step(word, lambda: real(*paths), paths[-1])) if word in self.WORDS else real


class _StoreInSteps:
    """A store whose file system calls go through `steps`."""

    def __init__(self, inner: Store, steps: FileSystemSteps, intercept: Interceptor) -> None:
        self.inner, self.steps, self.intercept = inner, steps, intercept

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.inner, name)
        if name not in ("create", "replace", "upload", "delete"):
            return real

        def changing(*given: Any) -> Any:
            with self.steps.intercepted_by(self.intercept):
                return real(*given)

        return changing


@dataclass
class DiskLocation:
    """With `intercept_file_system`, the single file system calls of the store are intercepted, too."""

    folder: Path
    intercept_file_system: bool = False
    name: str = "disk"
    options: dict[str, str] = field(default_factory=dict)
    times: FileTimes = field(default_factory=FileTimes)
    steps: FileSystemSteps = field(default_factory=FileSystemSteps)
    _temporaries: int = 0

    def patch(self, patch: pytest.MonkeyPatch, now: Now) -> None:
        self.times.now = now
        patch.setattr(os, "fsync", lambda descriptor: None)  # tests crash processes, not computers
        patch.setattr(local, "temporary_name", self._temporary)
        if self.intercept_file_system:
            patch.setattr(local, "os", self.steps)
            patch.setattr(local, "open", self.steps.opened, raising=False)

    def _temporary(self) -> str:
        self._temporaries += 1
        return f".tmp-{uuid.UUID(int=self._temporaries, version=4).hex}"

    def place(self, number: int) -> str:
        self._temporaries = 0
        return str(self.folder / f"{number}t")

    def store(self, spec: StoreSpec, intercept: Interceptor) -> Store:
        store = LocalStore(spec.root)
        return StoreWithTimes(_StoreInSteps(store, self.steps, intercept) if self.intercept_file_system else store, self.times)  # type: ignore[return-value]

    def image(self, place: str) -> Image:
        root = TableRoot.parse(place)
        found: Image = {}
        for folder, _, names in os.walk(root.path):
            for name in names:
                path = f"{folder}/{name}"[len(root.path) + 1 :]
                found[path] = Path(root.path, path).read_bytes(), self.times.seen(root, path)
        return found

    def fill(self, place: str, image: Image) -> None:
        root = TableRoot.parse(place)
        for folder in {os.path.dirname(path) for path in image}:
            os.makedirs(f"{root.path}/{folder}", exist_ok=True)
        for path, (data, modified) in image.items():
            Path(root.path, path).write_bytes(data)
            self.times.of(root)[path] = modified

    def clear(self, place: str) -> None:
        for folder in self.folder.glob(f"{Path(place).name}*"):
            shutil.rmtree(folder)
        self.times.forget(place)


@dataclass
class S3Location:
    """A bucket on a server. Plain requests fill and read it, independently of the product."""

    server: Server
    name: str = "s3"
    times: FileTimes = field(default_factory=FileTimes)
    base: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def options(self) -> dict[str, str]:
        return {name: value for name, value in self.server.options.items() if name != "storage.timeout"}

    def patch(self, patch: pytest.MonkeyPatch, now: Now) -> None:
        self.times.now = now

    def place(self, number: int) -> str:
        return f"s3://{self.server.bucket}/{self.base}/{number}t"

    def store(self, spec: StoreSpec, intercept: Interceptor) -> Store:
        """All machines share a client, since creating one takes longer than most verbs."""
        shared = replace(spec, timeout=CLIENT_SECONDS)
        return StoreWithTimes(RemoteStore(shared, S3Backend(shared)), self.times)  # type: ignore[return-value]

    def image(self, place: str) -> Image:
        root = TableRoot.parse(place)
        store = RemoteStore(self._spec(root), S3Backend(self._spec(root)))
        paths = [entry.path for entry in store.list("")]
        with self._connected() as request:
            return {path: (request("GET", f"{root.path}/{path}"), self.times.seen(root, path)) for path in paths}

    def fill(self, place: str, image: Image) -> None:
        root = TableRoot.parse(place)
        with self._connected() as request:
            for path, (data, modified) in image.items():
                request("PUT", f"{root.path}/{path}", data)
                self.times.of(root)[path] = modified

    def clear(self, place: str) -> None:
        """Leaves the objects: the server is discarded after the tests."""
        self.times.forget(place)

    def _spec(self, root: TableRoot) -> StoreSpec:
        return StoreSpec(root, self.server.url, self.server.options["s3.region"])

    @contextmanager
    def _connected(self) -> Iterator[Callable[..., bytes]]:
        with closing(http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)) as connection:

            def request(method: str, path: str, body: bytes | None = None) -> bytes:
                connection.request(method, f"/{quote(path)}", body)
                answer = connection.getresponse()
                data = answer.read()
                assert answer.status == http.client.OK, (method, path, answer.status, data)
                return data

            yield request
