"""Every type round-trips through a table, including the values that are difficult to index."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main
from tests.support.loading import loaded

NESTED = pa.struct([("n", pa.int16()), ("when", pa.timestamp("us", tz="UTC")), ("deep", pa.map_(pa.string(), pa.list_(pa.float64())))])
EVERY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["a", "", "ünï ☃ \U0001f600", "x" * 70_000, None]),
    "long": (pa.int64(), [0, -(2**63), 2**63 - 1, 1, None]),
    "int": (pa.int32(), [0, -(2**31), 2**31 - 1, 1, None]),
    "short": (pa.int16(), [0, -(2**15), 2**15 - 1, 1, None]),
    "byte": (pa.int8(), [0, -128, 127, 1, None]),
    "float": (pa.float32(), [0.0, -0.0, math.inf, 1.1754943508222875e-38, None]),
    "double": (pa.float64(), [5e-324, -0.0, -math.inf, 1.7976931348623157e308, None]),
    "decimal": (pa.decimal128(38, 10), [Decimal("0E-10"), Decimal("9999999999999999999999999999.9999999999"), Decimal("-1.5"), None, None]),
    "money": (pa.decimal128(10, 2), [Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.00"), Decimal("0.01"), None]),
    "boolean": (pa.bool_(), [True, False, True, False, None]),
    "binary": (pa.binary(), [b"\x00\xff", b"", b"abc", b"\x00" * 1000, None]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(1600, 2, 29), date(2300, 1, 1), None]),
    "zoned": (
        pa.timestamp("us", tz="UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None, None, None],
    ),
    "local": (pa.timestamp("us"), [datetime(1500, 1, 1), datetime(2999, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1), None, None]),
    "array": (pa.list_(pa.string()), [["a", None, ""], [], [None], ["b"] * 100, None]),
    "arrays": (pa.list_(pa.list_(pa.decimal128(5, 1))), [[[Decimal("1.5")], None, []], [], None, [None], [[]]]),
    "struct": (
        NESTED,
        [{"n": 1, "when": datetime(1, 1, 1, tzinfo=UTC), "deep": [("k", [1.5, None])]}, {"n": None, "when": None, "deep": None}]
        + [None] * 3,
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], [("", -1)], None, None]),
    "keys": (pa.map_(pa.date32(), NESTED), [[(date(2024, 1, 1), {"n": 7, "when": None, "deep": []})], [], None, None, None]),
    "nothing": (pa.null(), [None] * 5),
}
TABLE = pa.table({name: pa.array(values, kind) for name, (kind, values) in EVERY.items()})


def bits(table: pa.Table) -> list[Any]:
    """The rows in a form in which -0.0 differs from 0.0."""
    return [repr(row) for row in table.to_pylist()]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_every_type_round_trips_through_write_merge_and_scan(tmp_path: Path, compression: str) -> None:
    table = it.create(tmp_path / "t", TABLE.schema, options={"split.rowStore.compression": compression})
    table.append(TABLE)
    table.append(TABLE.slice(1, 2))
    assert bits(table.scan().read_all()) == bits(pa.concat_tables([TABLE, TABLE.slice(1, 2)]))
    assert table.scan().read_all().schema == table.schema == it.open(tmp_path / "t").schema
    table.merge_splits()
    assert len(table.files()) == 1
    assert sorted(bits(table.scan().read_all())) == sorted(bits(pa.concat_tables([TABLE, TABLE.slice(1, 2)])))
    for name in EVERY:
        nulls = EVERY[name][1].count(None) + EVERY[name][1][1:3].count(None)
        assert table.count(f"{name} IS NULL") == nulls, name


LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "duckdb": duckdb.from_arrow,
    "dicts": lambda table: table.to_pylist(),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_nested_columns_of_other_libraries(tmp_path: Path, library: str) -> None:
    data = TABLE.select(["long", "string", "money", "date", "array", "struct", "binary"]).slice(0, 2)
    data = data.set_column(5, "struct", pa.array([{"n": 1}, {"n": None}], pa.struct([("n", pa.int16())])))
    data = data.set_column(3, "date", pa.array([date(2024, 1, 1), None], pa.date32()))
    table = it.create(tmp_path / "t", data.schema)
    table.append(LIBRARIES[library](data))
    assert table.scan().read_all().to_pylist() == data.to_pylist()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.array(["a", None], pa.large_string()), ["a", None]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [Decimal(2**64 - 1), Decimal(0)]),
        (pa.array([["a"], None], pa.large_list(pa.large_string())), [["a"], None]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), [[1, 2], [3, 4]]),
        (pa.array([1_000, 2_000], pa.timestamp("ns")), [datetime(1970, 1, 1, 0, 0, 0, 1), datetime(1970, 1, 1, 0, 0, 0, 2)]),
    ],
)
def test_inputs_of_other_types_are_cast(tmp_path: Path, given: pa.Array, stored: list[Any]) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", given.type)]))
    table.append(pa.table({"a": given}))
    assert table.scan().read_all().column("a").to_pylist() == stored


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (pa.timestamp("us"), pa.array([1_000, 1], pa.timestamp("ns")), "row 1, column 'a'"),
        (pa.decimal128(4, 2), pa.array([Decimal("1.50"), Decimal("1.505")]), "row 1, column 'a': Decimal.'1.505'"),
        (pa.decimal128(4, 2), pa.array([1, 100]), "row 1, column 'a': Decimal.'100'"),
        (pa.float64(), pa.array([Decimal("0.5"), Decimal("0.1")]), "column 'a' is decimal128.* in the data and double in the table"),
        (pa.float32(), pa.array([0.5, 0.1]), "row 1, column 'a': 0.1 does not fit float exactly"),
        (pa.int64(), pa.array([1, 2**63], pa.uint64()), "row 1, column 'a': 9223372036854775808"),
        (pa.list_(pa.int8()), pa.array([[1], [1, 300]]), r"row 1, column 'a': \[1, 300\]"),
        (pa.struct([("x", pa.float32())]), pa.array([{"x": 0.1}]), "column 'a' is struct<x: double> in the data"),
        (pa.struct([("x", pa.int64())]), pa.array([{"x": 1, "y": 2}]), "column 'a' is struct<x: int64, y: int64> in the data"),
    ],
)
def test_an_invalid_row_is_named_before_anything_is_written(tmp_path: Path, kind: pa.DataType, given: pa.Array, named: str) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", kind)]))
    with pytest.raises(it.SchemaMismatch, match=named):
        table.append(pa.table({"a": given}))
    assert table.refresh().version == 0
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["_transaction_log"]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int64(), 1.5), (pa.int64(), Decimal("1.5")), (pa.int8(), math.nan), (pa.float32(), 1e300),
        (pa.date32(), datetime(2024, 1, 1, 12)), (pa.date32(), 1.5), (pa.timestamp("us"), 1.5),
        (pa.list_(pa.int32()), [1, 1.5]), (pa.list_(pa.string()), "ab"), (pa.struct([("x", pa.int8())]), {"x": 1, "y": 2}),
        (pa.map_(pa.string(), pa.list_(pa.int8())), {"k": [1.5]}), (pa.int8(), pa.scalar(1.5)),
        (pa.timestamp("us"), pd.Timestamp("2024-01-01 00:00:00.000000001")),
    ],
)  # fmt: skip
def test_python_values_that_arrow_would_change_are_refused(tmp_path: Path, kind: pa.DataType, given: Any) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", kind)]))
    with pytest.raises(it.SchemaMismatch, match=r"row 1, column 'a': .* is not a value of type"):
        table.append([{"a": None}, {"a": given}])
    assert table.refresh().version == 0


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        (pa.int64(), 2.0, 2), (pa.float32(), math.inf, math.inf), (pa.float32(), 0.5, 0.5), (pa.float64(), 3, 3.0),
        (pa.date32(), datetime(2024, 1, 1), date(2024, 1, 1)), (pa.int64(), pa.scalar(2), 2),
        (pa.list_(pa.int8()), pa.array([1, None], pa.int8()), [1, None]),
        (pa.timestamp("us"), pd.Timestamp("2024-01-01"), datetime(2024, 1, 1)),
        (pa.struct([("x", pa.int8()), ("y", pa.int8())]), {"x": 1}, {"x": 1, "y": None}),
        (pa.map_(pa.string(), pa.list_(pa.int8())), {"k": (1, None)}, [("k", [1, None])]),
        (pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.int8())]))), [[("k", {"x": 1})], None], [[("k", {"x": 1})], None]),
    ],
)  # fmt: skip
def test_python_values_of_other_types_are_converted_without_loss(tmp_path: Path, kind: pa.DataType, given: Any, kept: Any) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", kind)]))
    table.append([{"a": given}, {}])
    assert table.scan().read_all().column("a").to_pylist() == [kept, None]


def found(table: it.Table, query: str) -> list[int]:
    return sorted(table.search(query, columns=["id"], limit=100).column("id").to_pylist())


def numbered(path: Path, kind: pa.DataType, values: list[Any], **options: str) -> it.Table:
    table = it.create(path, pa.schema([("id", pa.int64()), ("v", kind)]), options={k.replace("__", "."): v for k, v in options.items()})
    table.append(pa.table({"id": range(len(values)), "v": pa.array(values, kind)}))
    return table


def test_nan_and_negative_zero_are_as_in_spark(tmp_path: Path) -> None:
    table = numbered(tmp_path / "t", pa.float64(), [math.nan, -0.0, 0.0, 1.5, None, struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0]])
    assert found(table, "v:0") == found(table, "v:-0.0") == [1, 2]
    assert table.count("v = 0") == 2
    assert table.count("v = 'NaN'") == table.count("v > 1e308") == 2
    assert found(table, "v:>1") == [0, 3, 5]
    assert found(table, "v:*") == [0, 1, 2, 3, 5]
    back = table.scan().read_all().column("v").to_pylist()
    assert math.copysign(1, back[1]) == -1
    assert math.isnan(back[0])


def test_empty_strings_are_values(tmp_path: Path) -> None:
    table = numbered(tmp_path / "t", pa.string(), ["", None, "a"], indexing__typemap__v="string")
    assert found(table, 'v:""') == [0]
    assert found(table, "v:*") == [0, 2]
    assert table.count("v = ''") == 1


def test_a_surrogate_is_refused_with_its_row(tmp_path: Path) -> None:
    table = numbered(tmp_path / "t", pa.string(), ["a"])
    with pytest.raises(it.SchemaMismatch, match="row 1, column 'v'"):
        table.append([{"id": 1, "v": "\U0001f600"}, {"id": 2, "v": "\ud83d"}])
    assert table.refresh().count() == 1


@pytest.mark.parametrize("mode", ["string", "text"])
def test_terms_of_65_kb_are_found_by_prefix(tmp_path: Path, mode: str) -> None:
    """tantivy silently drops terms of more than 65,530 bytes."""
    table = numbered(tmp_path / "t", pa.string(), ["x" * 65_531, "x" * 5, "y"], indexing__typemap__v=mode)
    assert found(table, "v:xxxxxx*") == [0]
    assert found(table, "v:x*") == [0, 1]
    assert found(table, f"v:{'x' * 9_000}*") == [0]
    assert found(table, f"v:{'x' * 9_000}") == []
    assert table.count(f"v LIKE '{'x' * 1000}%'") == 1


@pytest.mark.parametrize("tokenizer", ["default", "en_stem", "whitespace"])
def test_tokens_of_40_bytes_are_kept(tmp_path: Path, tokenizer: str) -> None:
    """tantivy's built-in analyzers drop them, and so every SHA-1."""
    digest = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
    table = numbered(tmp_path / "t", pa.string(), [f"commit {digest} done", "commit other done"], indexing__tokenizer__v=tokenizer)
    assert found(table, digest) == [0]
    assert found(table, f'"commit {digest}"') == [0]


