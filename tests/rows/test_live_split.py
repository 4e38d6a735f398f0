"""`LiveSplit` reads the rows of a split: every way of reading agrees on which rows count and on the schema in which they appear."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import indextables as it
from indextables.log import TransactionLog
from indextables.operations.search import bound_query
from indextables.paths import TableRoot
from indextables.predicates import parse_predicate
from indextables.rows import LiveRows, LiveSplit, live_split, open_live_view, split_settings
from indextables.splits import SplitReader
from indextables.table import Snapshot, TableContext
from tests.support.intercepted_store import InterceptedStore, pass_through
from tests.support.tables import make, rows
from tests.support.upstream import bundle, index_files, make_upstream_table, upstream_rows

COUNT = 2500  # three batches of a split
COLUMNS = ["message", "id"]
EVEN = "ok = true"  # true where `id` is even
Way = Callable[["World", "str | None"], pa.Table]


class World:
    """A table of one split, and that split."""

    def __init__(self, table: it.Table) -> None:
        self.context = TableContext.at(table.path)
        self.snapshot: Snapshot = self.context.snapshot(table.version)
        self.splits = [LiveSplit.of(self.snapshot, add) for add in self.context.load(self.snapshot).adds()]
        self.query = bound_query(self.context, self.snapshot, "*")[0]

    @property
    def split(self) -> LiveSplit:
        return self.splits[0]

    @property
    def live(self) -> LiveRows:
        return self.split.open(self.context)

    def predicate(self, where: str) -> Any:
        return parse_predicate(where, self.split.schema)

    def with_schema(self, schema: pa.Schema) -> World:
        """The same split in a snapshot of another schema."""
        other = World.__new__(World)
        other.__dict__ = {**self.__dict__, "splits": [replace(self.split, schema=schema)]}
        return other


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(make(tmp_path_factory.mktemp("live") / "t", appends=1, each=COUNT, partition_by=[]))


def by_batches(world: World, where: str | None) -> pa.Table:
    return pa.Table.from_batches(list(world.live.batches(COLUMNS, None if where is None else world.predicate(where))))


def by_chunks(world: World, where: str | None) -> pa.Table:
    return pa.concat_tables(world.live.chunks(COLUMNS, None if where is None else world.predicate(where)))


def by_hits(world: World, where: str | None) -> pa.Table:
    found = list(world.live.hits(world.query, COLUMNS, None if where is None else world.predicate(where), 1000))
    assert [len(scores) for _, scores in found] == [part.num_rows for part, _ in found]
    return pa.concat_tables(part for part, _ in found)


def by_numbers(world: World, where: str | None) -> pa.Table:
    numbers = np.arange(COUNT)
    chosen = numbers if where is None else numbers[world.live.matching(numbers, world.predicate(where))]
    return world.live.take(chosen, COLUMNS)


WAYS = pytest.mark.parametrize("way", [by_batches, by_chunks, by_hits, by_numbers])


def ids(found: pa.Table) -> list[int]:
    return [int(value) for value in found.column("id").to_pylist()]


# --- which rows count


@WAYS
@pytest.mark.parametrize(("where", "step"), [(None, 1), (EVEN, 2)])
def test_every_way_of_reading_gives_the_rows_that_count(world: World, way: Way, where: str | None, step: int) -> None:
    found = way(world, where)
    assert found.column_names == COLUMNS
    assert ids(found) == list(range(0, COUNT, step))
    assert found.column("message").to_pylist()[:2] == [rows(0, COUNT)[number]["message"] for number in (0, step)]


@WAYS
def test_one_function_decides_which_rows_count(world: World, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is added to `_selection` holds for every way of reading and for counting."""
    decide = live_split._selection

    def without_small(found: Any, predicate: Any) -> Any:
        return pc.and_(decide(found, predicate), pc.greater_equal(found.column("id"), 1000))

    monkeypatch.setattr(live_split, "_selection", without_small)
    assert ids(way(world, "ok = true AND id >= 0")) == list(range(1000, COUNT, 2))
    assert world.live.count(world.predicate("ok = true AND id >= 0")) == (COUNT - 1000) // 2


