"""Aggregation: exact sums, NaN and nulls, answers from the log alone, and invalid requests. See also test_against_duckdb.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables import limits
from indextables.operations.aggregate import run as aggregate
from indextables.splits import SplitReader
from tests.support.tables import make, rows

ROWS = rows(0, 120)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> it.Table:
    return make(tmp_path_factory.mktemp("aggregate") / "t", appends=4, each=30)


def single_value(table: it.Table, function: str, column: str, **how: Any) -> Any:
    (row,) = table.aggregate({"v": (function, column)}, **how).to_pylist()
    return row["v"]


def column_of(path: Path, kind: pa.DataType, *parts: list[Any]) -> it.Table:
    table = it.create(path, pa.schema([("v", kind)]))
    for part in parts:
        table.append(pa.table({"v": pa.array(part, kind)}))
    return table


def test_the_result_has_names_and_types(table: it.Table) -> None:
    aggs = {"n": ("count", "*"), "sum": ("sum", "id"), "mean": ("avg", "id"), "low": ("min", "ts"), "high": ("max", "message")}
    found = table.aggregate(aggs, {"day": "date", "minute": ("date_histogram", "ts", "1m")})
    kinds = [pa.date32(), pa.timestamp("us", "UTC"), pa.int64(), pa.int64(), pa.float64(), pa.timestamp("us", "UTC"), pa.string()]
    assert found.schema == pa.schema(list(zip(["day", "minute", *aggs], kinds, strict=True)))
    assert found.num_rows == 4
    assert found.column("n").to_pylist() == [30] * 4
    assert sum(found.column("sum").to_pylist()) == sum(range(120))


def test_groups_of_a_query(table: it.Table) -> None:
    expected = {
        level: [r for r in ROWS if r["level"] == level and "refused" in r["message"].split()] for level in ("ERROR", "INFO", "WARN")
    }
    found = table.aggregate({"n": ("count", "*"), "ids": ("sum", "id")}, ["level"], query="refused").to_pylist()
    assert found == [{"level": k, "n": len(v), "ids": sum(r["id"] for r in v)} for k, v in expected.items() if v]
    by_date = table.aggregate({"n": ("count", "*")}, ["date"], query="refused AND NOT disk", where="date > '2024-01-01'").to_pylist()
    wanted = [r for r in ROWS if "refused" in r["message"] and "disk" not in r["message"] and r["date"].day == 2]
    assert [row["n"] for row in by_date] == [len(wanted)]
    assert table.aggregate({"n": ("count", "*")}, ["date"], query="nosuchword").to_pylist() == []
    assert table.aggregate({"n": ("count", "*")}, query="nosuchword").to_pylist() == [{"n": 0}]


@pytest.mark.parametrize("group_by", [None, ["date"], ["level"]])
def test_tantivy_and_arrow_agree_on_the_hits_of_a_query(
    table: it.Table, group_by: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggs = {
        f"{function}_{column}": (function, column) for function in ("count", "sum", "avg", "min", "max") for column in ("id", "latency")
    }
    asked = {"n": ("count", "*"), **aggs}
    queries = ("refused", "disk AND NOT full", "id:[5 TO 9]", "*", "nosuchword", "level:error AND latency:>20")
    by_tantivy = [table.aggregate(asked, group_by, query=query).to_pylist() for query in queries]
    read = SplitReader.search
    called: list[str] = []
    monkeypatch.setattr(SplitReader, "numbers", lambda *_: None)
    monkeypatch.setattr(SplitReader, "search", lambda self, query: called.append(query.text) or read(self, query))
    by_arrow = [table.aggregate(asked, group_by, query=query).to_pylist() for query in queries]
    assert set(called) == set(queries)
    assert len(by_tantivy[3]) == {None: 1, "date": 2, "level": 3}[group_by[0] if group_by else None]
    for left, right in zip(by_tantivy, by_arrow, strict=True):
        assert [list(row) for row in left] == [list(row) for row in right]
        for ours, theirs in zip(left, right, strict=True):
            assert ours == {k: pytest.approx(v, rel=1e-14) if isinstance(v, float) else v for k, v in theirs.items()}


def test_rows_are_read_where_doubles_are_not_exact(tmp_path: Path) -> None:
    big = column_of(tmp_path / "a", pa.int64(), [2**53 + 1, 1, None], [2**62, -(2**62) + 2])
    assert [single_value(big, function, "v", query="*") for function in ("sum", "max", "min", "count")] == [
        2**53 + 4,
        2**62,
        -(2**62) + 2,
        4,
    ]
    odd = column_of(tmp_path / "b", pa.float64(), [math.nan, 1.0], [math.inf, None])
    assert math.isnan(single_value(odd, "max", "v", query="*"))
    assert single_value(odd, "min", "v", query="*") == 1.0
    assert math.isnan(single_value(odd, "sum", "v", query="*"))
    none = column_of(tmp_path / "c", pa.int32(), [None, None])
    assert [single_value(none, function, "v", query="*") for function in ("sum", "max", "avg", "count")] == [None, None, None, 0]


def test_answers_from_the_log_read_no_split(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3)
    for split in (tmp_path / "t").rglob("*.split"):
        split.unlink()
    aggs = {"n": ("count", "*"), "low": ("min", "id"), "high": ("max", "ts"), "days": ("count", "date"), "last": ("max", "date")}
    found = table.aggregate(aggs, ["date"]).to_pylist()
    assert [(row["n"], row["low"], row["days"]) for row in found] == [(15, 0, 15), (15, 1, 15)]
    assert [row["last"] for row in found] == [row["date"] for row in found]
    assert max(row["high"] for row in found) == rows(29, 1)[0]["ts"]
    assert table.aggregate({"n": ("count", "*")}, where="date = '2024-01-02' OR date IS NULL").to_pylist() == [{"n": 15}]
    assert table.count("date = '2024-01-01' OR (id > 3 AND date = '2024-01-01')") == 15
    for unknown in ({"v": ("sum", "id")}, {"v": ("min", "message")}, {"v": ("count", "latency")}, {"v": ("count_distinct", "date")}):
        with pytest.raises(it.SplitCorrupted, match="missing"):
            table.aggregate(unknown)


def test_integers_are_added_exactly(tmp_path: Path) -> None:
    edge = 2**63 - 1
    table = column_of(tmp_path / "a", pa.int64(), [edge, -edge, 2**53], [1, None, edge, -edge])
    assert single_value(table, "sum", "v") == 2**53 + 1
    assert single_value(table, "max", "v") == edge
    assert single_value(table, "avg", "v") == (2**53 + 1) / 6
    table.append(pa.table({"v": [edge]}))
    with pytest.raises(it.InvalidArgument, match="'v' does not fit into 64 bits"):
        single_value(table, "sum", "v")
    assert single_value(table, "avg", "v") == pytest.approx((edge + 2**53 + 1) / 7, rel=1e-15)
    lowest = column_of(tmp_path / "b", pa.int64(), [-(2**63)], [0])
    assert single_value(lowest, "sum", "v") == -(2**63)


def test_nan_is_the_largest_number(tmp_path: Path) -> None:
    table = column_of(tmp_path / "a", pa.float64(), [1.5, math.nan, None], [-2.0, math.inf])
    assert math.isnan(single_value(table, "max", "v"))
    assert math.isnan(single_value(table, "sum", "v"))
    assert (single_value(table, "min", "v"), single_value(table, "count", "v"), single_value(table, "count_distinct", "v")) == (-2.0, 4, 4)
    only = column_of(tmp_path / "b", pa.float32(), [math.nan, math.nan], [None])
    assert math.isnan(single_value(only, "min", "v"))
    assert math.isnan(single_value(only, "max", "v"))
    assert single_value(only, "count_distinct", "v") == 1
    assert [row["n"] for row in only.aggregate({"n": ("count", "*")}, ["v"]).to_pylist()] == [2, 1]
    zeros = column_of(tmp_path / "c", pa.float64(), [0.0, -0.0], [-0.0])
    assert zeros.aggregate({"n": ("count", "*")}, ["v"]).to_pylist() == [{"v": 0.0, "n": 3}]
    assert single_value(zeros, "count_distinct", "v") == 1


def test_histograms_below_zero_and_at_the_edge(tmp_path: Path) -> None:
    table = column_of(tmp_path / "a", pa.int64(), [-101, -100, -1, 0, 99, 100, None])
    found = table.aggregate({"n": ("count", "*")}, {"b": ("histogram", "v", 100)}).to_pylist()
    assert [(row["b"], row["n"]) for row in found] == [(-200, 1), (-100, 2), (0, 2), (100, 1), (None, 1)]
    table.append(pa.table({"v": [-(2**63)]}))
    with pytest.raises(it.InvalidArgument, match="-9223372036854775808"):
        table.aggregate({"n": ("count", "*")}, {"b": ("histogram", "v", 100)})


def test_many_groups_are_combined_chunk_by_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate, "_CHUNK_ROWS", 100)
    table = it.create(tmp_path / "t", pa.schema([("k", pa.int64()), ("v", pa.string())]))
    for part in range(3):
        table.append(pa.table({"k": [n % 700 for n in range(2500)], "v": [f"{part}-{n % 1400}" for n in range(2500)]}))
    found = table.aggregate({"n": ("count", "*"), "d": ("count_distinct", "v")}, ["k"]).to_pylist()
    assert [row["k"] for row in found] == list(range(700))
    assert [row["n"] for row in found] == [12 if key < 400 else 9 for key in range(700)]
    assert {row["d"] for row in found} == {6}
    monkeypatch.setattr(limits, "AGGREGATE_GROUPS", 699)
    with pytest.raises(it.InvalidArgument, match="more than 699"):
        table.aggregate({"n": ("count", "*")}, ["k"])


def test_an_empty_table(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    aggs = {"n": ("count", "*"), "s": ("sum", "id"), "a": ("avg", "latency"), "m": ("max", "message"), "d": ("count_distinct", "id")}
    assert table.aggregate(aggs).to_pylist() == [{"n": 0, "s": None, "a": None, "m": None, "d": 0}]
    assert table.aggregate(aggs, ["level"]).num_rows == 0


@pytest.mark.parametrize(
    ("aggs", "group_by", "named"),
    [
        ({}, None, "is not a non-empty mapping"),
        (["n"], None, "is not a non-empty mapping"),
        ({"n": "count"}, None, "'count'"),
        ({"n": ("median", "id")}, None, "median"),
        ({"n": ("sum", "*")}, None, r"\*"),
        ({"n": ("sum", "nosuch")}, None, "nosuch"),
        ({"n": ("sum", "message")}, None, "'message' has type string"),
        ({"n": ("avg", "ts")}, None, "'ts'"),
        ({"": ("count", "*")}, None, "''"),
        ({"n": ("count", "*")}, "level", "'level'"),
        ({"n": ("count", "*")}, ["nosuch"], "nosuch"),
        ({"n": ("count", "*")}, [3], "3"),
        ({"level": ("count", "*")}, ["level"], "two columns 'level'"),
        ({"n": ("count", "*")}, {"h": ("histogram", "message", 5)}, "'message'"),
        ({"n": ("count", "*")}, {"h": ("histogram", "id", 0)}, "width 0"),
        ({"n": ("count", "*")}, {"h": ("histogram", "id", "wide")}, "wide"),
        ({"n": ("count", "*")}, {"h": ("histogram", "id", True)}, "True"),
        ({"n": ("count", "*")}, {"h": ("histogram", "id", math.nan)}, "nan"),
        ({"n": ("count", "*")}, {"h": ("date_histogram", "id", "1h")}, "'id'"),
        ({"n": ("count", "*")}, {"h": ("date_histogram", "ts", "often")}, "often"),
        ({"n": ("count", "*")}, {"h": ("date_histogram", "ts", "0h")}, "0h"),
        ({"n": ("count", "*")}, {"h": ("date_histogram", "ts", "0 month")}, "0 month"),
        ({"n": ("count", "*")}, {"h": ("date_histogram", "ts", 5)}, "5"),
        ({"n": ("count", "*")}, {"h": ("date_histogram", "date", "1h")}, "whole number of days"),
        ({"n": ("count", "*")}, {"h": ("terms", "level")}, "terms"),
    ],
)
def test_an_invalid_request_names_the_cause(table: it.Table, aggs: Any, group_by: Any, named: str) -> None:
    with pytest.raises(it.InvalidArgument, match=named) as caught:
        table.aggregate(aggs, group_by)
    assert "\n" not in str(caught.value)
