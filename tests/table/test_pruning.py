"""Pruning never drops a file or manifest with a matching row, and drops those that cannot match."""

from __future__ import annotations

import math
import random
import uuid
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import indextables as it
from indextables.actions import STRINGS, Add, Bounds
from indextables.actions.live import LiveFiles
from indextables.actions.segments import Part, Segment
from indextables.predicates import parse_predicate
from indextables.predicates.expressions import order_key
from indextables.splits.format.stats import truncated_maximum
from indextables.state.checkpoints.avro.layout import bounds_of
from indextables.table.pruning import may_match_bounds, prune
from indextables.values import encode_value
from tests.support import avro_tables
from tests.support.outcomes_model import Stats, may_match
from tests.support.random_predicates import PREDICATES, SCHEMA, SEEDS, VALUES, Both, make_rows, table

PARTITIONS = ["b", "y"]


def add_of(stats: Stats, ours: bool) -> Add:
    return Add(
        path=f"splits/split-{uuid.uuid4()}.split" if ours else f"foreign-{uuid.uuid4()}.split",
        partition_values=dict(stats.partition_values),
        size=1,
        modification_time=1,
        data_change=True,
        min_values=dict(stats.min_values) or None,
        max_values=dict(stats.max_values) or None,
        num_records=stats.num_records,
    )


