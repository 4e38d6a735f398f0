"""The data source, compared with reading the same table in Python."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import TableNotFound
from indextables.spark import read

pytestmark = pytest.mark.spark

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("i32", pa.int32()),
        ("i16", pa.int16()),
        ("i8", pa.int8()),
        ("f64", pa.float64()),
        ("f32", pa.float32()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
    ]
)
NEW_YEAR = dt.datetime(2024, 1, 1, 0, 30, 0, 123456)
ROWS: list[dict[str, Any]] = [
    dict(zip(TYPES.names, values, strict=True))
    for values in (
        (
            1,
            "Ünïcode\n“quotes” , 'x'",
            2**31 - 1,
            -(2**15),
            127,
            0.1,
            1.5,
            True,
            dt.date(1969, 12, 31),
            NEW_YEAR.replace(tzinfo=dt.UTC),
            NEW_YEAR,
        ),
        (
            2,
            "",
            -1,
            0,
            -128,
            float("inf"),
            -0.0,
            False,
            dt.date(2024, 2, 29),
            dt.datetime(1960, 7, 1, tzinfo=dt.UTC),
            dt.datetime(2024, 3, 10, 2, 30),
        ),
        (3, *[None] * 10),
    )
]


@pytest.fixture
def everything(path: str) -> it.Table:
    table = it.create(path, TYPES)
    table.append(ROWS[:2])
    table.append(ROWS[2:])
    return table


@pytest.fixture
def logs(path: str) -> it.Table:
    """Three versions after 0; ids 0 to 29."""
    schema = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
    table = it.create(path, schema, partition_by=["level"])
    for part in range(3):
        table.append(
            {"id": n, "level": "ERROR" if n % 3 else "INFO", "message": f"connection {n} {'refused' if n % 2 else 'open'}"}
            for n in range(part * 10, part * 10 + 10)
        )
    return table


def load(spark: Any, path: str, **options: Any) -> Any:
    return spark.read.format("indextables").options(**options).load(path)


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_every_type_reads_as_in_python_in_any_time_zone(spark: Any, everything: it.Table) -> None:
    frame = load(spark, everything.path)
    by_spark = frame.orderBy("id").toArrow().cast(TYPES)
    assert by_spark.to_pylist() == everything.scan().read_all().sort_by("id").to_pylist() == ROWS
    # The instant as a number does not depend on zones or on the conversion from Arrow.
    assert frame.selectExpr("unix_micros(at) as n").where("n = 1704069000123456").count() == 1


def test_a_written_frame_reads_back_equal(spark: Any, everything: it.Table, tmp_path: Any) -> None:
    copy = str(tmp_path / "copy")
    load(spark, everything.path).write.format("indextables").mode("append").save(copy)
    assert it.open(copy).schema == TYPES
    assert it.open(copy).scan().read_all().sort_by("id").to_pylist() == ROWS


def test_options_select_rows_columns_and_version(spark: Any, logs: it.Table) -> None:
    assert ids(load(spark, logs.path)) == list(range(30))
    assert ids(load(spark, logs.path, version=1)) == list(range(10))
    assert ids(load(spark, logs.path, where="level = 'INFO' AND id > 20")) == [21, 24, 27]
    assert load(spark, logs.path, columns="message, id").columns == ["message", "id"]
    found = load(spark, logs.path, query="message:refused", where="id < 10", columns="id")
    assert found.columns == ["id", "_score"]
    assert ids(found) == [1, 3, 5, 7, 9]
    assert found.where("_score > 0").count() == 5


def test_read_takes_the_options_as_arguments(spark: Any, logs: it.Table) -> None:
    frame = read(spark, logs.path, columns=["id"], where="id < 20", query="open", version=2)
    assert ids(frame) == list(range(0, 20, 2))
    with pytest.raises(TableNotFound, match="no transaction log"):
        read(spark, logs.path + "-missing")


def test_a_given_schema_selects_columns(spark: Any, logs: it.Table) -> None:
    reader = spark.read.format("indextables")
    assert ids(reader.schema("id long").load(logs.path)) == list(range(30))
    with pytest.raises(Exception, match="SchemaMismatch: the schema has a column 'nobody', which the table does not have"):
        reader.schema("nobody long").load(logs.path).collect()
    with pytest.raises(Exception, match="SchemaMismatch: column 'id' is int32 in the schema and int64 in the table"):
        reader.schema("id int").load(logs.path).collect()


def test_a_view_in_sql(spark: Any, logs: it.Table) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logs USING indextables OPTIONS (path '{logs.path}', where 'id < 15')")
    assert spark.sql("SELECT level, count(*) AS n FROM logs GROUP BY level ORDER BY level").collect() == [("ERROR", 10), ("INFO", 5)]
    spark.sql("DROP VIEW logs")


def test_a_table_without_rows(spark: Any, path: str) -> None:
    it.create(path, TYPES)
    assert load(spark, path).count() == 0
    assert load(spark, path).schema.fieldNames() == TYPES.names


def test_sparks_exception_contains_our_error(spark: Any, logs: it.Table) -> None:
    with pytest.raises(Exception, match=r"indextables\.errors\.ConfigError: unknown option 'speed'"):
        load(spark, logs.path, speed="high")
