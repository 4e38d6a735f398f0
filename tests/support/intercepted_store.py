"""A store whose calls pass through an interceptor, which can fail, delay or count them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from indextables.config import Config
from indextables.paths import TableRoot
from indextables.storage import Capabilities, Entry, Store, StoreSpec, open_store
from indextables.storage.opening import open_stores

Result = TypeVar("Result")
CHANGING = {"create", "replace", "upload", "delete"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store operation."""

    verb: str
    path: str
    after: str | None = None

    @property
    def changes(self) -> bool:
        return self.verb in CHANGING or self.verb.endswith(" a file")  # a single file system call of one of those

    @property
    def commits(self) -> bool:
        return self.verb == "create" and re.fullmatch(r"_transaction_log/[0-9]{20}\.json", self.path) is not None

    def commutes_with(self, other: Call) -> bool:
        """Whether the order of the two calls makes no difference."""
        if not self.changes and not other.changes:
            return True
        if "list" in (self.verb, other.verb):
            seen, written = (self, other) if self.verb == "list" else (other, self)
            return not (written.path.startswith(f"{seen.path}/" if seen.path else "") and (seen.after is None or written.path > seen.after))
        return self.path != other.path


Perform = Callable[[], Any]
Interceptor = Callable[[Call, Perform], Any]  # performs a call or prevents it


def pass_through(call: Call, perform: Perform) -> Any:
    return perform()


LIKE_REMOTE = Capabilities(has_latency=True, needs_atomicity_probe=False)  # runs the same code paths as a remote store


class InterceptedStore:
    """A store whose calls pass through `intercept`. A listing is one call; reading many files is one call per file."""

    def __init__(self, spec: StoreSpec, inner: Store, intercept: Interceptor, capabilities: Capabilities = LIKE_REMOTE) -> None:
        self.spec = spec
        self.inner = inner
        self.intercept = intercept
        self.capabilities = capabilities

    @property
    def root(self) -> TableRoot:
        return self.spec.root

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        yield from self.intercept(Call("list", folder, after), lambda: list(self.inner.list(folder, after)))

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self.inner.read(path))

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._call("read_range", path, lambda: self.inner.read_range(path, start, end))

    def create(self, path: str, data: bytes) -> bool:
        return self._call("create", path, lambda: self.inner.create(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self._call("replace", path, lambda: self.inner.replace(path, data))

    def upload(self, source: Path, path: str) -> int:
        return self._call("upload", path, lambda: self.inner.upload(source, path))

    def local_path(self, path: str, size: int) -> Path:
        return self._call("local_path", path, lambda: self.inner.local_path(path, size))

    def fresh_copy(self, path: str, size: int) -> AbstractContextManager[Path]:
        return self._call("fresh_copy", path, lambda: self.inner.fresh_copy(path, size))

    def partial_file(self, path: str, size: int, tail_start: int) -> Any:
        return self.inner.partial_file(path, size, tail_start)

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def _call(self, verb: str, path: str, perform: Callable[[], Result]) -> Result:
        result: Result = self.intercept(Call(verb, path), perform)
        return result


@contextmanager
def intercepting(path: str | Path, intercept: Interceptor, **options: Any) -> Iterator[None]:
    """Handles of the table that are opened inside, and the tasks they start, make every store call through `intercept`.

    Handles that are opened before keep the store itself. `options` are those of the handles, as far as they concern the store.
    """
    spec = StoreSpec.of(TableRoot.parse(path), Config.of(options))
    inner = open_store(spec)
    _use(spec, InterceptedStore(spec, inner, intercept, inner.capabilities))
    try:
        yield
    finally:
        _use(spec, inner)


def _use(spec: StoreSpec, store: Store) -> None:
    open_stores.pop(spec)
    open_stores.put(spec, store)