def live(adds: list[Add], dead: frozenset[int] = frozenset(), parts: int = 1) -> LiveFiles:
    """The adds in segments of similar size, with dead rows in the first segment and the last quarter outside of segments."""
    recent = adds[len(adds) - len(adds) // 4 :]
    old = adds[: len(adds) - len(recent)]
    size = max(1, -(-len(old) // parts))
    made = [Part(Segment([(add.path, add) for add in old[start : start + size]])) for start in range(0, len(old), size)]
    if made and dead:
        made[0] = made[0].without(dead)
    return LiveFiles(tuple(made), {add.path: add for add in recent})


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
        return low[:most], truncated_maximum(high, most) if ours else high[:most]
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


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=SEEDS, condition=PREDICATES, most=st.sampled_from([1, 2, 32]), ours=st.booleans(), dropped=DROPPED)
def test_a_file_with_a_matching_row_is_never_pruned(seed: int, condition: Both, most: int, ours: bool, dropped: set[str]) -> None:
    predicate = parse_predicate(condition.ours, SCHEMA)
    rows = make_rows(seed, 24)
    found_rows = dict(zip(map(id, rows), predicate.mask(table(rows)).to_pylist(), strict=True))
    files = split(rows)
    known = [stats_of(file, most if ours else 32, ours, dropped) for file in files]
    kept = prune(live([add_of(stats, ours) for stats in known]), predicate, SCHEMA, PARTITIONS).remaining
    for file, stats, may in zip(files, known, kept, strict=True):
        found = any(found_rows[id(row)] for row in file)
        assert may or not found, (condition.ours, stats)
        if predicate.columns <= set(PARTITIONS) and condition.ours.count("b") + condition.ours.count("y") <= 1:
            assert may == found, (condition.ours, stats)


JUNK = ["x", "", "nan", "-inf", "10", " 7 ", "1_0", "9" * 30, "9" * 5000, "1.5", "1e39", "1e999", "-0", "True", "2024-02-30", "20240102"]
JUNK += [
    "0000-01-01",
    "2024-01-02",
    "2024-01-02 12:00",
    "2024-01-02T12:00:00.5Z",
    "2024-01-02T12:00:00+02:00",
    "1612010112345",
    "\U0010ffff" * 33,
]


def random_stats(seed: int, count: int) -> list[tuple[Stats, bool]]:
    """Random statistics, valid and invalid, in usual and unusual notation."""
    choose = random.Random(seed)

    def text(name: str) -> str:
        return choose.choice(JUNK) if choose.random() < 0.15 else encode_value(choose.choice(VALUES[name]), SCHEMA.field(name).type)  # type: ignore[arg-type]

    def some(names: list[str]) -> dict[str, str]:
        return {name: text(name) for name in names if choose.random() < 0.75}

    others = [name for name in SCHEMA.names if name not in PARTITIONS]
    return [
        (Stats(some(PARTITIONS), some(others), some(others), choose.choice([None, 0, 1, 5])), choose.random() < 0.5) for _ in range(count)
    ]


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=SEEDS, condition=PREDICATES, parts=st.integers(1, 3), dead=st.frozensets(st.integers(0, 4)))
def test_pruning_all_files_at_once_equals_pruning_each_file(seed: int, condition: Both, parts: int, dead: frozenset[int]) -> None:
    """STA-03, against the model in tests/support/outcomes_model.py; the second run uses what the first one cached."""
    predicate = parse_predicate(condition.ours, SCHEMA)
    given_files = random_stats(seed, 24)
    adds = [add_of(stats, ours) for stats, ours in given_files]
    expected = [may_match(predicate, stats, SCHEMA, PARTITIONS, ours) for stats, ours in given_files]
    by_partition = [may_match(predicate, Stats(stats.partition_values), SCHEMA, PARTITIONS, ours) for stats, ours in given_files]
    alive = [row not in dead for row in range(len(adds))]
    files = live(adds, dead, parts)
    for _ in range(2):
        found = prune(files, predicate, SCHEMA, PARTITIONS)
        assert found.remaining.tolist() == [may for may, lives in zip(expected, alive, strict=True) if lives]
        assert found.in_partitions.tolist() == [may for may, lives in zip(by_partition, alive, strict=True) if lives]
        assert files.take(np.flatnonzero(found.remaining)).column("path").to_pylist() == [
            add.path for add, may, lives in zip(adds, expected, alive, strict=True) if may and lives
        ]


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
def test_a_file_that_cannot_match_is_pruned(condition: str) -> None:
    assert not may(condition, SMALL)


@pytest.mark.parametrize(
    "condition",
    ["l = 10", "l <> 10", "l IS NULL", "l IN (15)", "l NOT IN (15)", "s LIKE '%x'", "s LIKE 'cb_'", "s LIKE 'c%'", "s NOT LIKE 'ca%'"],
)
def test_a_file_whose_bounds_include_the_value_is_kept(condition: str) -> None:
    assert may(condition, SMALL)


@pytest.mark.parametrize(
    "condition",
    ["NOT l > 15", "(l > 20) IS NULL", "d <=> NULL", "i = 5", "b", "y IS NULL", "day = '2024-01-15'", "l < d OR l = 20", "TRUE"],
)
def test_a_file_that_may_match_is_kept(condition: str) -> None:
    assert may(condition, SMALL)


def may(condition: str, stats: Stats, trusted: bool = True) -> bool:
    return bool(prune(live([add_of(stats, trusted)]), parse_predicate(condition, SCHEMA), SCHEMA, PARTITIONS).remaining.all())


def test_a_file_without_rows_matches_nothing() -> None:
    assert not may("TRUE", Stats(num_records=0))


def test_one_sided_statistics_prune_on_their_side() -> None:
    assert not may("l < 5", Stats(min_values={"l": "5"}))
    assert may("l > 5", Stats(min_values={"l": "5"}))
    assert not may("l > 5", Stats(max_values={"l": "5"}))


def test_foreign_string_maxima_of_32_characters_are_ignored() -> None:
    cut = Stats(min_values={"s": "a"}, max_values={"s": "m" * 32})
    assert may("s > 'z'", cut, trusted=False)
    assert not may("s > 'z'", cut)
    assert not may("s > 'z'", Stats(min_values={"s": "a"}, max_values={"s": "m" * 31}), trusted=False)


def test_foreign_string_bounds_may_be_in_utf16_order() -> None:
    assert may("s = '\U0001d11e'", Stats(max_values={"s": "\uffee"}), trusted=False)
    assert may("s = '\uffee'", Stats(min_values={"s": "\U0001d11e"}), trusted=False)
    assert not may("s = '\U0001d11e'", Stats(max_values={"s": "\uffee"}))
    assert may_bounds("s = '\U0001d11e'", {"s": ("a", "\uffee")}, by_type=False)


def test_foreign_float_maxima_may_ignore_nan() -> None:
    assert may("d > 5", Stats(min_values={"d": "1.0"}, max_values={"d": "2.0"}), trusted=False)
    assert not may("d < 1", Stats(min_values={"d": "1.0"}, max_values={"d": "2.0"}), trusted=False)


@pytest.mark.parametrize(
    ("low", "high"),
    [("x", "y"), ("", ""), ("10", "9"), ("9" * 5000, "9" * 5000), ("1.5", "2.5")],
    ids=["words", "empty", "order", "huge", "floats"],
)
def test_invalid_statistics_are_ignored(low: str, high: str) -> None:
    assert may("l = 77", Stats(min_values={"l": low}, max_values={"l": high}))


def test_a_bound_of_nan_is_ignored() -> None:
    assert may("d = 77", Stats(min_values={"d": "nan"}, max_values={"d": "nan"}))


def test_a_timestamp_bound_in_milliseconds_is_ignored() -> None:
    assert may("nt > '2020-01-01'", Stats(max_values={"nt": "1612010112345"}))


def test_an_undecodable_partition_value_may_be_any_value() -> None:
    assert may("y = 1", Stats({"y": "x"}))
    assert may("y IS NULL", Stats({"y": "x"}))


def test_float32_statistics_are_compared_as_float32() -> None:
    point = Stats(min_values={"f": "0.1"}, max_values={"f": "0.1"})
    assert may("f > 0.1", point)  # the float32 nearest to 0.1 is larger
    assert not may("f = 0.1", point)


def test_a_column_that_changed_its_type_prunes_nothing() -> None:
    later = pa.schema([pa.field("l", pa.string())])
    files = live([add_of(Stats(min_values={"l": "5"}), True)])
    assert prune(files, parse_predicate("l = 1", SCHEMA), later, []).remaining.tolist() == [True]
    assert may_match_bounds(parse_predicate("l = 1", SCHEMA), {"l": Bounds("5", "5", True, True)}, later, ["l"])


def test_pruning_no_files() -> None:
    assert prune(LiveFiles(), parse_predicate("l = 1", SCHEMA), SCHEMA, []).remaining.tolist() == []


@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())])], ids=str)
def test_columns_whose_type_has_no_order_prune_nothing(kind: pa.DataType) -> None:
    schema = pa.schema([("c", kind), ("l", pa.int64())])
    adds = [add_of(Stats({"c": "1"}, {"c": "5", "l": "5"}, {"c": "5", "l": "5"}), True)]
    assert prune(live(adds), parse_predicate("l = 5", schema), schema, ["c"]).remaining.tolist() == [True]


