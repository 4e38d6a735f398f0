"""Predicates on Arrow data: comparisons, LIKE, times, limits of nesting, and the same result on every form of the values."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from indextables.limits import PREDICATE_DEPTH
from indextables.predicates import parse_predicate
from indextables.predicates.expressions import Always, And, Compare, In
from indextables.schema import LOCAL_TIMESTAMP, UTC_TIMESTAMP

SCHEMA = pa.schema(
    {"s": pa.string(), "y": pa.int8(), "n": pa.int64(), "f": pa.float32(), "x": pa.float64(), "ok": pa.bool_()}
    | {"day": pa.date32(), "ts": UTC_TIMESTAMP, "nt": LOCAL_TIMESTAMP, "date": pa.date32(), "odd `name": pa.int64(), "Case": pa.int64()}
)


def chosen(text: str, name: str, values: list[object]) -> list[object]:
    """The values for which the predicate is true, by mask and by matches, which must agree."""
    predicate = parse_predicate(text, SCHEMA)
    column = pa.table({name: pa.array(values, SCHEMA.field(name).type)})
    mask = predicate.mask(column).to_pylist()
    assert mask == [predicate.matches({name: value}) for value in column[name].to_pylist()]
    return [value for value, found in zip(values, mask, strict=True) if found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y < 1000", [-128, 0, 1, 2, 127]),
        ("y > -1000", [-128, 0, 1, 2, 127]),
        ("y = 1000", []),
        ("y <> 1000", [-128, 0, 1, 2, 127]),
        ("y > 1e400", []),
        ("y < 1e999999999", [-128, 0, 1, 2, 127]),
        ("y >= -1e999999999", [-128, 0, 1, 2, 127]),
        ("y > 1e-999999999", [1, 2, 127]),
        ("y > 1.5", [2, 127]),
        ("y >= 1.5", [2, 127]),
        ("y < 1.5", [-128, 0, 1]),
        ("1.5 >= y", [-128, 0, 1]),
        ("y = 1.0", [1]),
        ("y = 1.5", []),
        ("NOT y = 1.5", [-128, 0, 1, 2, 127]),
        ("y IN (1, 1.5, 1e400, '2')", [1, 2]),
        ("y NOT IN (1, 1.5)", [-128, 0, 2, 127]),
        ("y NOT IN (1, NULL)", []),
        ("y BETWEEN -0.5 AND 1.5", [0, 1]),
        ("NOT (y BETWEEN NULL AND 1)", [2, 127]),
        ("y <=> NULL", [None]),
        ("NOT y <=> 1", [-128, 0, 2, 127, None]),
        ("(y = 1) IS NULL", [None]),
        ("(y = 1) IS NOT TRUE", [-128, 0, 2, 127, None]),
        ("y = 1 OR NULL", [1]),
        ("y == 1", [1]),
        ("y != '1'", [-128, 0, 2, 127]),
    ],
)
def test_integers_compare_exactly(text: str, expected: list[object]) -> None:
    assert chosen(text, "y", [-128, 0, 1, 2, 127, None]) == expected


def test_longs_beyond_the_precision_of_doubles() -> None:
    assert chosen("n = 9007199254740993", "n", [2**53, 2**53 + 1, 2**63 - 1]) == [2**53 + 1]
    assert chosen("n >= 9223372036854775807.5", "n", [2**63 - 1]) == []
    assert chosen("n < 9223372036854775808", "n", [2**63 - 1, None]) == [2**63 - 1]


def test_literals_beyond_the_range_of_doubles_are_below_infinity() -> None:
    values = [-math.inf, -1.0, 1e308, math.inf]
    assert chosen("x > 1e400", "x", values) == [math.inf]
    assert chosen("x <= 1e400", "x", values) == [-math.inf, -1.0, 1e308]
    assert chosen("x < -1e400", "x", values) == [-math.inf]
    assert chosen("x >= -1e400", "x", values) == [-1.0, 1e308, math.inf]
    assert chosen("x = 1e400", "x", values) == []


def test_single_precision_is_compared_as_double() -> None:
    assert chosen("f = 0.1", "f", [0.1]) == []
    assert chosen("f > 0.1", "f", [0.1]) == [0.1]
    assert chosen("f = 0.5", "f", [0.5]) == [0.5]


def test_strings_compare_by_their_bytes() -> None:
    assert chosen("s > 'z'", "s", ["Z", "z", "é", "𝄞", "\uffff"]) == ["é", "𝄞", "\uffff"]
    assert chosen("s > '\uffff'", "s", ["𝄞", "\ufffe"]) == ["𝄞"]  # UTF-16 would order them the other way
    assert chosen("s = 'it''s'", "s", ["it's"]) == ["it's"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"'100\%'", ["100%"]),
        (r"'100\\%'", [r"100\x"]),
        (r"'%\\_'", [r"100\x"]),
        ("'100!%' ESCAPE '!'", ["100%"]),
        ("'a_c'", ["a\nc", "aéc"]),
        ("'a%c'", ["a\nc", "aéc", "a\n\n.c"]),
        ("'.%'", []),
        ("'%.%'", ["a\n\n.c"]),
        ("'%'", ["100%", "100x", r"100\x", "a\nc", "aéc", "a\n\n.c", ""]),
        ("''", [""]),
    ],
)
def test_like(pattern: str, expected: list[object]) -> None:
    assert chosen(f"s LIKE {pattern}", "s", ["100%", "100x", r"100\x", "a\nc", "aéc", "a\n\n.c", "", None]) == expected


def test_many_wildcards_are_not_exponential() -> None:
    assert chosen("s LIKE '" + "%a" * 100 + "%b'", "s", ["a" * 5_000]) == []


def test_temporal_literals() -> None:
    noon, night = datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    assert chosen("ts = '2024-01-01'", "ts", [noon, night]) == [night]
    assert chosen("ts = TIMESTAMP '2024-01-01 14:00:00+02:00'", "ts", [noon, night]) == [noon]
    assert chosen("ts = '2024-01-01T12:00Z'", "ts", [noon, night]) == [noon]
    assert chosen("ts > DATE '2024-01-01'", "ts", [noon, night]) == [noon]
    assert chosen("nt = '2024-01-01 12:00:00'", "nt", [datetime(2024, 1, 1, 12)]) == [datetime(2024, 1, 1, 12)]
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    assert chosen("day >= TIMESTAMP '2024-01-01 00:00:01'", "day", days) == days[1:]
    assert chosen("day <= TIMESTAMP '2024-01-01 00:00:00'", "day", days) == days[:1]
    assert chosen("date = date '2024-1-2'", "date", days) == days[1:]  # a column named like the keyword


def test_quoted_names_and_names_in_another_case() -> None:
    assert parse_predicate('`odd ``name` = 1 AND "odd `name" = 1 AND "n" = 1', SCHEMA).columns == {"odd `name", "n"}
    assert parse_predicate("case = 1", SCHEMA).expression == Compare("=", "Case", 1)


def test_the_bound_tree_is_typed_and_flat() -> None:
    bound = parse_predicate("s = 'a' AND y > 2.5 AND y < 1e9 AND y < 1e19 AND day IN ('2024-01-02', DATE '2024-01-01', NULL)", SCHEMA)
    days = (date(2024, 1, 1), date(2024, 1, 2))
    leaves = (Compare("=", "s", "a"), Compare(">", "y", 2), Compare("<", "y", 10**9), Always("y", True), In("day", days, True))
    assert bound.expression == And(leaves)


def test_long_lists_and_chains_do_not_count_as_nesting() -> None:
    numbers = ", ".join(str(n) for n in range(15_000))
    assert chosen(f"n IN ({numbers})", "n", [-1, 14_999, 15_000]) == [14_999]
    assert chosen(" OR ".join(f"n = {n}" for n in range(2_000)), "n", [-1, 1_999]) == [1_999]


@pytest.mark.parametrize(("before", "after"), [("(", ")"), ("NOT ", ""), ("(", ") IS NOT NULL"), ("ok AND (ok OR ", ")")])
def test_the_deepest_predicate_works_everywhere(before: str, after: str) -> None:
    predicate = parse_predicate(before * PREDICATE_DEPTH + "ok" + after * PREDICATE_DEPTH, SCHEMA)
    again = pickle.loads(pickle.dumps(predicate))
    assert (again, hash(again), repr(again)) == (predicate, hash(predicate), repr(predicate))
    assert again.mask(pa.table({"ok": [True]})).to_pylist() == [again.matches({"ok": True})] == [True]


def test_a_pickle_contains_only_used_columns() -> None:
    predicate = parse_predicate("s LIKE 'a%_' AND day > '2024-01-01' AND f IN (1, NULL)", SCHEMA, allowed=["s", "day", "f"])
    again = pickle.loads(pickle.dumps(predicate))
    assert again.expression == predicate.expression
    assert set(again.schema.names) == again.columns == {"s", "day", "f"}


def test_tables_batches_and_other_types_of_the_same_values() -> None:
    predicate = parse_predicate("s = 'a'", SCHEMA)
    column = pa.array(["a", None, "b"])
    batch = pa.record_batch({"s": column})
    assert isinstance(predicate.mask(batch), pa.BooleanArray)
    assert isinstance(predicate.mask(pa.table({"s": column})), pa.ChunkedArray)
    assert isinstance(parse_predicate("TRUE", SCHEMA).mask(pa.table({"s": column})), pa.ChunkedArray)
    assert predicate.filter(batch).to_pylist() == [{"s": "a"}]
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert predicate.mask(pa.table({"s": column.cast(kind)})).to_pylist() == [True, False, False]
    assert predicate.mask(pa.table({"s": pa.chunked_array([], pa.string())})).to_pylist() == []


def test_negative_zero_equals_zero_in_comparisons_and_in_later_lists() -> None:
    zeros = pa.table({"x": pa.array([0.0, -0.0])})
    for text in ("x = -0.0", "x IN (0, 2)", "x IN (-0.0, 2)", "x >= 0"):
        assert parse_predicate(text, SCHEMA).mask(zeros).to_pylist() == [True, True]


def test_missing_columns_of_a_row_are_null() -> None:
    assert parse_predicate("n IS NULL", SCHEMA).matches({})
    assert not parse_predicate("n = 1 OR NOT n = 1", SCHEMA).matches({})
    assert parse_predicate("ts = '2024-01-01'", SCHEMA).matches({"ts": datetime(2024, 1, 1)})


NO_PANDAS = """
import sys, pyarrow as pa
from indextables.predicates import parse_predicate
kinds = {"s": pa.string(), "n": pa.int8(), "f": pa.float32(), "b": pa.bool_(), "d": pa.date32(), "t": pa.timestamp("us", tz="UTC")}
batch = pa.RecordBatch.from_arrays([pa.nulls(3, kind) for kind in kinds.values()], names=list(kinds))
text = "b OR s LIKE 'a%_' OR n IN (1) OR f = 'nan' OR f > 1 OR s <=> NULL OR d > '2024-01-01' OR t = '2024-01-01' OR b = TRUE OR FALSE"
predicate = parse_predicate(text, pa.schema(kinds))
assert predicate.filter(batch).num_rows == 3 and predicate.matches({})
sys.exit("pandas" in sys.modules)
"""


def test_evaluation_does_not_import_pandas() -> None:
    assert subprocess.run([sys.executable, "-c", NO_PANDAS], check=False).returncode == 0