def test_dates_outside_the_range_of_nanoseconds(tmp_path: Path) -> None:
    """tantivy's dates range from 1677 to 2262, and a date outside fails the complete write in upstream."""
    days = [date(1, 1, 1), date(1677, 1, 1), date(2262, 12, 31), date(9999, 12, 31)]
    table = numbered(tmp_path / "t", pa.date32(), days)
    assert found(table, "v:[1600-01-01 TO 2300-01-01]") == [1, 2]
    assert found(table, "v:0001-01-01") == [0]
    moments = numbered(tmp_path / "m", pa.timestamp("us"), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)])
    assert found(moments, "v:>2262-12-31") == [1]
    assert moments.files().column("max_values").to_pylist()[0] == [("id", "1"), ("v", "9999-12-31T23:59:59.999999")]


def test_times_outside_the_logs_range_have_no_bounds(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("v", pa.timestamp("us"))]))
    table.append(pa.table({"v": pa.array([2**62, -(2**62)], pa.timestamp("us"))}))
    assert table.count("v > '2024-01-01'") == 1
    (add,) = loaded(table).adds()
    assert (add.min_values, add.time_range_start) == ({}, None)


def test_tokenizers(tmp_path: Path) -> None:
    texts = ["Connections refused by node-7", "the node was refusing", None]
    cases = {
        "default": {"refused": [0], "NODE": [0, 1], "refus*": [0, 1], "node-7": [0], '"by node"': [0]},
        "en_stem": {"refuse": [0, 1], "connection": [0], '"refused by"': [0]},
        "whitespace": {"node-7": [0], "node": [1], "NODE-7": [0], "connections": [0]},
        "raw": {'"the node was refusing"': [1], "node": [], "the*": [1]},
        "ngram": {"efus": [0, 1], '"ed by no"': [0], "NODE-7": [0], "xyz": [], '"the node was refusing"': [1]},
    }
    for tokenizer, queries in cases.items():
        table = numbered(tmp_path / tokenizer, pa.string(), texts, indexing__tokenizer__v=tokenizer)
        table.append([{"id": 9, "v": "else"}])
        table.merge_splits()
        assert {query: found(table, query) for query in queries} == queries, tokenizer