# ---- bounds of manifests -----------------------------------------------------------------------------------------------------------


def may_bounds(condition: str, bounds: dict[str, tuple[str | None, str | None]] | None, by_type: bool = True) -> bool:
    partitions = ["s", "y", "l", "d", "b", "day", "nt"]
    given = {name: Bounds(low, high, True, by_type) for name, (low, high) in (bounds or {}).items()}
    return may_match_bounds(parse_predicate(condition, SCHEMA), given, SCHEMA, partitions)


def written_bounds(values: list[str | None], kind: pa.DataType) -> tuple[str | None, str | None]:
    """The bounds that our writer gives to files with these values of a partition column."""
    maps = pa.array([{} if value is None else {"c": value} for value in values], STRINGS)
    found = bounds_of(pa.table({"partition_values": maps}), {"c": kind}).get("c")
    return (None, None) if found is None else (found.min, found.max)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=SEEDS, condition=PREDICATES, dropped=DROPPED)
def test_a_manifest_with_a_matching_file_is_never_pruned(seed: int, condition: Both, dropped: set[str]) -> None:
    """AVR-13, STA-04: bounds as our writer computes them, for manifests of three files, some with null partition values."""
    predicate = parse_predicate(condition.ours, SCHEMA)
    rows = make_rows(seed, 24)
    matching = predicate.mask(table(rows)).to_pylist()
    for start in range(0, len(rows), 3):
        manifest = rows[start : start + 3]
        bounds: dict[str, tuple[str | None, str | None]] = {}
        for name in sorted(predicate.columns):
            kind = SCHEMA.field(name).type
            low, high = written_bounds([None if r[name] is None else encode_value(r[name], kind) for r in manifest], kind)
            bounds[name] = (None if name + "<" in dropped else low, None if name + ">" in dropped else high)
        given = {name: Bounds(*bounds[name], any(row[name] is None for row in manifest), True) for name in bounds}
        may = may_match_bounds(predicate, given, SCHEMA, SCHEMA.names)
        assert may or not any(matching[start : start + 3]), (condition.ours, bounds)


