"""Scan, count and aggregate over tables of several splits and partitions, against DuckDB on the same rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import indextables as it
from tests.support.random_predicates import PREDICATES, SCHEMA, Both, make_rows

ROWS = [{"id": number, **row} for number, row in enumerate(make_rows(seed=7, count=240))]
COLUMNS = pa.schema([("id", pa.int64()), *SCHEMA])
DATA = pa.Table.from_pylist(ROWS, COLUMNS)
PARTITIONS: list[list[str]] = [[], ["b"], ["day"]]
GROUPS: list[list[str]] = [[], ["b"], ["s"], ["day", "b"], ["f"], ["d"], ["y", "s"], ["ts"], ["nt", "l"]]
FUNCTIONS = ["count", "count_distinct", "min", "max"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[it.Table]:
    made = []
    for number, columns in enumerate(PARTITIONS):
        table = it.create(tmp_path_factory.mktemp("duck") / str(number), COLUMNS, partition_by=columns)
        for start in range(0, 240, 80):
            table.append(DATA.slice(start, 80))
        assert table.files().num_rows >= 3
        made.append(table)
    return made


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    naive = DATA.set_column(DATA.schema.get_field_index("ts"), "ts", DATA["ts"].cast(pa.int64()).cast(pa.timestamp("us")))
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", naive)
        yield connection


def plain(value: Any) -> Any:
    """Normalizes a value for comparison: one NaN, one zero, times without zone."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def plain_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(plain(value) for value in row) for row in rows), key=repr)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(number=st.integers(0, len(PARTITIONS) - 1), condition=PREDICATES)
def test_scan_and_count_agree(tables: list[it.Table], duck: duckdb.DuckDBPyConnection, number: int, condition: Both) -> None:
    """Ranges, IN, LIKE, IS NULL on every type, pruned by partitions and bounds."""
    expected = [found for (found,) in duck.execute(f"SELECT id FROM rows WHERE {condition.duck} ORDER BY id").fetchall()]
    table = tables[number]
    assert sorted(table.scan(condition.ours, ["id"]).read_all().column("id").to_pylist()) == expected, condition
    assert table.count(condition.ours) == len(expected), condition


_BYTES = [b"", b"a", b"ab", b"\x00", b"\x00\xff", b"\xff", None]
_DECIMALS = [Decimal("0"), Decimal("1.1000"), Decimal("-9999999999999999.9999"), Decimal("1234567890123456.7891"), None]
_EXACT = {
    "x": [(f"X'{value.hex()}'", f"from_hex('{value.hex()}')") for value in _BYTES if value is not None] + [("'ab'", "'ab'::BLOB")],
    "m": [(text, text) for text in ("0", "1.1", "1.10001", "-9999999999999999.9999", "1234567890123456.7891", "1e17")],
}


@pytest.mark.parametrize("column", _EXACT)
def test_bytes_and_decimals_agree(tmp_path: Path, column: str) -> None:
    """Columns without bounds in the log that are no partitions: every comparison, IN, BETWEEN and their negations."""
    kinds = pa.schema([("id", pa.int64()), ("x", pa.binary()), ("m", pa.decimal128(20, 4))])
    rows = pa.Table.from_pylist([{"id": n, "x": _BYTES[n % 7], "m": _DECIMALS[n % 5]} for n in range(70)], kinds)
    table = it.create(tmp_path / "t", kinds)
    table.append(rows.slice(0, 33))
    table.append(rows.slice(33))
    literals = _EXACT[column]
    conditions = [(f"{column} {sign} {a}", f"{column} {sign} {b}") for sign in ("=", "<>", "<", "<=", ">", ">=") for a, b in literals]
    for (a, b), (c, d) in itertools.product(literals, literals):
        for word in ("", "NOT "):
            conditions.append((f"{column} {word}BETWEEN {a} AND {c}", f"{column} {word}BETWEEN {b} AND {d}"))
            conditions.append((f"{column} {word}IN ({a}, NULL, {c})", f"{column} {word}IN ({b}, NULL, {d})"))
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("exact", rows)
        for ours, theirs in conditions:
            expected = [found for (found,) in connection.execute(f"SELECT id FROM exact WHERE {theirs} ORDER BY id").fetchall()]
            assert sorted(table.scan(ours, ["id"]).read_all().column("id").to_pylist()) == expected, ours
    assert len(conditions) > 150


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    number=st.integers(0, len(PARTITIONS) - 1),
    groups=st.sampled_from(GROUPS),
    measures=st.lists(st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from(COLUMNS.names)), min_size=1, max_size=4),
    condition=st.none() | PREDICATES,
)
def test_aggregates_agree(
    tables: list[it.Table],
    duck: duckdb.DuckDBPyConnection,
    number: int,
    groups: list[str],
    measures: list[tuple[str, str]],
    condition: Both | None,
) -> None:
    aggs = {"n": ("count", "*"), **{f"m{i}": measure for i, measure in enumerate(measures)}}
    found = tables[number].aggregate(aggs, groups or None, where=condition.ours if condition else None)
    calls = [f"{f.replace('count_distinct', 'count')}({'DISTINCT ' if 'distinct' in f else ''}{column})" for f, column in measures]
    where = f"WHERE {condition.duck}" if condition else ""
    tail = f"GROUP BY {', '.join(groups)}" if groups else ""
    expected = duck.execute(f"SELECT {', '.join([*groups, 'count(*)', *calls])} FROM rows {where} {tail}").fetchall()
    assert plain_rows([tuple(row.values()) for row in found.to_pylist()]) == plain_rows(expected)