@pytest.mark.parametrize(("tokenizer", "query"), [("ngram", "ab"), ("ngram", '"abc def"~2'), ("en_stem", "refus*")])
def test_a_query_that_a_tokenizer_cannot_answer_is_refused(tmp_path: Path, tokenizer: str, query: str) -> None:
    table = numbered(tmp_path / "t", pa.string(), ["refused"], indexing__tokenizer__v=tokenizer)
    with pytest.raises(it.InvalidQuery, match="'v'"):
        table.search(query)


def test_ip_addresses(tmp_path: Path) -> None:
    table = numbered(tmp_path / "t", pa.string(), ["10.0.0.1", "10.0.1.0", "::1", None, "2001:db8::1"], indexing__typemap__v="ip")
    assert found(table, "v:10.0.0.1") == [0]
    assert found(table, "v:[10.0.0.0 TO 10.0.0.255]") == [0]
    assert found(table, 'v:"2001:0db8:0:0:0:0:0:1"') == [4]
    assert found(table, "v:*") == [0, 1, 2, 4]
    with pytest.raises(it.InvalidQuery, match=r"'10\.0\.0' is not an IP address"):
        table.search("v:10.0.0")
    with pytest.raises(it.SchemaMismatch, match=r"row 1, column 'v': '10\.0\.0' is not an IP address"):
        table.append([{"id": 5, "v": "::"}, {"id": 6, "v": "10.0.0"}])
    assert table.refresh().version == 1


