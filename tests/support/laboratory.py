"""Machines that share one store in memory, each with its own view of it: what a machine asks of the store passes through `around`.

Everything is the product's but time, ids, threads and the work of tantivy: a split of the same rows is made once and its bytes used again,
so that ten thousand runs of whole verbs take a minute, and the rows in every split are still real ones.
"""

from __future__ import annotations

import itertools
import tempfile
import types
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import indextables as it
from indextables.actions import live, stored
from indextables.config import Config
from indextables.log import cache as caches
from indextables.log import log
from indextables.operations import executor, merge_task, split_task, write
from indextables.paths import TableRoot
from indextables.splits import SplitInfo, SplitWriter
from indextables.splits.reader import SplitReader
from indextables.state import avro_read, manifest_cache
from indextables.storage import Entry, Store, StoreSpec, memory, remote
from indextables.storage import spec as specs
from indextables.storage.memory import MemoryStore
from indextables.table import snapshot
from tests.support.tables import FakeTime

Result = TypeVar("Result")
CHANGING = {"create", "replace", "upload", "delete"}
Image = dict[str, tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store's seam."""

    verb: str
    path: str
    after: str | None = None

    @property
    def changes(self) -> bool:
        return self.verb in CHANGING

    def commutes_with(self, other: Call) -> bool:
        """Whether it makes no difference which of the two comes first."""
        if not self.changes and not other.changes:
            return True
        if "list" in (self.verb, other.verb):
            seen, written = (self, other) if self.verb == "list" else (other, self)
            return not (written.path.startswith(f"{seen.path}/" if seen.path else "") and (seen.after is None or written.path > seen.after))
        return self.path != other.path


Around = Callable[[Call, Callable[[], Any]], Any]  # carries a call out, or not


def passing(call: Call, perform: Callable[[], Any]) -> Any:
    return perform()


class Seam:
    """A store whose every call passes through `around`; a listing is one call, reading many files is as many."""

    def __init__(self, inner: Store, around: Around) -> None:
        self.inner = inner
        self.around = around

    @property
    def spec(self) -> StoreSpec:
        return self.inner.spec

    @property
    def root(self) -> TableRoot:
        return self.inner.root

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        yield from self.around(Call("list", folder, after), lambda: list(self.inner.list(folder, after)))

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

    def partial_file(self, path: str, size: int, tail_start: int) -> Any:
        return self.inner.partial_file(path, size, tail_start)

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def _call(self, verb: str, path: str, perform: Callable[[], Result]) -> Result:
        result: Result = self.around(Call(verb, path), perform)
        return result


@dataclass
class Laboratory:
    """Places are memory:// tables; a machine is known by its `storage.timeout`, so that its caches are its own."""

    ms: int = 1_700_000_000_000  # by the store's clock
    _arounds: dict[int, Around] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def place(self) -> str:
        return f"memory://laboratory/{next(self._numbers)}"

    def machine(self, around: Around = passing, ids: str | None = None) -> Machine:
        """`ids`: the same in another run."""
        number = next(self._numbers)
        timeout_ms = 100_000 + number % 3_000_000
        self._arounds[timeout_ms] = around
        return Machine(self, {"storage.timeout": f"{timeout_ms}ms"}, FakeTime(self.ms, ids=ids or f"{number % 2**16:04x}"))

    def make_store(self, spec: StoreSpec) -> Store:
        return Seam(MemoryStore(spec), self._arounds.get(round(spec.timeout * 1000), passing))

    def forget_machines(self) -> None:
        for spec in list(specs._open):
            del specs._open[spec]
            caches.forget(spec)
        self._arounds.clear()

    def new_uuid(self) -> uuid.UUID:
        return uuid.UUID(f"00000000-0000-4000-8000-{next(self._names):012d}")

    def image(self, place: str) -> Image:
        base = TableRoot.parse(place).path + "/"
        return {key.removeprefix(base): value for key, value in memory._files.items() if key.startswith(base)}

    def restore(self, image: Image) -> str:
        """A new place with these files."""
        place = self.place()
        base = TableRoot.parse(place).path + "/"
        memory._files.update({base + path: value for path, value in image.items()})
        self.count_names_from(1_000_000)
        return place

    def count_names_from(self, number: int) -> None:
        """So that the same run gives splits the same names."""
        self._names = itertools.count(number)

    def clear(self, *places: str) -> None:
        for place in places:
            base = TableRoot.parse(place).path + "/"
            for key in [key for key in memory._files if key.startswith(base)]:
                del memory._files[key]


@dataclass(frozen=True)
class Machine:
    """A process somewhere: its options and its clock."""

    laboratory: Laboratory
    options: dict[str, str]
    time: FakeTime

    def open(self, place: str, version: int | None = None, **options: Any) -> it.Table:
        return it.open(place, version, options={**self.options, **options}, clock=self.time.clock())

    def spec(self, place: str) -> StoreSpec:
        return StoreSpec.of(TableRoot.parse(place), Config.of(self.options))


@dataclass(frozen=True)
class TableState:
    """What a table holds, whatever its splits are called."""

    version: int
    rows: tuple[int, ...]  # ids, in their order
    files: tuple[tuple[str, tuple[int, ...]], ...]  # partition and ids of each split


def state_of(laboratory: Laboratory, place: str) -> TableState | None:
    """As a new reader that remembers nothing sees it: every live split is there, whole and of the size the log says. None: no table."""
    machine = laboratory.machine()
    try:
        table = machine.open(place, **{"transaction.cache.enabled": "false"})
    except it.TableNotFound:
        return None
    assert table.warnings == [], table.warnings
    base = TableRoot.parse(place).path
    files = []
    listed = table.files().select(["path", "size", "num_records"]).to_pylist()
    for file in listed:
        assert f"{base}/{file['path']}" in memory._files, f"{file['path']} is live and gone"
        data = memory._files[f"{base}/{file['path']}"][0]
        ids = ids_of(data)
        assert (len(data), len(ids)) == (file["size"], file["num_records"])
        files.append((file["path"].rpartition("/")[0], ids))
    assert len({file["path"] for file in listed}) == len(listed)
    return TableState(table.version, tuple(sorted(row for _, ids in files for row in ids)), tuple(sorted(files)))


@cache
def ids_of(split: bytes) -> tuple[int, ...]:
    """The ids in a split, decoded from its bytes."""
    with tempfile.NamedTemporaryFile(suffix=".split") as file:
        file.write(split)
        file.flush()
        with SplitReader(Path(file.name)) as reader:
            reader.verify()
            return tuple(sorted(value for batch in reader.batches(["id"]) for value in batch.column("id").to_pylist()))


_made: dict[Any, tuple[bytes, SplitInfo]] = {}


class OnceWriter:
    """Makes a split of the same rows once; afterwards its bytes are at hand."""

    def __init__(self, schema: pa.Schema, mapping: Any, folder: Path, **options: Any) -> None:
        self._real = lambda: SplitWriter(schema, mapping, folder, **options)
        self._batches: list[pa.RecordBatch] = []
        self.num_rows = self.num_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.num_rows += batch.num_rows
        self.num_bytes += batch.nbytes

    def finish(self, target: Path) -> SplitInfo:
        key = pa.Table.from_batches(self._batches).to_pydict().__repr__()
        if key not in _made:
            writer = self._real()
            for batch in self._batches:
                writer.write(batch)
            info = writer.finish(target)
            _made[key] = target.read_bytes(), info
        target.write_bytes(_made[key][0])
        return _made[key][1]

    def discard(self) -> None:
        self._batches.clear()


def _merge_once(real: Callable[..., SplitInfo]) -> Callable[..., SplitInfo]:
    def merge(sources: Sequence[Path], target: Path, *arguments: Any) -> SplitInfo:
        key = tuple(source.read_bytes() for source in sources)
        if key not in _made:
            info = real(sources, target, *arguments)
            _made[key] = target.read_bytes(), info
        target.write_bytes(_made[key][0])
        return _made[key][1]

    return merge


class Inline(Executor):
    """In place of threads: what is given is done at once. One real thread would not do, since it may go on with what is cancelled."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Result], /, *arguments: Any, **named: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture
def laboratory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    """Nothing in it depends on chance or on how fast this computer is."""
    with laboratory_of(monkeypatch) as made:
        yield made


@contextmanager
def laboratory_of(patch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    made = Laboratory()

    def make(spec: StoreSpec) -> Store:
        return made.make_store(spec)

    patch.setattr(StoreSpec, "_make", make)
    patch.setattr(memory, "_files", {})
    patch.setattr(memory, "time", types.SimpleNamespace(time_ns=lambda: made.ms * 1_000_000))
    for module in (split_task, write):
        patch.setattr(module, "uuid", types.SimpleNamespace(uuid4=made.new_uuid))
    patch.setattr(split_task, "SplitWriter", OnceWriter)
    patch.setattr(merge_task, "merge_files", _merge_once(merge_task.merge_files))
    patch.setattr(manifest_cache, "get", lambda digest: None)  # a machine's disk is empty
    patch.setattr(manifest_cache, "put", lambda digest, rows: rows)
    for module in (executor, merge_task, log, avro_read, remote):  # calls of one machine come one after the other
        patch.setattr(module, "ThreadPoolExecutor", Inline)
    patch.setattr(avro_read, "_VERIFIED", OrderedDict())
    _part_machines(patch)
    yield made
    made.forget_machines()


def _part_machines(patch: pytest.MonkeyPatch) -> None:
    """Before 3.12 a cached property has one lock for all objects of its class, which other processes would not share."""
    kinds = [kind for module in (live, stored, snapshot) for kind in vars(module).values() if isinstance(kind, type)]
    for held in (each for kind in kinds for each in vars(kind).values() if isinstance(each, cached_property)):
        patch.setattr(held, "lock", nullcontext(), raising=False)
