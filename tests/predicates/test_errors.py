"""Errors of predicates: the message and the position."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_CHARACTERS, PREDICATE_DEPTH
from indextables.predicates import parse_predicate
from indextables.schema import LOCAL_TIMESTAMP, UTC_TIMESTAMP

SCHEMA = pa.schema(
    {
        "level": pa.string(),
        "n": pa.int64(),
        "x": pa.float64(),
        "ok": pa.bool_(),
        "day": pa.date32(),
        "ts": UTC_TIMESTAMP,
        "nt": LOCAL_TIMESTAMP,
        "Name": pa.string(),
        "NAME": pa.string(),
        "tags": pa.list_(pa.string()),
    }
)

REFUSED = [
    # syntax
    ("", 0, "the predicate is empty"),
    ("  \n", 0, "the predicate is empty"),
    ("n =", 3, "expected a column or a literal, found the end"),
    ("n = 1 2", 6, "expected AND, OR or the end, found 2"),
    ("n = 1 AND", 9, "expected a column, a literal, NOT or '(', found the end"),
    ("AND n = 1", 0, "found AND"),
    ("(n = 1", 6, "expected AND, OR or ')', found the end"),
    ("n = 1)", 5, "expected AND, OR or the end, found )"),
    ("n = (1", 6, "expected AND, OR or ')', found the end"),
    ("n = 1 = 1", 6, "expected AND, OR or the end, found ="),
    ("n IN ()", 6, "expected a literal, found )"),
    ("n IN 1", 5, "expected '(' after IN, found 1"),
    ("n IN (1 2)", 8, "expected ',' or ')' in the list of IN, found 2"),
    ("n IN (x)", 6, "the list of IN takes literals, found column 'x'"),
    ("n IN (SELECT n FROM t)", 6, "there is no column 'SELECT'"),
    ("n BETWEEN 1", 11, "expected AND between the two bounds of BETWEEN, found the end"),
    ("n NOT 5", 6, "expected IN, BETWEEN or LIKE after NOT, found 5"),
    ("n IS 5", 5, "expected NULL, TRUE or FALSE after IS, found 5"),
    ("level LIKE n", 11, "expected a pattern in single quotes, found n"),
    ("level LIKE 'a' ESCAPE", 21, "expected a character in single quotes, found the end"),
    ("level RLIKE 'a'", 6, "expected a comparison, IN, BETWEEN, LIKE, IS, AND or OR, found RLIKE"),
    ("level = 'open", 8, "the ' at position 8 is never closed"),
    ("`level = 1", 0, "the ` at position 0 is never closed"),
    ("n = 5L", 4, "'5L' is not a number"),
    ("n = 1.2.3", 4, "'1.2.3' is not a number"),
    ("n = 1e99999999999999999999", 4, "is out of range"),
    # SQL that predicates do not support
    ("lower(level) = 'a'", 0, "functions are not supported, found lower("),
    ("n + 1 = 2", 2, "found + 1; arithmetic is not supported"),
    ("n + x = 2", 2, "unexpected '+': arithmetic is not supported"),
    ("n * 2 = 2", 2, "unexpected '*': arithmetic is not supported"),
    ("n = 1 -- all", 6, "comments are not supported, found '--'"),
    ("n = 1 /* all */", 6, "comments are not supported, found '/*'"),
    ("n = 1; DROP TABLE t", 5, "unexpected ';': a predicate is one condition without semicolons"),
    ("level.a = 1", 5, "nested columns are not supported"),
    ("n = ?", 4, "unexpected '?'"),
    ("level = '\ud800'", 9, "half of a surrogate pair"),
    # columns
    ("lvl = 'a'", 0, "there is no column 'lvl'; the columns are level, n, x"),
    ('level = "ERROR"', 8, "there is no column 'ERROR' (a string takes single quotes)"),
    ("name = 'a'", 0, "column 'name' could be any of Name, NAME"),
    ("tags = 'a'", 7, "cannot compare column 'tags' of type list"),
    # types
    ("n", 0, "column 'n' is int64, not boolean"),
    ("n = 1 OR 5", 9, "expected a condition, found only 5"),
    ("NOT 'a'", 4, "expected a condition, found only 'a'"),
    ("(n = 1) = TRUE", 0, "expected a column or a literal to compare, found a condition"),
    ("n = 'abc'", 4, "cannot compare column 'n' of type int64 with 'abc': 'abc' is not a number"),
    ("n = 'NaN'", 4, "'NaN' is not a number"),
    ("n = TRUE", 4, "with TRUE: expected a number"),
    ("level = 5", 8, "cannot compare column 'level' of type string with 5: write the value in single quotes"),
    ("5 < level", 0, "write the value in single quotes"),
    ("level IN ('a', 5)", 15, "write the value in single quotes"),
    ("ok = 1", 5, "expected TRUE or FALSE"),
    ("day = 'soon'", 6, "'soon' is not a date like 2024-01-31"),
    ("day = '2024-02-30'", 6, "cannot compare column 'day'"),
    ("day = '2024-01-01 12:00:00'", 6, "is not a date"),
    ("day > 5", 6, "expected a date"),
    ("ts > 5", 5, "expected a timestamp"),
    ("ts > 'noon'", 5, "'noon' is not a timestamp like"),
    ("ts > '2024-01-01 00:00:00 Europe/Berlin'", 5, "the zone is Z, UTC or an offset"),
    ("ts > TIMESTAMP '0001-01-01 00:00:00+14:00'", 5, "is out of range"),
    ("ts > TIMESTAMP '2024-01-01 25:00:00'", 5, "is not a value"),
    ("day = DATE '2024-13-01'", 6, "is not a value"),
    ("n = X'0g'", 4, "X'0g' is not a value: '0g' does not consist of pairs of hexadecimal digits"),
    ("n = X'00'", 4, "cannot compare column 'n' of type int64 with X'00': expected a number"),
    ("n = level", 4, "cannot compare column 'n' of type int64 with column 'level' of type string"),
    ("1 = 'a'", 4, "cannot compare 1 with 'a'"),
    ("1 = TRUE", 4, "cannot compare 1 with TRUE"),
    ("n LIKE '5%'", 0, "LIKE expects a string column before it, column 'n' is int64"),
    ("'a' LIKE 'a'", 0, "LIKE expects a string column before it, found 'a'"),
    (r"level LIKE 'a\b'", 11, "may stand only before %, _ and itself"),
    ("level LIKE 'a\\'", 11, "may stand only before %, _ and itself"),
    ("level LIKE 'a' ESCAPE 'xy'", 11, "ESCAPE takes one character"),
    ("level LIKE '" + "%a" * 201 + "'", 11, "201 '%', more than 200"),
]


@pytest.mark.parametrize(("text", "position", "message"), REFUSED, ids=[text[:40] or "empty" for text, _, _ in REFUSED])
def test_errors_state_position_and_reason(text: str, position: int, message: str) -> None:
    with pytest.raises(InvalidPredicate) as caught:
        parse_predicate(text, SCHEMA)
    assert message in str(caught.value)
    assert caught.value.text == text
    assert caught.value.position == position
    assert len(str(caught.value)) < 300


def test_disallowed_columns_are_named_with_the_purpose() -> None:
    with pytest.raises(InvalidPredicate, match="column 'n' cannot be used in overwrite; usable: day, level"):
        parse_predicate("day = '2024-01-01' AND n = 1", SCHEMA, allowed=["level", "day"], purpose="overwrite")
    with pytest.raises(InvalidPredicate, match="cannot be used in this predicate; usable: none"):
        parse_predicate("n = 1", SCHEMA, allowed=[])
    assert parse_predicate("DAY = '2024-01-01'", SCHEMA, allowed=["day"]).columns == {"day"}


HOSTILE = {
    "parentheses": "(" * PREDICATE_CHARACTERS,
    "just too deep": "(" * (PREDICATE_DEPTH + 1) + "ok" + ")" * (PREDICATE_DEPTH + 1),
    "nots": "NOT " * 20_000 + "ok",
    "operand parentheses": "n = " + "(" * 90_000 + "1",
    "quotes": "'" * 99_999,
    "one string": "level = '" + "a" * PREDICATE_CHARACTERS + "'",
    "digits": "level = " + "9" * 90_000,
    "no number": "n = '" + "a" * 90_000 + "'",
    "no date": "day = '" + "a" * 90_000 + "'",
    "no timestamp": "ts = TIMESTAMP '" + "a" * 90_000 + "'",
    "no column": "a" * 90_000 + " = 1",
    "no escape": "level LIKE 'a' ESCAPE '" + "a" * 90_000 + "'",
    "unclosed": "ok AND " * 10_000,
    "too long": "ok" + " " * PREDICATE_CHARACTERS,
}


@pytest.mark.parametrize("text", [5, b"ok", ["ok"]])
def test_a_predicate_must_be_a_text(text: Any) -> None:
    with pytest.raises(InvalidPredicate, match="a predicate must be a string, not "):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidPredicate) as caught:
        parse_predicate(text, SCHEMA)
    assert len(str(caught.value)) < 300