def test_json_columns_are_searched_by_path(tmp_path: Path) -> None:
    kind = pa.struct([("user", pa.string()), ("n", pa.int64()), ("f", pa.float64()), ("ok", pa.bool_()), ("tags", pa.list_(pa.string()))])
    values = [
        {"user": "Alice Smith", "n": 5, "f": 1.5, "ok": True, "tags": ["red hot", None]},
        {"user": "2024-01-01T00:00:00.5Z", "n": None, "f": math.nan, "ok": False, "tags": []},
        None,
        {"user": "5", "n": -5, "f": 5.0, "ok": None, "tags": ["true"]},
    ]
    table = numbered(tmp_path / "t", kind, values, indexing__typemap__v="json")
    queries = {
        "v.user:alice": [0], 'v.user:"alice smith"': [0], "v.user:ali*": [0], "v.n:5": [0], "v.n:\\-5": [3], "v.f:1.5": [0],
        "v.ok:true": [0],
        "v.tags:hot": [0], "v.user:2024": [1], 'v.user:"2024-01-01T00:00:00.5Z"': [1], "v.user:5": [3], "v:*": [0, 1, 3], "v.f:5": [3],
    }  # fmt: skip
    assert {query: found(table, query) for query in queries} == queries
    with pytest.raises(it.InvalidQuery, match=r"v\.key:word"):
        table.search("v:alice")


