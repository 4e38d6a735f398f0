"""Parsing: every text is a predicate, or is refused at the first position where it is not."""

from __future__ import annotations

import inspect
import logging
import random
import sys
from collections import Counter

import pyarrow as pa
import pytest

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_DEPTH
from indextables.predicates import parse_predicate
from indextables.predicates.expressions import And, Compare, Expr, In, Not, Or
from tests.support.seeds import random_seed

SCHEMA = pa.schema(
    {"n": pa.int64(), "s": pa.string(), "ok": pa.bool_(), "date": pa.date32(), "odd ``name": pa.int64()}
    | dict.fromkeys(["case", "if", "any", "select", "interval", "symmetric", "at", "values", "json", "end", "left", "row"], pa.int64())
)

OF_PREDICATES = """
n s ok 5 -5 'a' '2024-01-01' date ( ) (ok) (n) (1) , = < <=> AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE UNKNOWN DATE
"""
OF_SQL = """
n s ok `n` "s" date timestamp case 5 -5 .5 1e 5L 'a' '2024-01-01' '' N'a' x'ff' ( ) (ok) (n) (1) IN( , = <> != == < <= > >= <=>
+ - * / % . ; -- /* */ {# #} { } ? : :: @ $ ~ ! | || && & ^ # \\ -> => [ ] AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE FALSE UNKNOWN
DATE TIMESTAMP SELECT FROM CASE WHEN THEN END RLIKE ILIKE ANY ALL DISTINCT ISNULL NOTNULL EXISTS INTERVAL CAST AS COLLATE SYMMETRIC AT
TIME ZONE f( ' ` " é ıs iſ ٣ € \0 \ufeff 𝄞 n.m SIMILAR GLOB XOR DIV OVERLAPS JSON VALUES ROW MAP
"""
OURS, PIECES = OF_PREDICATES.split(), OF_SQL.split()


def bound(text: str) -> Expr:
    return parse_predicate(text, SCHEMA).expression


def refusal(text: str) -> InvalidPredicate | None:
    try:
        parse_predicate(text, SCHEMA)
    except InvalidPredicate as error:
        return error
    return None


