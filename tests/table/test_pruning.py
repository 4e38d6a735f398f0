from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indextables.predicates import parse_predicate
from indextables.predicates.expressions import order_key
from indextables.table.pruning import decided_by_partition, may_match
from indextables.values import encode_value
from tests.support.random_predicates import PREDICATES, SCHEMA, SEEDS, Both, make_rows, table

PARTITIONS = ["b", "y"]


@dataclass(frozen=True)
class Stats:
    partition_values: Mapping[str, str] = field(default_factory=dict)
    min_values: Mapping[str, str] = field(default_factory=dict)
    max_values: Mapping[str, str] = field(default_factory=dict)
    num_records: int | None = None


def upper(text: str, most: int) -> str | None:
    """A string of at most `most` characters that is no smaller, as our writer makes it."""
    if len(text) <= most:
        return text
    last = ord(text[most - 1]) + 1
    return None if last > 0x10FFFF else text[: most - 1] + chr(0xE000 if last == 0xD800 else last)


def bounds(name: str, values: list[Any], most: int, ours: bool) -> tuple[str | None, str | None]:
    kind = SCHEMA.field(name).type
    if pa.types.is_floating(kind):
        if ours and any(math.isnan(value) for value in values):
            return None, None
        values = [value for value in values if not math.isnan(value)]
    if not values:
        return None, None
    low, high = min(values, key=order_key), max(values, key=order_key)
    if pa.types.is_string(kind):
        return low[:most], upper(high, most) if ours else high[:most]
    return encode_value(low, kind), encode_value(high, kind)


def stats_of(rows: list[dict[str, Any]], most: int, ours: bool, dropped: set[str]) -> Stats:
    partition = {n: encode_value(rows[0][n], SCHEMA.field(n).type) for n in PARTITIONS if rows[0][n] is not None}
    both = {n: bounds(n, [row[n] for row in rows if row[n] is not None], most, ours) for n in SCHEMA.names if n not in PARTITIONS}
    low = {n: pair[0] for n, pair in both.items() if pair[0] is not None and n + "<" not in dropped}
    high = {n: pair[1] for n, pair in both.items() if pair[1] is not None and n + ">" not in dropped}
    return Stats(partition, low, high, len(rows))


