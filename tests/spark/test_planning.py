"""What the data source decides before a Spark job runs: options, columns, tasks. No session is started."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition

import indextables as it
from indextables.actions import Add
from indextables.errors import ConfigError, IndexTablesError
from indextables.spark.options import SourceOptions
from indextables.spark.scan import BATCH_ROWS, OPEN_BYTES, TASK_BYTES, Scan, grouped
from indextables.spark.schema import struct_type
from indextables.spark.source import IndexTablesSource
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
        ({"partitionby": "id"}, "option 'partition_by' does not apply when reading a table"),
        ({"txn_app": "a"}, "txn_app and txn_version must be given together"),
    ],
)
def test_errors_name_bad_options_for_reading(table: it.Table, options: dict[str, str], message: str) -> None:
    def plan() -> None:
        source = IndexTablesSource({"path": table.path, **options})
        source.reader(source.schema())

    with pytest.raises(IndexTablesError, match=message):
        plan()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "id = 1"}, "option 'where' does not apply when writing a table"),
        ({"partition_by": "id"}, "the table is partitioned by Level, not by id"),
        ({"replacewhere": "id = 1"}, "partition columns only"),
        ({"indexing.typemap.nobody": "string"}, "nobody"),
        ({"indexing.typemap.level": "text"}, "'Level' is a partition column"),
    ],
)
def test_errors_name_bad_options_for_writing(table: it.Table, options: dict[str, str], message: str) -> None:
    with pytest.raises(IndexTablesError, match=message):
        IndexTablesSource({"path": table.path, **options}).writer(struct_type(SCHEMA), overwrite=True)
    assert it.open(table.path).version == 1


def test_a_missing_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="option 'path' is missing"):
        SourceOptions.parse({"where": "id = 1"})


def test_lower_cased_columns_of_the_typemap_are_matched() -> None:
    options = SourceOptions.parse({"path": "/t", "spark.indextables.indexing.typemap.level": "string", "stats.truncation.maxlength": "8"})
    assert options.config_for(SCHEMA) == {"indexing.typemap.Level": "string", "stats.truncation.maxLength": "8"}
    twice = pa.schema([("LEVEL", pa.string()), ("Level", pa.string())])
    assert "indexing.typemap.level" in options.config_for(twice)  # ambiguous, so left as it is


def test_a_not_null_schema_requires_a_not_null_table(table: it.Table) -> None:
    given = struct_type(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(IndexTablesError, match="'id' is not nullable in the schema but nullable in the table"):
        IndexTablesSource({"path": table.path}).reader(given)


def test_a_reader_is_sent_without_its_snapshot_and_reads_the_planned_splits(table: it.Table) -> None:
    source = IndexTablesSource({"path": table.path, "columns": "id"})
    reader = source.reader(source.schema())
    (splits,) = reader.partitions()
    table.overwrite([])
    received = pickle.loads(pickle.dumps(reader))
    assert received.planned_on is None
    assert [batch.to_pydict() for batch in received.read(pickle.loads(pickle.dumps(splits)))] == [{"id": [0, 1, 2, 3]}]
    assert list(received.read(InputPartition(None))) == []


def test_the_reader_takes_no_filters_from_spark(table: it.Table) -> None:
    """Spark keeps filters that a reader takes with the relation, and applies them to later queries (tests/spark/test_filters.py)."""
    source = IndexTablesSource({"path": table.path})
    assert type(source.reader(source.schema())).pushFilters is DataSourceReader.pushFilters


def split(number: int, size: int) -> Add:
    return Add(path=f"{number}", partition_values={}, size=size, modification_time=0, data_change=True)


def test_splits_are_grouped_into_tasks_by_size() -> None:
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
    adds = list(context.load(context.snapshot()).adds())
    batches = list(Scan(context.store.spec, table.version, rows.schema, rows.schema, None, None).batches(adds))
    assert [batch.num_rows for batch in batches][:-1] == [-(-BATCH_ROWS // 1024) * 1024] * 2
    assert pa.Table.from_batches(batches) == rows
