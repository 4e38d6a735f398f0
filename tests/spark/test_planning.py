"""What the data source decides before Spark has anything to do: options, columns, tasks, filters. No session is started."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, InputPartition, IsNotNull, IsNull, LessThanOrEqual, Not, StringContains

import indextables as it
from indextables.actions import Add
from indextables.errors import ConfigError, IndexTablesError
from indextables.spark.options import SourceOptions
from indextables.spark.pushdown import filter_text, predicate_of
from indextables.spark.scan import BATCH_ROWS, OPEN_BYTES, TASK_BYTES, Scan, grouped
from indextables.spark.schema import struct_type
from indextables.spark.source import IndexTablesSource, PushdownReader, TableReader
from indextables.table.context import TableContext

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Level", pa.string()),
        ("a b`c", pa.string()),
        ("ratio", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("flag", pa.bool_()),
    ]
)
MOMENT = dt.datetime(2024, 1, 1, 12, 0, 0, 5)


@pytest.fixture
def table(tmp_path: Path) -> it.Table:
    table = it.create(tmp_path / "table", SCHEMA, partition_by=["Level"])
    table.append([{"id": n, "Level": "INFO", "a b`c": "it's", "ratio": n / 2} for n in range(4)])
    return table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "nobody = 1"}, "nobody"),
        ({"where": "id ="}, "the end"),
        ({"query": "nobody:x"}, "nobody"),
        ({"columns": "nobody"}, "unknown column 'nobody'"),
        ({"columns": "[1]"}, "option columns = '\\[1]' is not a list"),
        ({"version": "99"}, "version 99"),
        ({"version": "x"}, "option version = 'x' is not a whole number"),
        ({"speed": "high"}, "unknown option 'speed'.*replace_where"),
        ({"merge.targetsize": "tiny"}, "option merge.targetSize = 'tiny' is not a size"),
        ({"partitionby": "id"}, "option 'partition_by' has no meaning when reading a table"),
        ({"txn_app": "a"}, "txn_app and txn_version go together"),
    ],
)
def test_bad_options_for_reading_are_named(table: it.Table, options: dict[str, str], message: str) -> None:
    def plan() -> None:
        source = IndexTablesSource({"path": table.path, **options})
        source.reader(source.schema())

    with pytest.raises(IndexTablesError, match=message):
        plan()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "id = 1"}, "option 'where' has no meaning when writing a table"),
        ({"partition_by": "id"}, "the table is partitioned by Level, not by id"),
        ({"replacewhere": "id = 1"}, "partition columns only"),
        ({"indexing.typemap.nobody": "string"}, "nobody"),
        ({"indexing.typemap.level": "text"}, "'Level' is a partition column"),
    ],
)
def test_bad_options_for_writing_are_named(table: it.Table, options: dict[str, str], message: str) -> None:
    with pytest.raises(IndexTablesError, match=message):
        IndexTablesSource({"path": table.path, **options}).writer(struct_type(SCHEMA), overwrite=True)
    assert it.open(table.path).version == 1


def test_a_path_is_needed() -> None:
    with pytest.raises(ConfigError, match="option 'path' is missing"):
        SourceOptions.parse({"where": "id = 1"})


def test_lower_cased_columns_of_the_typemap_are_found_again() -> None:
    options = SourceOptions.parse({"path": "/t", "spark.indextables.indexing.typemap.level": "string", "stats.truncation.maxlength": "8"})
    assert options.config_for(SCHEMA) == {"indexing.typemap.Level": "string", "stats.truncation.maxLength": "8"}
    twice = pa.schema([("LEVEL", pa.string()), ("Level", pa.string())])
    assert "indexing.typemap.level" in options.config_for(twice)  # which one is not for us to say


def test_a_not_null_schema_needs_a_not_null_table(table: it.Table) -> None:
    given = struct_type(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(IndexTablesError, match="'id' is not null in the schema, and may be null"):
        IndexTablesSource({"path": table.path}).reader(given)


def test_a_reader_travels_without_its_snapshot_and_reads_what_it_was_planned_for(table: it.Table) -> None:
    source = IndexTablesSource({"path": table.path, "columns": "id"})
    reader = source.reader(source.schema())
    assert type(reader) is TableReader, "a reader that takes filters fails where Spark offers none"
    (splits,) = reader.partitions()
    table.overwrite([])
    travelled = pickle.loads(pickle.dumps(reader))
    assert travelled.snapshot is None
    assert [batch.to_pydict() for batch in travelled.read(pickle.loads(pickle.dumps(splits)))] == [{"id": [0, 1, 2, 3]}]
    assert list(travelled.read(InputPartition(None))) == []


def test_pushed_filters_prune_and_are_all_handed_back(table: it.Table) -> None:
    table.append([{"id": 9, "Level": "ERROR"}])
    source = IndexTablesSource({"path": table.path, "where": "id > 1"})
    reader = PushdownReader(source.parsed, source.schema())
    filters = [EqualTo(("Level",), "INFO"), StringContains(("Level",), "N"), GreaterThan(("ratio",), 0.0)]
    assert list(reader.pushFilters(filters)) == filters
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == [2, 3]
    assert len(reader.partitions()) == 1


@pytest.mark.parametrize(
    ("offered", "text"),
    [
        (EqualTo(("id",), 5), "`id` = 5"),
        (LessThanOrEqual(("Level",), "it's"), "`Level` <= 'it''s'"),
        (EqualTo(("a b`c",), "x"), "`a b``c` = 'x'"),
        (In(("id",), (1, 2)), "`id` IN (1, 2)"),
        (EqualTo(("day",), dt.date(2024, 1, 31)), "`day` = DATE '2024-01-31'"),
        (GreaterThan(("at",), MOMENT.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))), "`at` > TIMESTAMP '2024-01-01 10:00:00.000005Z'"),
        (GreaterThan(("local",), MOMENT), "`local` > TIMESTAMP '2024-01-01 12:00:00.000005'"),
        (EqualTo(("flag",), True), "`flag` = TRUE"),
        (IsNull(("ratio",)), "`ratio` IS NULL"),
        (IsNotNull(("id",)), "`id` IS NOT NULL"),
        (GreaterThan(("ratio",), 0.5), None),  # NaN is not the same everywhere
        (In(("id",), (1, None)), None),
        (EqualTo(("id",), 1.5), None),
        (EqualTo(("id",), True), None),
        (GreaterThan(("at",), MOMENT), None),
        (EqualTo(("nobody",), 1), None),
        (EqualTo(("id", "inner"), 1), None),
        (Not(EqualTo(("id",), 1)), None),
    ],
)
def test_filters_become_predicates_only_where_they_mean_the_same(offered: Any, text: str | None) -> None:
    assert filter_text(offered, SCHEMA) == text
    assert predicate_of([offered], None, SCHEMA) is None if text is None else predicate_of([offered], None, SCHEMA) is not None


def test_filters_that_are_too_many_are_left_to_spark() -> None:
    many = In(("Level",), tuple("x" * 1000 for _ in range(200)))
    assert predicate_of([many], None, SCHEMA) is None
    where = predicate_of([many], "id = 1", SCHEMA)
    assert where is not None
    assert where.columns == {"id"}


def split(number: int, size: int) -> Add:
    return Add(path=f"{number}", partition_values={}, size=size, modification_time=0, data_change=True)


def test_tasks_get_files_by_weight() -> None:
    large = [split(n, TASK_BYTES) for n in range(3)]
    assert [len(group) for group in grouped(large)] == [1, 1, 1]
    small = [split(n, 100) for n in range(1000)]
    groups = grouped(small)
    assert [add for group in groups for add in group] == small
    assert 60 <= len(groups) <= 70
    assert max(sum(add.size + OPEN_BYTES for add in group) for group in groups) <= TASK_BYTES
    assert grouped([]) == []


def test_small_batches_are_joined(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(25_000), pa.int64())})
    table = it.create(tmp_path / "t", rows.schema)
    table.append(rows)
    context = TableContext.at(table.path)
    adds = list(context.snapshot().adds())
    batches = list(Scan(context.store.spec, table.version, rows.schema, None, None).batches(adds))
    assert [batch.num_rows for batch in batches][:-1] == [-(-BATCH_ROWS // 1024) * 1024] * 2
    assert pa.Table.from_batches(batches) == rows