def split(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Files of at most two rows that share their partition."""
    files: dict[Any, list[list[dict[str, Any]]]] = {}
    for row in rows:
        group = files.setdefault(tuple(row[n] for n in PARTITIONS), [[]])
        if len(group[-1]) == 2:
            group.append([])
        group[-1].append(row)
    return [rows for group in files.values() for rows in group]


DROPPED = st.sets(st.sampled_from([name + side for name in SCHEMA.names for side in "<>"]), max_size=4)


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=SEEDS, condition=PREDICATES, most=st.sampled_from([1, 2, 32]), ours=st.booleans(), dropped=DROPPED)
def test_a_file_with_a_matching_row_is_never_pruned(seed: int, condition: Both, most: int, ours: bool, dropped: set[str]) -> None:
    predicate = parse_predicate(condition.ours, SCHEMA)
    rows = make_rows(seed, 24)
    found_rows = dict(zip(map(id, rows), predicate.mask(table(rows)).to_pylist(), strict=True))
    for file in split(rows):
        stats = stats_of(file, most if ours else 32, ours, dropped)
        found = any(found_rows[id(row)] for row in file)
        may = may_match(predicate, stats, SCHEMA, PARTITIONS, trusted_bounds=ours)
        assert may or not found, (condition.ours, stats)
        if decided_by_partition(predicate, PARTITIONS) and condition.ours.count("b") + condition.ours.count("y") <= 1:
            assert may == found, (condition.ours, stats)


SMALL = Stats(
    {"b": "true"}, {"l": "10", "s": "ca", "day": "2024-01-01", "d": "0.5"}, {"l": "20", "s": "cz", "day": "2024-01-31", "d": "0.5"}
)


@pytest.mark.parametrize(
    "condition",
    [
        "l > 20",
        "l < 10",
        "l = 9",
        "l <=> 21",
        "l IN (1, 30, NULL)",
        "l BETWEEN 21 AND 30",
        "NOT l BETWEEN 0 AND 30",
        "NOT (l >= 10)",
        "l = 15.5",
        "l > 1e30",
        "l > 15 AND s < 'c'",
        "l > 20 OR s < 'c'",
        "s LIKE 'd%'",
        "s LIKE 'b_'",
        "s NOT LIKE 'c%'",
        "day < '2024-01-01'",
        "day >= TIMESTAMP '2024-01-31 00:00:01'",
        "d <> 0.5",
        "d NOT IN (0.5, 1)",
        "d > l",
        "NOT b",
        "b IS NULL",
        "b = FALSE",
        "y IS NOT NULL",
        "y = 1",
        "y NOT IN (1)",
        "l NOT IN (15, NULL)",
        "NULL",
        "FALSE",
    ],
)
def test_prunes(condition: str) -> None:
    assert not may_match(parse_predicate(condition, SCHEMA), SMALL, SCHEMA, PARTITIONS)


@pytest.mark.parametrize(
    "condition",
    ["l = 10", "l <> 10", "l IS NULL", "l IN (15)", "l NOT IN (15)", "s LIKE '%x'", "s LIKE 'cb_'", "s LIKE 'c%'", "s NOT LIKE 'ca%'"],
)
def test_keeps_what_lies_within(condition: str) -> None:
    assert may(condition, SMALL)


@pytest.mark.parametrize(
    "condition",
    ["NOT l > 15", "(l > 20) IS NULL", "d <=> NULL", "i = 5", "b", "y IS NULL", "day = '2024-01-15'", "l < d OR l = 20", "TRUE"],
)
def test_keeps(condition: str) -> None:
    assert may_match(parse_predicate(condition, SCHEMA), SMALL, SCHEMA, PARTITIONS)


def may(condition: str, stats: Stats, trusted: bool = True) -> bool:
    return may_match(parse_predicate(condition, SCHEMA), stats, SCHEMA, PARTITIONS, trusted_bounds=trusted)


def test_a_file_without_rows_matches_nothing() -> None:
    assert not may("TRUE", Stats(num_records=0))


def test_one_sided_statistics_prune_on_their_side() -> None:
    assert not may("l < 5", Stats(min_values={"l": "5"}))
    assert may("l > 5", Stats(min_values={"l": "5"}))
    assert not may("l > 5", Stats(max_values={"l": "5"}))


def test_foreign_string_maxima_of_32_characters_are_no_bounds() -> None:
    cut = Stats(min_values={"s": "a"}, max_values={"s": "m" * 32})
    assert may("s > 'z'", cut, trusted=False)
    assert not may("s > 'z'", cut)
    assert not may("s > 'z'", Stats(min_values={"s": "a"}, max_values={"s": "m" * 31}), trusted=False)


def test_foreign_float_maxima_may_leave_nan_out() -> None:
    assert may("d > 5", Stats(min_values={"d": "1.0"}, max_values={"d": "2.0"}), trusted=False)
    assert not may("d < 1", Stats(min_values={"d": "1.0"}, max_values={"d": "2.0"}), trusted=False)


@pytest.mark.parametrize(
    ("low", "high"),
    [("x", "y"), ("", ""), ("10", "9"), ("9" * 5000, "9" * 5000), ("1.5", "2.5")],
    ids=["words", "empty", "order", "huge", "floats"],
)
def test_statistics_that_make_no_sense_are_ignored(low: str, high: str) -> None:
    assert may("l = 77", Stats(min_values={"l": low}, max_values={"l": high}))


def test_nan_and_half_characters_are_no_bounds() -> None:
    assert may("d = 77", Stats(min_values={"d": "nan"}, max_values={"d": "nan"}))
    assert may("s = 'a'", Stats(min_values={"s": "\udc00"}, max_values={"s": "\udc01"}))


def test_a_partition_value_that_does_not_decode_may_be_anything() -> None:
    assert may("y = 1", Stats({"y": "x"}))
    assert may("y IS NULL", Stats({"y": "x"}))


def test_single_precision_statistics_are_as_wide_as_the_column() -> None:
    point = Stats(min_values={"f": "0.1"}, max_values={"f": "0.1"})
    assert may("f > 0.1", point)  # the float32 nearest to 0.1 is larger
    assert not may("f = 0.1", point)


def test_a_column_that_changed_its_type_prunes_nothing() -> None:
    later = pa.schema([pa.field("l", pa.string())])
    assert may_match(parse_predicate("l = 1", SCHEMA), Stats(min_values={"l": "5"}), later, [])


def test_decided_by_partition() -> None:
    assert decided_by_partition(parse_predicate("b AND y = 1", SCHEMA), PARTITIONS)
    assert not decided_by_partition(parse_predicate("b AND l = 1", SCHEMA), PARTITIONS)
