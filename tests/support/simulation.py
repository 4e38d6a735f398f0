"""Client machines that share one store. Every storage call of a machine passes through its interceptor.

Only time, ids, threads and tantivy are replaced: a split of the same rows is built once and its bytes are reused. So ten thousand runs of
whole verbs take a minute, and every split still holds real rows.
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
from indextables.splits import SplitInfo, SplitSettings, SplitWriter
from indextables.splits.reader import SplitReader
from indextables.state.checkpoints.avro import file_loader, manifest_cache
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
    """Creates machines. Each has its own `storage.timeout`, so that no two share a cache."""

    location: Location = field(default_factory=MemoryLocation)
    ms: int = START  # the clock of the store
    _interceptors: dict[int, Interceptor] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def place(self) -> str:
        return self.location.place(next(self._numbers))

    def machine(self, intercept: Interceptor = pass_through, ids: str | None = None) -> Machine:
        """A new machine. Pass `ids` to get the same commit ids in every run."""
        number = next(self._numbers)
        timeout_ms = 100_000 + number % 3_000_000
        self._interceptors[timeout_ms] = intercept
        options = {**self.location.options, "storage.timeout": f"{timeout_ms}ms"}
        return Machine(self, options, FakeTime(self.ms, ids=ids or f"{number % 2**16:04x}"))

    def make_store(self, spec: StoreSpec) -> Store:
        intercept = self._interceptors.get(round(spec.timeout * 1000), pass_through)
        return InterceptedStore(spec, self.location.store(spec, intercept), intercept)

    def discard_machines(self) -> None:
        for spec, _ in opened_stores.open_stores.items():
            opened_stores.open_stores.pop(spec)
            caches.forget(spec)
        self._interceptors.clear()

    def new_uuid(self) -> uuid.UUID:
        return uuid.UUID(f"00000000-0000-4000-8000-{next(self._names):012d}")

    @contextmanager
    def in_memory(self) -> Iterator[None]:
        """Creates tables in memory meanwhile: their content is the same everywhere, and memory is fastest."""
        location, self.location = self.location, MemoryLocation()
        try:
            yield
        finally:
            self.location = location

    def image(self, place: str) -> Image:
        return self.location.image(place)

    def restore(self, image: Image) -> str:
        """Writes these files to a new address."""
        place = self.place()
        self.location.fill(place, image)
        self.count_names_from(1_000_000)
        return place

    def count_names_from(self, number: int) -> None:
        """Resets the names of splits, so that equal runs use equal names."""
        self._names = itertools.count(number)

    def clear(self, *places: str) -> None:
        for place in places:
            self.location.clear(place)


@dataclass(frozen=True)
class Machine:
    """A client process: its options and its clock."""

    simulation: Simulation
    options: dict[str, str]
    time: FakeTime

    def open(self, place: str, version: int | None = None, **options: Any) -> it.Table:
        return it.open(place, version, options={**self.options, **options}, clock=self.time.clock())

    def spec(self, place: str) -> StoreSpec:
        return StoreSpec.of(TableRoot.parse(place), Config.of(self.options))


@dataclass(frozen=True)
class TableState:
    """The content of a table, independent of the names of its splits."""

    version: int
    rows: tuple[int, ...]  # sorted ids
    files: tuple[tuple[str, tuple[int, ...]], ...]  # partition and ids of each split


def state_of(simulation: Simulation, place: str) -> TableState | None:
    """The table as a reader without caches sees it, or None if there is no table. Fails if a live split is missing or damaged."""
    machine = simulation.machine()
    try:
        table = machine.open(place, **{"transaction.cache.enabled": "false"})
    except it.TableNotFound:
        return None
    assert table.warnings == [], table.warnings
    store = open_store(machine.spec(place))
    files = []
    entries = table.files().select(["path", "size", "num_records"]).to_pylist()
    for file in entries:
        try:
            data = store.read(file["path"])
        except FileNotFoundError:
            raise AssertionError(f"{file['path']} is live and gone") from None
        ids = ids_of(data)
        assert (len(data), len(ids)) == (file["size"], file["num_records"])
        files.append((file["path"].rpartition("/")[0], ids))
    assert len({file["path"] for file in entries}) == len(entries)
    return TableState(table.version, tuple(sorted(row for _, ids in files for row in ids)), tuple(sorted(files)))


@cache
def ids_of(split: bytes) -> tuple[int, ...]:
    """The ids of the rows in a split."""
    with tempfile.NamedTemporaryFile(suffix=".split") as file:
        file.write(split)
        file.flush()
        with SplitReader(Path(file.name)) as reader:
            reader.verify()
            return tuple(sorted(value for batch in reader.batches(["id"]) for value in batch.column("id").to_pylist()))


_built: dict[Any, tuple[bytes, SplitInfo]] = {}


def _built_once(key: Any, target: Path, build: Callable[[], SplitInfo]) -> SplitInfo:
    if key not in _built:
        info = build()
        _built[key] = target.read_bytes(), info
    target.write_bytes(_built[key][0])
    return _built[key][1]


class CachingSplitWriter:
    """Builds a split of the same rows once and reuses its bytes afterwards."""

    def __init__(self, settings: SplitSettings, folder: Path) -> None:
        self._real = lambda: SplitWriter(settings, folder)
        self._batches: list[pa.RecordBatch] = []
        self.num_rows = self.num_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.num_rows += batch.num_rows
        self.num_bytes += batch.nbytes

    def finish(self, target: Path) -> SplitInfo:
        def build() -> SplitInfo:
            writer = self._real()
            for batch in self._batches:
                writer.write(batch)
            return writer.finish(target)

        return _built_once(repr(pa.Table.from_batches(self._batches).to_pydict()), target, build)

    def discard(self) -> None:
        self._batches.clear()


def _merge_once(real: Callable[..., SplitInfo]) -> Callable[..., SplitInfo]:
    def merge(sources: Sequence[Path], target: Path, *arguments: Any) -> SplitInfo:
        key = tuple(source.read_bytes() for source in sources)
        return _built_once(key, target, lambda: real(sources, target, *arguments))

    return merge


class InlineExecutor(Executor):
    """Runs submitted work at once instead of in threads. A real thread could continue with work that was cancelled."""

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
    """A deterministic simulation with its tables in memory."""
    with simulate(monkeypatch) as made:
        yield made


@contextmanager
def simulate(patch: pytest.MonkeyPatch, location: Location | None = None) -> Iterator[Simulation]:
    made = Simulation(location or MemoryLocation())
    patch.setattr(opened_stores, "_make", made.make_store)
    for each in (MemoryLocation(), made.location):  # base tables are created in memory
        each.patch(patch, lambda: made.ms)
    for module in (split_task, write):
        patch.setattr(module, "uuid", types.SimpleNamespace(uuid4=made.new_uuid))
    patch.setattr(split_task, "SplitWriter", CachingSplitWriter)
    patch.setattr(merge_task, "merge_files", _merge_once(merge_task.merge_files))
    patch.setattr(manifest_cache, "get", lambda digest: None)  # machines have an empty local cache
    patch.setattr(manifest_cache, "put", lambda digest, rows: rows)
    for module in (executor, merge_task, log, file_loader, remote):  # serializes the calls of one machine
        patch.setattr(module, "ThreadPoolExecutor", InlineExecutor)
    patch.setattr(file_loader, "_VERIFIED", ProcessCache())
    _unlock_cached_properties(patch)
    yield made
    made.discard_machines()


def _unlock_cached_properties(patch: pytest.MonkeyPatch) -> None:
    """Removes the lock that a cached property shares between all objects before Python 3.12: simulated processes must not share it."""
    kinds = [kind for module in (live, segments, snapshot) for kind in vars(module).values() if isinstance(kind, type)]
    for held in (each for kind in kinds for each in vars(kind).values() if isinstance(each, cached_property)):
        patch.setattr(held, "lock", nullcontext(), raising=False)
