"""Machines that share one store, each with its own view of it: what a machine asks of the store passes through `intercept`.

Everything is the product's but time, ids, threads and the work of tantivy: a split of the same rows is made once and its bytes used again,
so that ten thousand runs of whole verbs take a minute, and the rows in every split are still real ones.
"""

from __future__ import annotations

import itertools
import tempfile
import types
import uuid
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
from indextables.actions import live, segments
from indextables.config import Config
from indextables.log import cache as caches
from indextables.log import log
from indextables.operations import executor
from indextables.operations.merge import task as merge_task
from indextables.operations.write import run as write
from indextables.paths import TableRoot
from indextables.process_cache import ProcessCache
from indextables.rows import split_task
from indextables.splits import SplitInfo, SplitWriter
from indextables.splits.reader import SplitReader
from indextables.state.checkpoints.avro import file_loader, manifest_cache, state_check
from indextables.storage import Store, StoreSpec, open_store, remote
from indextables.storage import opening as opened_stores
from indextables.table import snapshot
from tests.support.intercepted_store import InterceptedStore, Interceptor, pass_through
from tests.support.locations import Image, Location, MemoryLocation
from tests.support.tables import FakeTime

Result = TypeVar("Result")
START = 1_700_000_000_000


@dataclass
class Simulation:
    """A machine is known by its `storage.timeout`, so that its caches are its own."""

    location: Location = field(default_factory=MemoryLocation)
    ms: int = START  # by the store's clock
    _interceptors: dict[int, Interceptor] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def place(self) -> str:
        return self.location.place(next(self._numbers))

    def machine(self, intercept: Interceptor = pass_through, ids: str | None = None) -> Machine:
        """`ids`: the same in another run."""
        number = next(self._numbers)
        timeout_ms = 100_000 + number % 3_000_000
        self._interceptors[timeout_ms] = intercept
        options = {**self.location.options, "storage.timeout": f"{timeout_ms}ms"}
        return Machine(self, options, FakeTime(self.ms, ids=ids or f"{number % 2**16:04x}"))

    def make_store(self, spec: StoreSpec) -> Store:
        intercept = self._interceptors.get(round(spec.timeout * 1000), pass_through)
        return InterceptedStore(spec, self.location.store(spec, intercept), intercept)

    def discard_machines(self) -> None:
        for spec, _ in opened_stores._open.items():
            opened_stores._open.pop(spec)
            caches.forget(spec)
        self._interceptors.clear()

    def new_uuid(self) -> uuid.UUID:
        return uuid.UUID(f"00000000-0000-4000-8000-{next(self._names):012d}")

    @contextmanager
    def in_memory(self) -> Iterator[None]:
        """Tables that are made now lie there: what they hold is the same everywhere, and takes least time there."""
        location, self.location = self.location, MemoryLocation()
        try:
            yield
        finally:
            self.location = location

    def image(self, place: str) -> Image:
        return self.location.image(place)

    def restore(self, image: Image) -> str:
        """A new place with these files."""
        place = self.place()
        self.location.fill(place, image)
        self.count_names_from(1_000_000)
        return place

    def count_names_from(self, number: int) -> None:
        """So that the same run gives splits the same names."""
        self._names = itertools.count(number)

    def clear(self, *places: str) -> None:
        for place in places:
            self.location.clear(place)


@dataclass(frozen=True)
class Machine:
    """A process somewhere: its options and its clock."""

    simulation: Simulation
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


def state_of(simulation: Simulation, place: str) -> TableState | None:
    """As a new reader that remembers nothing sees it: every live split is there, whole and of the size the log says. None: no table."""
    machine = simulation.machine()
    try:
        table = machine.open(place, **{"transaction.cache.enabled": "false"})
    except it.TableNotFound:
        return None
    assert table.warnings == [], table.warnings
    store = open_store(machine.spec(place))
    files = []
    listed = table.files().select(["path", "size", "num_records"]).to_pylist()
    for file in listed:
        try:
            data = store.read(file["path"])
        except FileNotFoundError:
            raise AssertionError(f"{file['path']} is live and gone") from None
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


class CachingSplitWriter:
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


class InlineExecutor(Executor):
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
def simulation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    """Nothing in it depends on chance or on how fast this computer is."""
    with simulate(monkeypatch) as made:
        yield made


@contextmanager
def simulate(patch: pytest.MonkeyPatch, location: Location | None = None) -> Iterator[Simulation]:
    made = Simulation(location or MemoryLocation())

    def make(spec: StoreSpec) -> Store:
        return made.make_store(spec)

    patch.setattr(opened_stores, "_make", make)
    for each in (MemoryLocation(), made.location):  # tables to begin with are made in memory
        each.patch(patch, lambda: made.ms)
    for module in (split_task, write):
        patch.setattr(module, "uuid", types.SimpleNamespace(uuid4=made.new_uuid))
    patch.setattr(split_task, "SplitWriter", CachingSplitWriter)
    patch.setattr(merge_task, "merge_files", _merge_once(merge_task.merge_files))
    patch.setattr(manifest_cache, "get", lambda digest: None)  # a machine's disk is empty
    patch.setattr(manifest_cache, "put", lambda digest, rows: rows)
    for module in (executor, merge_task, log, file_loader, remote):  # calls of one machine come one after the other
        patch.setattr(module, "ThreadPoolExecutor", InlineExecutor)
    patch.setattr(state_check, "_VERIFIED", ProcessCache())
    _part_machines(patch)
    yield made
    made.discard_machines()


def _part_machines(patch: pytest.MonkeyPatch) -> None:
    """Before 3.12 a cached property has one lock for all objects of its class, which other processes would not share."""
    kinds = [kind for module in (live, segments, snapshot) for kind in vars(module).values() if isinstance(kind, type)]
    for held in (each for kind in kinds for each in vars(kind).values() if isinstance(each, cached_property)):
        patch.setattr(held, "lock", nullcontext(), raising=False)