@pytest.mark.parametrize("number", range(len(PARTITIONS)))
@pytest.mark.parametrize("group", [None, "b", "y"])
def test_sums_and_averages_agree(tables: list[it.Table], duck: duckdb.DuckDBPyConnection, number: int, group: str | None) -> None:
    aggs: dict[str, tuple[str, str]] = {f"{f}_{c}": (f, c) for f in ("sum", "avg") for c in ("i", "h", "y", "f", "d")}
    where, both = ("l > -3 AND l < 6", "l > -3 AND l < 6 AND")
    aggs |= {"sum_l": ("sum", "l"), "avg_l": ("avg", "l")}
    found = tables[number].aggregate(aggs, [group] if group else None, where=where + " AND d < 1e29 AND f < 1e29").to_pylist()
    calls = [f"{f}({f'CAST({c} AS DOUBLE)' if c in 'fd' or f == 'avg' else c})" for f, c in aggs.values()]
    query = f"SELECT {', '.join([*([group] if group else []), *calls])} FROM rows WHERE {both} d < 1e29 AND f < 1e29"
    expected = duck.execute(query + (f" GROUP BY {group} ORDER BY {group} NULLS LAST" if group else "")).fetchall()
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        assert list(ours.values()) == [None if value is None else pytest.approx(value, rel=1e-12, nan_ok=True) for value in theirs]


@pytest.mark.parametrize(
    ("bucket", "call"),
    [
        (("histogram", "l", 100), "CAST(floor(CAST(l AS HUGEINT) / 100) AS HUGEINT) * 100"),
        (("histogram", "i", 0.5), "floor(i / 0.5) * 0.5"),
        (("histogram", "d", 2), "floor(d / 2) * 2"),
        (("date_histogram", "ts", "1h"), "time_bucket(INTERVAL 1 HOUR, ts, TIMESTAMP '1970-01-01')"),
        (("date_histogram", "nt", "7h"), "time_bucket(INTERVAL 7 HOUR, nt, TIMESTAMP '1970-01-01')"),
        (("date_histogram", "ts", "1d"), "date_trunc('day', ts)"),
        (("date_histogram", "nt", "1w"), "date_trunc('week', nt)"),
        (("date_histogram", "day", "1w"), "CAST(date_trunc('week', day) AS DATE)"),
        (("date_histogram", "ts", "month"), "date_trunc('month', ts)"),
        (("date_histogram", "day", "1 year"), "CAST(date_trunc('year', day) AS DATE)"),
        (("date_histogram", "nt", "1quarter"), "date_trunc('quarter', nt)"),
    ],
)
def test_histograms_agree(tables: list[it.Table], duck: duckdb.DuckDBPyConnection, bucket: tuple[str, str, Any], call: str) -> None:
    column = bucket[1]
    low = {"l": "l > -200 AND l < 200", "day": "day > DATE '1900-01-01'"}.get(column, f"{column} IS NULL OR {column} IS NOT NULL")
    if column in ("ts", "nt"):
        low = f"{column} > TIMESTAMP '1900-01-01 00:00:00'"
    query = f"SELECT {call} AS bucket, count(*), min(id) FROM rows WHERE {low} GROUP BY bucket"
    expected = plain_rows([(row[0], *row[1:]) for row in duck.execute(query).fetchall()])
    for table in tables:
        found = table.aggregate({"n": ("count", "*"), "first": ("min", "id")}, {"b": bucket}, where=low)
        assert plain_rows([tuple(row.values()) for row in found.to_pylist()]) == expected
        assert found.schema.field("b").type == {"l": pa.int64(), "i": pa.float64(), "d": pa.float64()}.get(
            column, COLUMNS.field(column).type
        )