def test_is_null_does_not_read_manifests_without_nulls(tmp_path: Path) -> None:
    path = avro_tables.start(tmp_path / "t", **{"state.entriesPerManifest": "2"})
    avro_tables.commit(path, *(avro_tables.file(f"f{p}", p) for p in (None, 1, 2, 3, 4, 5)))
    it.open(path).checkpoint()
    opened = it.open(path)
    for where, read in (("p IS NULL", 1), ("p IS NULL AND id = 1", 1), ("p IS NULL OR p = 5", 2), ("p IS NOT NULL", 3)):
        assert (opened.explain(where).manifests_total, opened.explain(where).manifests_read) == (3, read), where
    assert opened.files("p IS NULL").column("path").to_pylist() == ["fNone"]


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("y = 9", {"y": ("10", "100")}),
        ("y > 100 AND l = 1", {"y": ("9", "100")}),
        ("day < '2024-01-01'", {"day": ("2024-01-01", "2024-01-31")}),
        ("s = 'zz' OR s LIKE 'x%'", {"s": ("a", "c")}),
        ("y IN (1, 2) AND d > 5", {"y": ("9", None)}),
        ("b", {"b": ("false", "false")}),
    ],
)
def test_bounds_prune_manifests(condition: str, bounds: dict[str, tuple[str | None, str | None]]) -> None:
    """AVR-13: bounds are compared by type, 10 is above 9."""
    assert not may_bounds(condition, bounds)
    assert may_bounds(condition, None)
    assert may_bounds(condition, {})
    assert may_bounds(condition, dict.fromkeys(bounds, (None, None)))


@pytest.mark.parametrize("condition", ["y IS NULL", "NOT (y > 50) OR y IS NULL", "(y = 1) IS NULL", "y <=> NULL", "l = 1", "i = 7"])
def test_bounds_do_not_exclude_nulls_or_other_columns(condition: str) -> None:
    assert may_bounds(condition, {"y": ("60", "100"), "i": ("1", "2")})


def test_bounds_in_string_order_prune_only_if_the_type_has_that_order() -> None:
    """For 2, 10 and 30, another writer's bounds are 10 and 30."""
    assert may_bounds("y = 2", {"y": ("10", "30")}, by_type=False)
    assert not may_bounds("y = 2", {"y": ("10", "30")})
    assert not may_bounds("y = 2", {"y": ("10", "10")}, by_type=False)
    assert not may_bounds("s = 'z'", {"s": ("a", "c")}, by_type=False)
    assert not may_bounds("day = '2024-02-01'", {"day": ("2024-01-01", "2024-01-31")}, by_type=False)
    assert may_bounds("nt = '2024-02-01'", {"nt": ("2024-01-01", "2024-01-31")}, by_type=False)


def test_bounds_follow_the_order_of_the_type() -> None:
    assert written_bounds(["9", "10", None, "-1"], pa.int8()) == ("-1", "10")
    assert written_bounds(["1e3", "99.5"], pa.float64()) == ("99.5", "1e3")
    assert written_bounds(["b", "a", "\U0001d11e", "\ue000"], pa.string()) == ("a", "\U0001d11e")
    assert written_bounds(["2024-01-02", str(date(2023, 12, 31))], pa.date32()) == ("2023-12-31", "2024-01-02")
    for nothing in (["1", "x"], [None], []):
        assert written_bounds(nothing, pa.float64()) == (None, None)