def test_times_outside_pythons_range_inside_json_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows contain such a time, and the values beside it are indexed."""
    kind = pa.struct(
        [("day", pa.date32()), ("times", pa.list_(pa.timestamp("us"))), ("by", pa.map_(pa.string(), pa.date32())), ("s", pa.string())]
    )
    days, late = pa.array([2_932_897, 0], pa.int32()).cast(pa.date32()), pa.array([253_402_300_800_000_000, 0]).cast(pa.timestamp("us"))
    lists = pa.ListArray.from_arrays([0, 1, 2], late)
    maps = pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), days)
    rows = pa.StructArray.from_arrays([days, lists, maps, pa.array(["word", None])], names=["day", "times", "by", "s"]).cast(kind)
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("v", kind)]), options={"indexing.typemap.v": "json"})
    table.append(pa.table({"id": [0, 1], "v": rows}))
    assert table.scan().read_all().column("v").combine_chunks().equals(rows.cast(table.schema.field("v").type))
    queries = {"v.s:word": [0], "v.day:1970": [1], "v.times:1970": [1], "v.by.k:1970": [1], "v:*": [0, 1]}
    assert {query: found(table, query) for query in queries} == queries
    assert main(["scan", str(tmp_path / "t"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)[0]["v"]
    assert shown == {"day": "10000-01-01", "times": ["10000-01-01 00:00:00.000000"], "by": {"k": "10000-01-01"}, "s": "word"}


def test_a_time_outside_the_target_range_is_named(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", pa.timestamp("us"))]))
    with pytest.raises(it.SchemaMismatch, match=r"row 1, column 'a': 4611686018427387904 as timestamp\[s\]"):
        table.append(pa.table({"a": pa.array([1, 2**62], pa.timestamp("s"))}))


def test_searching_a_column_without_an_index_is_refused(tmp_path: Path) -> None:
    table = numbered(tmp_path / "t", pa.binary(), [b"a", None])
    assert found(table, "v:*") == [0]
    with pytest.raises(it.InvalidQuery, match="'v' is not indexed"):
        table.search("v:a")


def test_decimals_are_searched_exactly(tmp_path: Path) -> None:
    values = [Decimal("0.10"), Decimal("-123456789012345.67"), Decimal("123456789012345.68"), None]
    table = numbered(tmp_path / "t", pa.decimal128(17, 2), values)
    assert found(table, "v:0.1") == [0]
    assert found(table, "v:>123456789012345.67") == [2]
    assert table.count("v > 123456789012345.67") == table.count("v = 0.1") == table.count("v IN (0.10, 7)") == 1
    assert table.count("v < 0.105 AND v > 0.095") == 1
    with pytest.raises(it.InvalidQuery, match=r"'0\.105' is not a value"):
        table.search("v:0.105")