def test_any_text_is_a_predicate_or_refused_with_a_position(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """6,000 random texts of words of SQL or of predicates; nothing is logged or printed."""
    seed = random_seed()
    draw = random.Random(seed)
    capfd.readouterr()  # drop the line with the seed
    seen: Counter[bool] = Counter()
    with caplog.at_level(logging.DEBUG):
        for _ in range(6_000):
            words = draw.choice([PIECES, OURS])
            text = draw.choice([" ", " ", ""]).join(draw.choice(words) for _ in range(draw.randrange(1, 10)))
            error = refusal(text)
            seen[error is None] += 1
            if error is not None:
                assert error.position is not None
                assert 0 <= error.position <= len(text)
                assert "\n" not in str(error)
                assert len(str(error)) < 300
    assert seen.total() == 6_000
    assert seen[True] > 10
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_parsing_uses_little_stack() -> None:
    """Whatever the nesting depth and whatever is repeated."""
    seed = random_seed()
    draw = random.Random(seed)
    repeated = [
        ["BETWEEN", "5", "NOT"],
        ["=", "NOT", "n"],
        ["n", "BETWEEN", "1", "AND", "NOT"],
        ["NOT"],
        ["-"],
        ["- "],
        ["IN", "("],
        ["(", "NOT"],
    ]
    repeated += [[draw.choice([*OURS, "NOT", "BETWEEN", "IN ("]) for _ in range(draw.randrange(1, 6))] for _ in range(2_000)]
    valid = ["ok" + " AND NOT ok" * 5_000, "n = 1" + " OR n = 1 AND ok" * 3_000, "NOT " * PREDICATE_DEPTH + "ok"]
    valid += ["(" * PREDICATE_DEPTH + "ok" + ")" * PREDICATE_DEPTH, "(ok AND " * PREDICATE_DEPTH + "ok" + ")" * PREDICATE_DEPTH]
    bound("ok AND (NOT n IN (1))")  # imports and caches are warm after this
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        refused = [refusal(" ".join(words * 40)) for words in repeated]
        taken = [refusal(text) for text in valid]
    finally:
        sys.setrecursionlimit(before)
    assert taken == [None] * len(valid)
    assert len(refused) == 2_008
    assert None not in refused[:8]


@pytest.mark.parametrize(
    ("text", "position", "named"),
    [
        ("n = 1 = 1", 6, "="),
        ("n = 1 < 2", 6, "<"),
        ("n < < 2", 4, "<"),
        ("n IS NULL IS NULL", 10, "IS"),
        ("n = 1 IS NULL", 6, "IS"),
        ("ok = NOT ok", 5, "NOT"),
        ("n NOT NULL", 6, "NULL"),
        ("n NOT = 1", 6, "="),
        ("n NOT NOT IN (1)", 6, "NOT"),
        ("n IS NOT NOT NULL", 9, "NOT"),
        ("n ISNULL", 2, "ISNULL"),
        ("n IS DISTINCT FROM 1", 5, "DISTINCT"),
        ("n BETWEEN 1 2", 12, "2"),
        ("n BETWEEN SYMMETRIC 1 AND 2", 20, "1"),
        ("n BETWEEN 1 AND NOT ok", 16, "NOT"),
        ("n IN (1,,2)", 8, ","),
        ("n IN (1,)", 8, ")"),
        ("n IN (1 x)", 8, "x"),
        ("n IN (1 AS x)", 8, "AS"),
        ("n IN [1]", 5, "["),
        ("n IN (NOT 1)", 6, "NOT"),
        ("s = 'a' 'b'", 8, "'b'"),
        ("s = N'a'", 4, "N'"),
        ("s LIKE 'a' 'b'", 11, "'b'"),
        ("s LIKE ('a')", 7, "("),
        ("s LIKE ANY ('a')", 7, "ANY"),
        ("s ILIKE 'a'", 2, "ILIKE"),
        ("s SIMILAR TO 'a'", 2, "SIMILAR"),
        ("s ~ 'a'", 2, "~"),
        ("n::int = 1", 1, ":"),
        ("n = :x", 4, ":"),
        ("n = @x", 4, "@"),
        ("n = $1", 4, "$"),
        ("n[0] = 1", 1, "["),
        ("n || s = 'a'", 2, "|"),
        ("n -> s", 2, "-"),
        ("n = - -1", 4, "-"),
        ("n = -(1)", 4, "-"),
        ("n = 1 -1", 6, "-1"),
        ("n. = 1", 1, "."),
        ("n = . 5", 4, "."),
        ("n = 0x1F", 4, "0x1F"),
        ("n = 1e5d", 4, "1e5d"),
        ("n = 1_000", 4, "1_000"),
        ("ok x", 3, "x"),
        ("ok AS x", 3, "AS"),
        ("ok, ok", 2, ","),
        ("(ok, ok)", 3, ","),
        ("ok {# jinja #}", 3, "{"),
        ("ok # comment", 3, "#"),
        ("ok AND DATE", 7, "'date'"),
        ("s AT TIME ZONE 'UTC' = 'a'", 2, "AT"),
        ("s COLLATE x = 'a'", 2, "COLLATE"),
        ("CASE WHEN ok THEN ok END", 5, "WHEN"),
        ("n IN (1) AND s RLIKE (ok", 15, "RLIKE"),
        ("x -> x = 1", 2, "-"),
        ("()", 1, ")"),
        ("n = ()", 5, ")"),
        ("n = (ok = TRUE)", 4, "condition"),
        ("n ıs NULL", 2, "ıs"),
    ],
)
def test_other_sql_is_refused_at_its_position(text: str, position: int, named: str) -> None:
    error = refusal(text)
    assert error is not None
    assert (error.position, named in str(error)) == (position, True), str(error)


def test_the_first_of_several_errors_is_reported() -> None:
    error = refusal("ok AND lvl = 1 AND (n = 'x')")
    assert error is not None
    assert error.position == 7
    assert "there is no column 'lvl'" in str(error)


def test_sql_keywords_without_a_meaning_in_predicates_are_names() -> None:
    names = ["case", "if", "any", "select", "interval", "symmetric", "at", "values", "json", "end", "left", "row"]
    for name in names:
        assert bound(f"{name} = 1 AND {name.upper()} BETWEEN {name} AND {name}") == bound(
            f"`{name}` = 1 AND `{name}` BETWEEN `{name}` AND `{name}`"
        )


def test_strings_and_numbers_keep_their_value() -> None:
    text = "".join(chr(n) for n in (*range(0xD800), *range(0xE000, 0xFFFF), *range(0x1F000, 0x1F700)) if chr(n) != "'")
    assert bound(f"s = '{text}'''") == Compare("=", "s", text + "'")
    assert bound(r"s = '\n\'") == Compare("=", "s", r"\n" + "\\")
    assert bound(f"s = '{text[:200]}' AND n = +\n5") == And((Compare("=", "s", text[:200]), Compare("=", "n", 5)))
    assert bound("n IN (- 1, +2, .5e1, 1.10e2, 9007199254740993, (7))") == In("n", (-1, 2, 5, 7, 110, 2**53 + 1), False)
    error = refusal(f"s = '𝄞{text[:50]}' AND x")
    assert error is not None
    assert error.position == 4 + 3 + 50 + 5


def test_operator_precedence() -> None:
    ok, one = Compare("=", "ok", True), Compare("=", "n", 1)
    assert bound("ok OR ok AND n = 1 OR NOT ok AND NOT NOT n = 1") == Or((ok, And((ok, one)), And((Not(ok), Not(Not(one))))))
    assert bound("(ok OR ok) AND (n = 1 AND ok)") == And((Or((ok, ok)), And((one, ok))))
    assert bound("ok\u3000aNd\x1cok") == And((ok, ok))


def test_any_whitespace_separates_words() -> None:
    spaces = [chr(n) for n in range(0x3001) if chr(n).isspace()]
    assert len(spaces) > 20
    for space in spaces:
        assert bound(f"ok{space}AND{space}date{space}={space}DATE{space}'2024-01-31'{space}AND n =-{space}1") == bound(
            "ok AND date = DATE'2024-01-31' AND n =-1"
        )


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("s = 'it''s", 4, "the ' at position 4 is never closed"),
        ("s = 'a' AND `n`` = 1", 12, "the ` at position 12 is never closed"),
        ("s LIKE DATE '2024-01-31'", 7, "expected a pattern in single quotes, found DATE '2024-01-31'"),
        ("s RLIKE ('a')", 2, "expected a comparison, IN, BETWEEN, LIKE, IS, AND or OR, found RLIKE"),
        ("lower(s) = 'a'", 0, "functions are not supported, found lower("),
        ("n = -5L", 4, "'-5L' is not a number"),
        ("n - m ? 1", 2, "unexpected '-': arithmetic is not supported"),
        ("(ok) (ok", 5, "expected a comparison, IN, BETWEEN, LIKE, IS, AND or OR, found ("),
        ("((ok) AND ok", 12, "expected AND, OR or ')', found the end"),
        ("ok) AND nosuch", 2, "expected AND, OR or the end, found )"),
    ],
)
def test_messages_state_what_was_expected_and_found(text: str, position: int, message: str) -> None:
    error = refusal(text)
    assert error is not None
    assert (error.position, str(error).partition(" (at")[0].splitlines()[0]) == (position, message)
