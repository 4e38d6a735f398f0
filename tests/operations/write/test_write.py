"""Append and overwrite commit exactly the given rows. Rows that do not fit the schema change nothing."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables as it
from indextables.cli.main import main
from indextables.paths import NULL_PARTITION
from indextables.splits import open_split
from tests.support.independent_writer import INDEXED, TableWriter
from tests.support.tables import SCHEMA, ids, make, rows, tree, version_file


def log_lines(table: Path, version: int) -> list[dict[str, object]]:
    return [json.loads(line) for line in gzip.decompress(version_file(table, version).read_bytes()).splitlines()]


def test_version_zero_is_protocol_and_metadata(tmp_path: Path) -> None:
    """INI-01, INI-05."""
    make(tmp_path / "t", **{"indexing.typemap.level": "string"})
    first, second = log_lines(tmp_path / "t", 0)
    features = ["arrowRowStore", "avroState", "schemaDeduplication"]  # C-23
    assert first == {"protocol": {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": features, "writerFeatures": features}}
    metadata = second["metaData"]
    assert metadata["partitionColumns"] == ["date"]
    assert metadata["configuration"] == {"spark.indextables.indexing.typemap.level": "string"}
    assert json.loads(metadata["schemaString"])["fields"][1] == {"name": "ts", "type": "timestamp", "nullable": True, "metadata": {}}


def test_adds_describe_their_splits(tmp_path: Path) -> None:
    """ACT-04 to ACT-07: the log has the same metadata as the split itself."""
    table = make(tmp_path / "t", appends=2)
    lines = log_lines(tmp_path / "t", 2)
    assert lines[0]["commitInfo"]["operation"] == "append"
    adds = [line["add"] for line in lines if "add" in line]
    assert len(adds) == 2
    for add in adds:
        file = tmp_path / "t" / add["path"]
        split = open_split(file)
        assert add["path"].startswith(f"date={add['partitionValues']['date']}/splits/split-")
        assert add["size"] == file.stat().st_size == add["footerEndOffset"]
        assert add["numRecords"] == split.num_records == 5
        assert add["uncompressedSizeBytes"] == add["footerStartOffset"] == split.info.footer_start_offset
        data = file.read_bytes()
        assert int.from_bytes(data[add["footerStartOffset"] : add["footerStartOffset"] + 4], "little") == 403881646
        hot = data[add["hotcacheStartOffset"] : add["hotcacheStartOffset"] + add["hotcacheLength"]]
        assert len(hot) == int.from_bytes(data[-4:], "little")
        rows_here = [row for row in rows(10, 10) if str(row["date"]) == add["partitionValues"]["date"]]
        assert add["minValues"]["id"] == str(min(r["id"] for r in rows_here))
        assert add["maxValues"]["id"] == str(max(r["id"] for r in rows_here))
        assert add["minValues"]["ts"] == min(r["ts"] for r in rows_here).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert add["hasFooterOffsets"] is True
        assert add["dataChange"] is True
        assert add["numMergeOps"] == 0
    assert table.files().column("num_records").to_pylist() == [5, 5, 5, 5]


@pytest.mark.parametrize("kind", ["dicts", "arrow", "batches", "batch", "pandas", "polars", "duckdb", "reader", "parquet-stream"])
def test_any_source_of_arrow_data_is_accepted(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", partition_by=[])
    data = pa.Table.from_pylist(rows(0, 50), schema=SCHEMA)
    pq.write_table(data, tmp_path / "x.parquet")
    given = {
        "dicts": lambda: rows(0, 50),
        "arrow": lambda: data,
        "batches": lambda: iter(data.to_batches(7)),
        "batch": lambda: data.combine_chunks().to_batches()[0],
        "pandas": data.to_pandas,
        "polars": lambda: pl.from_arrow(data),
        "duckdb": lambda: duckdb.from_arrow(data),
        "reader": lambda: data.to_reader(5),
        "parquet-stream": lambda: pq.ParquetFile(tmp_path / "x.parquet").iter_batches(9),
    }[kind]()
    report = table.append(given)
    assert report.metrics["rows_written"] == 50
    assert table.scan().read_all().sort_by("id").to_pylist() == data.to_pylist()


def test_columns_are_matched_by_name_and_narrow_types_widened(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string())]))
    table.append(pa.table({"c": pa.array(["x"]).dictionary_encode(), "b": pa.array([1.5], pa.float32()), "a": pa.array([7], pa.uint8())}))
    table.append(pa.table({"a": pa.array([8]), "b": pa.array([2]), "c": pa.nulls(1)}))
    assert table.scan().read_all().to_pylist() == [{"a": 7, "b": 1.5, "c": "x"}, {"a": 8, "b": 2.0, "c": None}]


NOT_FITTING = [
    (pa.table({"a": [1], "b": ["x"], "zz": [1]}), "zz"),
    (pa.table({"a": [1]}), "'b'"),
    (pa.table({"a": ["one"], "b": ["x"]}), "'a' is string"),
    (pa.table({"a": [1.5], "b": ["x"]}), "row 0, column 'a': 1.5"),
    (pa.table({"a": [300], "b": ["x"]}), "row 0, column 'a': 300"),
    (pa.table({"a": [None], "b": ["x"]}, schema=pa.schema([("a", pa.int8()), ("b", pa.string())])), "row 0, column 'a' is null"),
    ([{"a": 1, "b": "x"}, {"a": "two", "b": "y"}], "row 1, column 'a': 'two'"),
    ([{"a": 1, "b": "x", "c": 1}], "row 0 has a column 'c'"),
    (pa.table({"a": [1], "b": [["x"]]}), "'b' is list"),
]


@pytest.mark.parametrize(("data", "named"), NOT_FITTING)
def test_data_that_does_not_fit_is_named_and_changes_nothing(tmp_path: Path, data: object, named: str) -> None:
    table = it.create(tmp_path / "t", pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.string())]))
    table.append([{"a": 1, "b": "first"}])
    before = tree(tmp_path)
    with pytest.raises(it.SchemaMismatch, match=named):
        table.append(data)
    with pytest.raises(it.SchemaMismatch, match=named):
        table.overwrite(data)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("data", ["rows", 5, None, {"a": 1}, [1, 2], b"x"])
def test_data_that_is_no_table_is_refused(tmp_path: Path, data: object) -> None:
    table = make(tmp_path / "t")
    before = tree(tmp_path)
    with pytest.raises(it.InvalidArgument):
        table.append(data)
    assert tree(tmp_path) == before


def test_a_bad_row_late_in_the_stream_leaves_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    before = tree(tmp_path)
    with pytest.raises(it.SchemaMismatch, match="row 25000"):
        table.append([*rows(0, 25_000), {"id": "not a number"}])
    assert tree(tmp_path) == before


def test_a_write_without_rows_commits_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    report = table.append([])
    assert (report.status, report.version, table.version) == ("no_action", None, 1)


def test_overwrite_replaces_everything(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3)
    report = table.overwrite(rows(100, 4))
    assert (report.metrics["files_removed"], report.metrics["files_added"]) == (6, 2)
    assert ids(table) == [100, 101, 102, 103]
    lines = log_lines(tmp_path / "t", 4)
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["commitInfo"] + ["remove"] * 6 + ["add"] * 2  # LOG-10
    assert ids(it.open(tmp_path / "t", 3)) == list(range(30))
    table.overwrite([])
    assert table.count() == 0


def test_replace_where(tmp_path: Path) -> None:
    """Only the matching partitions are replaced, and not the table as in upstream."""
    table = make(tmp_path / "t", appends=2)
    new = [row | {"date": date(2024, 1, 1)} for row in rows(500, 3)]
    table.overwrite(new, where="date = '2024-01-01'")
    assert ids(table, "date = '2024-01-01'") == [500, 501, 502]
    assert ids(table, "date = '2024-01-02'") == [i for i in range(20) if i % 2]
    before = tree(tmp_path)
    with pytest.raises(it.ReplaceWhereViolation, match="2024-01-02"):
        table.overwrite(rows(0, 2), where="date = '2024-01-01'")
    with pytest.raises(it.InvalidPredicate, match="level"):
        table.overwrite(new, where="level = 'INFO'")
    assert tree(tmp_path) == before, "no split is left"
    assert ids(table, "date = '2024-01-01'") == [500, 501, 502]


def test_a_txn_commits_once(tmp_path: Path) -> None:
    """A-02: a retry commits nothing, also after a checkpoint and with an older number."""
    table = make(tmp_path / "t")
    assert table.append(rows(0, 5), txn=("job", 7)).version == 1
    table.append(rows(5, 5))
    again = it.open(tmp_path / "t").append(rows(0, 5), txn=("job", 7))
    assert (again.status, again.version) == ("no_action", 1)
    table.checkpoint()
    late = it.open(tmp_path / "t").append(rows(0, 5), txn=("job", 6))
    assert (late.status, late.version) == ("no_action", None)
    assert again.warnings == ["txn job 7 has already been committed"]
    assert late.warnings == ["txn job 6 commits nothing: numbers must increase, and 7 is committed"]
    assert table.append(rows(10, 5), txn=("job", 8)).version == 3
    assert ids(table) == list(range(15))
    for bad in (("", 1), ("x", "1"), ("x", True)):
        with pytest.raises(it.InvalidArgument, match="txn"):
            table.append(rows(0, 1), txn=bad)


def test_partitions_of_every_type_and_null(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("s", pa.string()),
            ("i", pa.int32()),
            ("d", pa.date32()),
            ("t", pa.timestamp("us", tz="UTC")),
            ("b", pa.bool_()),
            ("v", pa.int64()),
        ]
    )
    table = it.create(tmp_path / "t", schema, partition_by=["s", "i", "d", "t", "b"])
    moment = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    values = ["plain", "a/b", "../..", "50% = x", "", None, "ümlaut ☃", "a\nb"]
    data = [{"s": s, "i": n if n % 2 else None, "d": date(2024, 2, 29), "t": moment, "b": True, "v": n} for n, s in enumerate(values)]
    table.append(data)
    got = sorted(it.open(tmp_path / "t").scan().read_all().to_pylist(), key=lambda r: r["v"])
    assert got == data
    for n, s in enumerate(values):
        where = "s IS NULL" if s is None else "s = '" + s.replace("'", "''") + "'"
        assert table.scan(where, ["v"]).read_all().column("v").to_pylist() == [n]
        assert table.files(where).num_rows == 1
        assert table.count(where) == 1
    assert all(os.path.commonpath([tmp_path / "t", p.resolve()]) == str(tmp_path / "t") for p in (tmp_path / "t").rglob("*.split"))


def test_the_number_of_partitions_of_a_write_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indextables.limits.OPEN_WRITERS", 3)
    table = it.create(tmp_path / "t", pa.schema([("p", pa.int64()), ("v", pa.int64())]), partition_by=["p"])
    data = [{"p": i % 8, "v": i} for i in range(64)]
    table.append(iter(pa.Table.from_pylist(data).to_batches(16)))
    assert sorted(table.scan().read_all().to_pylist(), key=lambda r: r["v"]) == data
    assert table.count("p = 3") == 8


@pytest.mark.parametrize("batch", [50, 350])
def test_splits_roll_over_by_rows(tmp_path: Path, batch: int) -> None:
    make(tmp_path / "t", partition_by=[])
    table = it.open(tmp_path / "t", options={"write.targetSplitRows": 100})
    table.append(pa.Table.from_pylist(rows(0, 350), schema=SCHEMA).to_reader(batch))
    assert table.files().column("num_records").to_pylist() == [100, 100, 100, 50]
    assert ids(table) == list(range(350))


def test_splits_roll_over_by_bytes_whatever_the_batch(tmp_path: Path) -> None:
    noise = random.Random(3)
    data = pa.table({"m": [noise.randbytes(400).hex() for _ in range(40_000)]})
    table = it.create(tmp_path / "t", data.schema, options={"write.targetSplitSize": "8M", "indexing.typemap.m": "string"})
    table.append(data)
    sizes = table.files().column("num_records").to_pylist()
    assert len(sizes) >= 2
    assert sum(sizes) == 40_000
    assert max(sizes) - 16_384 < 16_384  # a split exceeds its size by at most one step


def test_create_refuses_invalid_definitions(tmp_path: Path) -> None:
    make(tmp_path / "t")
    with pytest.raises(it.TableExists):
        make(tmp_path / "t")
    cases = [
        (pa.schema([("a", pa.list_(pa.time64("us")))]), [], {}, it.SchemaMismatch, "'a.element' has type time64"),
        (pa.schema([("a", pa.list_(pa.int64())), ("b", pa.int64())]), ["a"], {}, it.SchemaMismatch, "'a' of type list.*cannot be"),
        (pa.schema([("a", pa.binary()), ("b", pa.int64())]), ["a"], {}, it.SchemaMismatch, "'a' of type binary cannot be"),
        (pa.schema([("a", pa.decimal128(5, 2)), ("b", pa.int64())]), ["a"], {}, it.SchemaMismatch, "'a' of type decimal128.* cannot be"),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), [], {}, it.SchemaMismatch, "more than once"),
        (pa.schema([]), [], {}, it.SchemaMismatch, "at least one column"),
        (pa.schema([("_row", pa.int64())]), [], {}, it.SchemaMismatch, "_row"),
        (pa.schema([("a", pa.int64())]), ["b", "c"], {}, it.SchemaMismatch, "partition columns b, c not found in schema"),
        (pa.schema([("a", pa.int64())]), ["a"], {}, it.SchemaMismatch, "not a partition column"),
        (pa.schema([("a", pa.int64())]), "a", {}, it.InvalidArgument, "'a'"),
        (pa.table({"a": [1]}), [], {}, it.InvalidArgument, "'Table'"),
        (pa.schema([("a", pa.int64())]), [], {"merge.targetSizes": "1G"}, it.ConfigError, "merge.targetSizes"),
        (pa.schema([("a", pa.string())]), [], {"indexing.typemap.b": "text"}, it.ConfigError, "'b'"),
        (pa.schema([("a", pa.string())]), [], {"indexing.typemap.a": "vector"}, it.ConfigError, "'vector'"),
    ]
    for schema, partition_by, options, error, named in cases:
        with pytest.raises(error, match=named):
            it.create(tmp_path / "new", schema, partition_by=partition_by, options=options)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pa.array(["fine", "x" * 300]), "255 bytes"),
        (pa.array(["fine", "a/../../../b"]), "is a path outside of the table"),
        (pa.array([0, 2**31 - 1], pa.int32()).view(pa.date32()), "'p' has .*the years 1 to 9999"),
        (pa.array([0, -(2**62)], pa.int64()).view(pa.timestamp("us")), "'p' has .*the years 1 to 9999"),
    ],
)
def test_partition_values_that_make_no_path_change_nothing(tmp_path: Path, column: pa.Array, named: str) -> None:
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("p", column.type)]), partition_by=["p"])
    before = tree(tmp_path)
    with pytest.raises(it.SchemaMismatch, match=named):
        table.append(pa.table({"id": [1, 2], "p": column}))
    assert tree(tmp_path) == before


def test_the_text_that_stands_for_null_is_no_partition_value(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"])
    table.append([{"id": 0, "p": None}, {"id": 1, "p": ""}])
    before = tree(tmp_path / "t")
    bad = [{"id": 2, "p": "fine"}, {"id": 3, "p": NULL_PARTITION}]
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bad))
    named = rf"partition column 'p' has the value '{NULL_PARTITION}', which stands for null; write null instead"
    for data in (bad, pa.Table.from_pylist(bad), tmp_path / "bad.jsonl"):
        for write in (table.append, table.overwrite, partial(table.overwrite, where="p IS NULL OR p = 'fine'")):
            with pytest.raises(it.SchemaMismatch, match=named):
                write(data)
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "bad.jsonl")]) == 1
    assert tree(tmp_path / "t") == before
    unpartitioned = it.create(tmp_path / "u", table.schema)
    unpartitioned.append(bad)
    assert unpartitioned.count(f"p = '{NULL_PARTITION}'") == 1


def test_a_table_that_has_the_text_for_null_as_a_partition_value_still_opens(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path / "t")
    for day in (NULL_PARTITION, "2026-01-05"):
        for number in range(2):
            writer.append([{**dict.fromkeys(INDEXED), "day": day, "n": number}])
    table = it.open(tmp_path / "t")
    assert sorted(table.scan(columns=["day"]).read_all()["day"].to_pylist()) == ["2026-01-05"] * 2 + [NULL_PARTITION] * 2
    assert (table.count(), table.count("day IS NULL"), table.verify()) == (4, 2, [])
    assert table.merge_splits("100M").metrics["files_added"] == 2
    table.drop_partitions("day IS NULL")
    assert (table.count(), table.verify(deep=True)) == (2, [])


def test_strings_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("m", pa.string())]))
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    with pytest.raises(it.SchemaMismatch, match=r"row 0, column 'm': .*UTF8"):
        table.append(pa.table({"id": [1], "m": broken}))
    assert table.count() == 0


def test_errors_of_the_row_source_are_raised_unchanged(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    before = tree(tmp_path)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(rows(0, 3), schema=SCHEMA)
        raise it.VersionNotFound("purged meanwhile")

    with pytest.raises(it.VersionNotFound, match="purged meanwhile"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert tree(tmp_path) == before


def test_a_partition_value_of_the_wrong_type_is_damage(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    file = version_file(tmp_path / "t", 1)
    file.write_bytes(gzip.decompress(file.read_bytes()).replace(b'"date":"2024-01-02"}', b'"date":"yesterday"}'))
    table = it.open(tmp_path / "t")
    where = "date = DATE '2024-01-01'"
    with pytest.raises(it.LogCorrupted, match="yesterday"):
        table.overwrite([], where=where)
    with pytest.raises(it.LogCorrupted, match="yesterday"):
        table.merge_splits(where=where)


def test_a_write_cannot_change_how_columns_are_indexed(tmp_path: Path) -> None:
    make(tmp_path / "t", **{"indexing.typemap.level": "string"})
    same = it.open(tmp_path / "t", options={"indexing.typemap.level": "string"})
    assert same.append(rows(0, 1)).version == 1
    with pytest.raises(it.ConfigError, match=r"indexing\.typemap\.message = 'string' differs"):
        it.open(tmp_path / "t", options={"indexing.typemap.message": "string"}).append(rows(0, 1))


def test_integers_that_pandas_converted_to_floats(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    table.append(pa.table({"a": pa.array([1, None, 3]).cast(pa.int64())}).to_pandas())
    assert table.scan().read_all().column("a").to_pylist() == [1, None, 3]


def test_a_filtered_pandas_frame(tmp_path: Path) -> None:
    """pandas keeps the row numbers in an unnamed index, which is ignored. A named index is a column."""
    frame = pa.table({"a": [1, 2, 3]}).to_pandas()
    filtered = frame[frame["a"] > 1]
    assert "__index_level_0__" in pa.Table.from_pandas(filtered).column_names
    table = it.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    filtered.to_parquet(tmp_path / "x.parquet")
    for data in (filtered, pa.Table.from_pandas(filtered), tmp_path / "x.parquet"):
        table.append(data)
    assert table.scan().read_all().to_pydict() == {"a": [2, 3] * 3}
    with pytest.raises(it.SchemaMismatch, match="column 'key'"):
        table.append(filtered.rename_axis("key"))