def test_batches_without_rows_that_count_are_left_out(world: World) -> None:
    assert [batch.num_rows for batch in world.live.batches(["id"])] == [1024, 1024, COUNT - 2048]
    assert [batch.num_rows for batch in world.live.batches(["ts"], world.predicate("id = 1500"))] == [1]
    assert list(world.live.batches(["id"], world.predicate("id = -1"))) == []


def test_chunks_of_no_columns_have_rows(world: World) -> None:
    (chunk,) = world.live.chunks([], world.predicate(EVEN))
    assert (chunk.num_rows, chunk.column_names) == (COUNT // 2, [])


def test_the_number_of_rows_comes_from_the_log_or_else_from_the_file(world: World) -> None:
    unknown = replace(world.split, add=msgspec.structs.replace(world.split.add, num_records=None))
    assert (unknown.known_rows, unknown.open(world.context).num_rows) == (None, COUNT)
    assert world.split.known_rows == COUNT


def test_hits_have_the_scores_of_the_search(world: World) -> None:
    query = bound_query(world.context, world.snapshot, "disk OR full")[0]
    (place,) = [world.split.find(world.context)]
    numbers, scores = SplitReader(place).search(query)
    expected = {int(number): score for number, score in zip(numbers, scores, strict=True) if number % 2 == 0}
    found = list(world.live.hits(query, ["id"], world.predicate(EVEN), 100))
    assert {number: score for part, scores in found for number, score in zip(ids(part), scores, strict=True)} == expected


# --- the schema in which they appear


@WAYS
@pytest.mark.parametrize("where", [None, EVEN, "id >= 2000.5"])
def test_rows_appear_in_the_schema_of_the_snapshot(world: World, way: Way, where: str | None) -> None:
    schema = world.split.schema
    wider = schema.set(schema.get_field_index("id"), pa.field("id", pa.float64()))
    found = way(world.with_schema(wider), where)
    assert found.schema == pa.schema([wider.field(name) for name in COLUMNS])
    expected = range(2001, COUNT) if where == "id >= 2000.5" else range(0, COUNT, 1 if where is None else 2)
    assert ids(found) == list(expected)


@WAYS
def test_a_type_that_cannot_be_cast_to_that_of_the_table_is_named(world: World, way: Way) -> None:
    schema = world.split.schema
    other = world.with_schema(schema.set(schema.get_field_index("message"), pa.field("message", pa.int64())))
    with pytest.raises(it.SchemaMismatch, match=world.split.add.path):
        way(other, None)


# --- where the file is


def test_a_live_split_can_be_pickled(world: World) -> None:
    moved = pickle.loads(pickle.dumps(world.split))
    assert moved == world.split
    assert moved.open(TableContext.of(world.context.store.spec)).num_rows == COUNT


def test_a_split_with_another_number_of_rows_is_not_read(world: World) -> None:
    other = replace(world.split, add=msgspec.structs.replace(world.split.add, num_records=7))
    with pytest.raises(it.SplitCorrupted, match=f"has {COUNT} rows, but the log says 7"):
        other.open(world.context)


def test_a_missing_split_is_damage_or_was_purged(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1, partition_by=[])
    world = World(table)
    (file,) = (tmp_path / "t").rglob("*.split")
    file.unlink()
    for read in (lambda: world.live, lambda: open_live_view(world.context, world.snapshot, [world.split.add])):
        with pytest.raises(it.SplitCorrupted, match="is missing from the table"):
            read()
    table.overwrite(rows(10, 5))
    for read in (lambda: world.live, lambda: open_live_view(world.context, world.snapshot, [world.split.add])):
        with pytest.raises(it.VersionNotFound, match=r"version 1 can no longer be read in full: .* removed by version 2 of .*, and purged"):
            read()


def test_splits_of_other_programs_are_read_in_our_form(tmp_path: Path) -> None:
    world = World(it.open(make_upstream_table(tmp_path / "t", [(bundle(index_files(upstream_rows(5))), 5)])))
    assert [batch.to_pydict() for batch in world.live.batches(["id"])] == [{"id": [0, 1, 2, 3, 4]}]
    assert world.split.find(world.context) != tmp_path / "t" / world.split.add.path


# --- sources of a merge


def test_a_merge_takes_the_file_of_the_table_itself(world: World, tmp_path: Path) -> None:
    table = split_settings(world.snapshot, world.context.config)
    found = world.split.source_file(world.context.store, table, tmp_path / "0.split")
    assert found == Path(world.context.root.path) / world.split.add.path
    gone = replace(world.split, add=msgspec.structs.replace(world.split.add, path="split-gone.split"))
    with pytest.raises(it.SplitCorrupted, match=r"'split-gone.split' is missing from the table"):
        gone.source_file(world.context.store, table, tmp_path / "1.split")
    assert list(tmp_path.iterdir()) == []


def test_the_source_of_a_merge_survives_its_eviction_from_the_cache(tmp_path: Path) -> None:
    table = it.create(f"memory://{tmp_path.name}-sources", pa.schema([("id", pa.int64())]))
    table.append([{"id": 1}])
    world = World(table)
    found = world.split.source_file(world.context.store, split_settings(world.snapshot, world.context.config), tmp_path / "0.split")
    assert found.parent == tmp_path
    with SplitReader(found) as reader:
        assert world.split.rows_of(reader).num_rows == 1


def test_the_source_of_a_merge_is_translated(tmp_path: Path) -> None:
    world = World(it.open(make_upstream_table(tmp_path / "t", [(bundle(index_files(upstream_rows(5))), 5)])))
    table = split_settings(world.snapshot, world.context.config)
    found = world.split.source_file(world.context.store, table, tmp_path / "0.split")
    assert found == tmp_path / "0.split"
    with SplitReader(found) as reader:
        assert [batch.column("id").to_pylist() for batch in world.split.rows_of(reader).batches(["id"])] == [[0, 1, 2, 3, 4]]


# --- many splits


def test_hits_of_a_view_are_rows_of_its_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3, partition_by=[])
    world = World(table)
    view = open_live_view(world.context, world.snapshot, [split.add for split in world.splits])
    hits = view.search(world.query, 100)
    found = {
        (int(number), int(row)): view.rows(int(number)).take(np.array([row]), ["id"]).column("id")[0].as_py()
        for number, row in zip(hits.splits, hits.rows, strict=True)
    }
    assert sorted(found.values()) == list(range(30))
    assert all(value // 10 == number for (number, _), value in found.items())
    again = open_live_view(world.context, world.snapshot, [split.add for split in world.splits])
    assert again.groups is view.groups  # from the cache of open views


def test_two_servers_with_the_same_bucket_are_not_confused(tmp_path: Path) -> None:
    """The locations of splits are cached by server, too: both tables have one address, and splits of one name."""
    found, names = [], []
    for number, server in enumerate(("http://one", "http://two")):
        folder = tmp_path / str(number)
        make(folder, partition_by=[]).append(rows(100 * number, 10))
        own = TableContext.at(folder)
        snapshot = own.snapshot()
        (add,) = own.load(snapshot).adds()
        names.append(add.path)
        (folder / add.path).rename(folder / names[0])
        spec = replace(own.store.spec, root=TableRoot.parse("s3://bucket/t"), endpoint=server)
        context = TableContext(TransactionLog(InterceptedStore(spec, own.store, pass_through)), own.config, own.clock)
        view = open_live_view(context, snapshot, [msgspec.structs.replace(add, path=names[0])])
        (batch,) = view.rows(0).batches(["id"])
        found.append(batch.column("id").to_pylist())
    assert found == [list(range(10)), list(range(100, 110))]
