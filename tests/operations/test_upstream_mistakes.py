"""Queries that the Scala program ("upstream") answers wrongly on real data are answered correctly here."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it

NAMES = ["a", "b", "c", "big red cat", None]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> it.Table:
    """Two partitions and a null partition, with two splits each. `x` is null in all rows of the first splits."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("date", pa.string())])
    table = it.create(tmp_path_factory.mktemp("notes") / "t", schema, partition_by=["date"])
    for start in (0, 1500):
        table.append(
            pa.table(
                {
                    "id": range(start, start + 1500),
                    "name": [NAMES[number % 5] for number in range(start, start + 1500)],
                    "x": pa.array(
                        [None if start == 0 or number % 2 else number / 2 for number in range(start, start + 1500)], pa.float64()
                    ),
                    "date": [None if number % 500 == 7 else f"d{number % 2}" for number in range(start, start + 1500)],
                },
                schema,
            )
        )
    assert table.files().num_rows == 6
    return table


def test_a_scan_returns_every_row(table: it.Table) -> None:
    """Upstream returns 250 rows per split."""
    assert sorted(table.scan(columns=["id"]).read_all().column("id").to_pylist()) == list(range(3000))
    assert table.search("*", limit=100_000).num_rows == 3000
    assert table.search("cat", limit=3000).num_rows == 600


def test_aggregates_with_a_filter_on_a_string_are_correct(table: it.Table) -> None:
    """Upstream ignores rows if the column is not a fast field."""
    assert table.aggregate({"n": ("count", "*"), "top": ("max", "id")}, where="name = 'b'").to_pylist() == [{"n": 600, "top": 2996}]
    assert table.aggregate({"n": ("count", "*")}, where="name >= 'big'").to_pylist() == [{"n": 1200}]
    assert table.count("name = 'b'") == 600


def test_ranges_of_strings_are_applied(table: it.Table) -> None:
    """Upstream does not apply `name > 'b'`."""
    found = table.scan("name > 'b'", ["name"]).read_all().column("name").to_pylist()
    assert (set(found), len(found)) == ({"c", "big red cat"}, 1200)
    assert table.search("cat OR c", where="name > 'c'", limit=10).num_rows == 0


def test_equality_on_text_of_several_words(table: it.Table) -> None:
    """Upstream finds nothing, and `<>` excludes nothing."""
    assert table.count("name = 'big red cat'") == 600
    assert table.count("name <> 'big red cat'") == 1800
    assert table.count("name = 'cat'") == 0
    assert table.search("cat", where="name <> 'big red cat'").num_rows == 0


def test_a_search_and_a_filter_are_both_applied(table: it.Table) -> None:
    """Upstream returns every row for `id = 1 OR <search>`."""
    assert table.search("id:1 OR cat", limit=3000).num_rows == 601
    assert set(table.search("cat", where="id = 3 OR id = 1").column("id").to_pylist()) == {3}
    assert table.aggregate({"n": ("count", "*")}, where="id = 3 OR id = 1", query="cat").to_pylist() == [{"n": 1}]


def test_nulls_do_not_count_and_have_no_minimum(table: it.Table) -> None:
    """Upstream counts nulls, and the minimum of a column of nulls is 0.0."""
    aggs = {
        "n": ("count", "*"),
        "x": ("count", "x"),
        "low": ("min", "x"),
        "sum": ("sum", "x"),
        "avg": ("avg", "x"),
        "d": ("count_distinct", "x"),
    }
    nothing = {"x": 0, "low": None, "sum": None, "avg": None, "d": 0}
    assert table.aggregate(aggs, where="id < 1500").to_pylist() == [{"n": 1500, **nothing}]
    assert table.aggregate(aggs, where="id < 0").to_pylist() == [{"n": 0, **nothing}]
    (found,) = table.aggregate(aggs).to_pylist()
    assert (found["n"], found["x"], found["low"]) == (3000, 750, 750.0)
    assert table.aggregate({"x": ("count", "x"), "date": ("count", "date")}).to_pylist() == [{"x": 750, "date": 2994}]


def test_null_partition_values_are_null(table: it.Table) -> None:
    """Upstream finds none with `date IS NULL`."""
    assert table.count("date IS NULL") == table.scan("date IS NULL").read_all().num_rows == 6
    assert table.count("date IS NOT NULL") == 2994
    assert table.search("*", where="date IS NULL").num_rows == 6
    groups = table.aggregate({"n": ("count", "*")}, ["date"]).to_pylist()
    assert groups == [{"date": "d0", "n": 1500}, {"date": "d1", "n": 1494}, {"date": None, "n": 6}]


def test_null_in_a_list(table: it.Table) -> None:
    """Upstream fails."""
    assert table.count("name IN ('a', NULL)") == table.scan("name IN ('a', NULL)").read_all().num_rows == 600
    assert table.count("name NOT IN ('a', NULL)") == 0
    assert table.count("date IN ('d0', NULL)") == 1500
    assert table.search("*", where="name IN ('c', NULL) AND id < 10").num_rows == 2


@pytest.mark.parametrize("limit", [100_001, 2**31, 2**62, 10**30])
def test_a_huge_limit_is_refused_and_allocates_nothing(table: it.Table, limit: int) -> None:
    """Upstream allocates 40 bytes for each row of the limit in every split, and the process aborts."""
    with pytest.raises(it.InvalidArgument, match=str(limit)):
        table.search("cat", limit=limit)
    with pytest.raises(it.InvalidArgument, match=str(limit)):
        table.search("cat", offset=limit - 1, limit=1)
    assert table.search("cat", limit=99_999, offset=1).num_rows == 599


def test_truncated_statistics_lose_no_rows(tmp_path: Path) -> None:
    """String bounds in the log may be shorter or larger than any value. They neither prune a matching file nor answer a query."""
    table = it.create(tmp_path / "t", pa.schema([("s", pa.string())]))
    for letter in "az":
        table.append([{"s": letter * 50}, {"s": letter * 40 + "b"}])
    assert table.aggregate({"low": ("min", "s"), "high": ("max", "s")}).to_pylist() == [{"low": "a" * 50, "high": "z" * 50}]
    for value in ("a" * 50, "a" * 40 + "b", "z" * 50, "z" * 40 + "b"):
        assert table.count(f"s = '{value}'") == table.scan(f"s = '{value}'").read_all().num_rows == 1
        assert table.count(f"s >= '{value}'") == sum(other >= value for other in ("a" * 50, "a" * 40 + "b", "z" * 50, "z" * 40 + "b"))


def test_dates_before_1677_and_after_2262(tmp_path: Path) -> None:
    """Upstream fails the complete write."""
    table = it.create(tmp_path / "t", pa.schema([("day", pa.date32()), ("ts", pa.timestamp("us"))]))
    moments = [datetime(year, 2, 3, 4, 5, 6, 7) for year in (1, 1582, 1676, 2024, 2263, 9999)]
    table.append(pa.table({"day": [moment.date() for moment in moments], "ts": moments}, table.schema))
    assert table.scan().read_all().column("ts").to_pylist() == moments
    assert table.count("day < DATE '1677-01-01'") == 3
    assert table.search("ts:[2262-12-31T00:00:00 TO *]").num_rows == 2
    assert table.search("day:1582-02-03").column("ts").to_pylist() == [moments[1]]
