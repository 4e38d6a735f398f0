"""Min/max statistics: no value is outside its bounds, also after bounds are truncated or merged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from indextables.splits.format.bundle import ColumnStatistics
from indextables.splits.format.stats import StatsCollector, merge_statistics, truncated_maximum
from indextables.values import decode_value
from tests.support.splits import batch_of, write_logs, write_split

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("a\ud7ff\ue000\U0010ffff"), max_size=8)
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(width=64)),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
]
COLUMNS = st.one_of([st.tuples(st.just(kind), st.lists(st.none() | values, max_size=12)) for kind, values in VALUES])


def collect(kind: pa.DataType, parts: list[list[Any]], length: int = 3) -> ColumnStatistics:
    schema = pa.schema([("c", kind)])
    collector = StatsCollector(schema, length)
    for part in parts:
        collector.add(pa.RecordBatch.from_arrays([pa.array(part, kind)], schema=schema))
    return collector.result()["c"]


def assert_bounds(kind: pa.DataType, values: list[Any], found: ColumnStatistics) -> None:
    assert found.nulls == values.count(None)
    real = [value for value in values if value is not None]
    if not real or any(isinstance(value, float) and math.isnan(value) for value in real):
        assert found.min is None
        assert found.max is None
        return
    if found.min is not None:
        assert decode_value(found.min, kind) <= min(_rounded(value, kind) for value in real)
    if found.max is not None:
        assert decode_value(found.max, kind) >= max(_rounded(value, kind) for value in real)


def _rounded(value: Any, kind: pa.DataType) -> Any:
    """A float32 value after formatting: its shortest decimal form, parsed and rounded to float32."""
    return decode_value(str(pa.scalar(value, kind).cast(pa.string())), kind) if kind == pa.float32() else value


@given(COLUMNS, st.integers(0, 12), st.integers(1, 6))
def test_no_value_is_outside_its_bounds(column: tuple[pa.DataType, list[Any]], cut: int, length: int) -> None:
    kind, values = column
    assert_bounds(kind, values, collect(kind, [values[:cut], values[cut:]], length))


@given(COLUMNS, st.integers(0, 12), st.integers(1, 6))
def test_merged_bounds_hold_for_all_parts(column: tuple[pa.DataType, list[Any]], cut: int, length: int) -> None:
    kind, values = column
    parts = [part for part in (values[:cut], values[cut:]) if part]
    merged = merge_statistics(pa.schema([("c", kind)]), [(len(part), {"c": collect(kind, [part], length)}) for part in parts])
    assert_bounds(kind, values, merged["c"])


@given(TEXT, st.integers(1, 5))
def test_a_truncated_maximum_is_short_valid_and_not_smaller(value: str, length: int) -> None:
    cut = truncated_maximum(value, length)
    if cut is None:
        assert set(value[:length]) == {"\U0010ffff"}
    else:
        assert cut >= value
        assert len(cut) <= length
        cut.encode()


def test_truncated_maxima() -> None:
    assert truncated_maximum("abcd", 3) == "abd"
    assert truncated_maximum("abc", 3) == "abc"
    assert truncated_maximum("ab\U0010ffffd", 3) == "ac"
    assert truncated_maximum("ab\ud7ffd", 3) == "ab\ue000"
    assert truncated_maximum("\U0010ffff\U0010ffff", 1) is None


def test_merged_bounds_without_truncation_equal_those_of_all_rows() -> None:
    for kind, values in (
        (pa.int64(), [5, -3, None, 10, 9]),
        (pa.bool_(), [True, False, None, None, None]),
        (pa.float64(), [2.5, 10.0, None, -1.0, 9.0]),
    ):
        parts = [values[:2], values[2:3], values[3:]]
        merged = merge_statistics(pa.schema([("c", kind)]), [(len(part), {"c": collect(kind, [part])}) for part in parts])
        assert merged["c"] == collect(kind, [values])


def test_a_part_without_bounds_removes_the_merged_bounds() -> None:
    parts = [[1.0, 2.0], [math.nan]]
    merged = merge_statistics(pa.schema([("c", pa.float64())]), [(len(part), {"c": collect(pa.float64(), [part])}) for part in parts])
    assert merged["c"] == ColumnStatistics(0)


def test_the_statistics_of_a_split(tmp_path: Path) -> None:
    info = write_logs(tmp_path / "a.split", 40)
    assert info.min_values == {
        "ts": "2023-11-14T22:13:20.000000Z", "date": "2024-01-31", "level": "ERROR", "message": "Database connection row0x14",
        "status": "0", "latency": "0.0", "ok": "false",
    }  # fmt: skip
    assert info.max_values["latency"] == "9.75"
    assert info.max_values["ok"] == "true"


def test_statistics_of_partition_columns_are_never_truncated(tmp_path: Path) -> None:
    long = "p" * 100
    info = write_split(tmp_path / "a.split", batch_of({"p": pa.array([long]), "m": pa.array([long])}), partition_columns=("p",))
    assert info.min_values == {"p": long, "m": "p" * 32}
    assert info.max_values == {"p": long, "m": "p" * 31 + "q"}


def test_times_outside_the_logs_range_have_no_bounds(tmp_path: Path) -> None:
    info = write_split(
        tmp_path / "a.split",
        batch_of({"at": pa.array([0, 2**62], pa.timestamp("us")), "day": pa.array([-(2**31), 5], pa.date32()), "n": pa.array([1, 2])}),
    )
    assert info.min_values == {"n": "1"}
    assert info.max_values == {"n": "2"}
