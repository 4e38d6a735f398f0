"""Masks against DuckDB, which shares Spark's rules: NaN is equal to itself and the largest, strings by bytes, three-valued logic."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from indextables.predicates import parse_predicate
from tests.support.random_predicates import PREDICATES, SCHEMA, SEEDS, Both, make_rows, table


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def answers(duck: duckdb.DuckDBPyConnection, rows: pa.Table, condition: str) -> list[bool]:
    naive = rows.set_column(rows.schema.get_field_index("ts"), "ts", rows["ts"].cast(pa.int64()).cast(pa.timestamp("us")))
    duck.register("rows", naive)
    return [found for (found,) in duck.execute(f"SELECT coalesce(({condition}), false) FROM rows").fetchall()]


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=SEEDS, condition=PREDICATES)
def test_masks_and_single_rows_agree_with_duckdb(duck: duckdb.DuckDBPyConnection, seed: int, condition: Both) -> None:
    rows = make_rows(seed, 40)
    data = table(rows)
    predicate = parse_predicate(condition.ours, SCHEMA)
    expected = answers(duck, data, condition.duck)
    assert predicate.mask(data).to_pylist() == expected, condition
    assert [predicate.matches(row) for row in rows] == expected, condition
    for batch in data.to_batches():
        assert predicate.filter(batch).num_rows == sum(expected)
