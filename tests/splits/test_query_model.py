"""Random queries compared with a model: sets of row numbers combined by boolean logic."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indextables.splits import DocMapping, SplitReader
from tests.support.splits import batch_of, matches, write_split

_random = random.Random(5)
WORDS = ("alpha", "alps", "beta", "bet", "gamma")
TITLES = [" ".join(_random.choices(WORDS, k=_random.randrange(4))) if n % 6 else None for n in range(40)]
BODIES = [", ".join(word.title() for word in _random.choices(WORDS, k=_random.randrange(6))) for n in range(40)]
LEVELS = [_random.choice(["INFO", "WARN", "In Doubt", None]) for n in range(40)]
NUMBERS = [_random.choice([None, *range(-3, 6)]) for n in range(40)]
ALL = frozenset(range(40))
Case = tuple[str, frozenset[int]]  # a query and the rows that it must find


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SplitReader]:
    batch = batch_of({"title": pa.array(TITLES), "body": pa.array(BODIES), "level": pa.array(LEVELS), "n": pa.array(NUMBERS)})
    path: Path = tmp_path_factory.mktemp("model") / "a.split"
    write_split(path, batch, DocMapping.for_table(batch.schema, [], {"level": "string"}))
    with SplitReader(path) as opened:
        yield opened


def tokens(text: str | None) -> list[str]:
    return (text or "").lower().replace(",", "").split()


def has_phrase(text: str | None, words: list[str], prefix: bool = False) -> bool:
    have = tokens(text)
    for start in range(len(have) - len(words) + 1):
        window = have[start : start + len(words)]
        if window[:-1] == words[:-1] and (window[-1].startswith(words[-1]) if prefix else window[-1] == words[-1]):
            return True
    return False


def rows_where(condition: list[bool]) -> frozenset[int]:
    return frozenset(itertools.compress(range(40), condition))


def text_leaf(column: str, words: list[str], form: str) -> Case:
    prefix = form == "prefix"
    if prefix:
        words = [*words[:-1], words[-1][:2]]
    written = words[0] + "*" * prefix if len(words) == 1 else '"' + " ".join(words) + '"' + "*" * prefix
    if form == "joined" and len(words) > 1:
        written = "-".join(words)
    rows: frozenset[int] = frozenset()
    for name, texts in (("title", TITLES), ("body", BODIES)):
        if column in ("", name):
            rows |= rows_where([has_phrase(text, words, prefix) for text in texts])
    return (f"{column}:{written}" if column else written), rows


def number_leaf(low: int, high: int, form: str) -> Case:
    numbers = [(-99 if n is None else n) for n in NUMBERS]
    options: dict[str, Case] = {
        "=": (f"n:{low}", rows_where([n == low for n in numbers])),
        "[]": (f"n:[{low} TO {high}]", rows_where([low <= n <= high for n in numbers])),
        "{}": (f"n:{{{low} TO {high}}}", rows_where([low < n < high for n in numbers])),
        ">": (f"n:>{low}", rows_where([n > low for n in numbers])),
        "<=": (f"n:<={high}", rows_where([-99 < n <= high for n in numbers])),
        "*": ("n:*", rows_where([n is not None for n in NUMBERS])),
        "in": (f"n: IN [{low} {high}]", rows_where([n in (low, high) for n in numbers])),
    }
    return options[form]


LEAVES = st.one_of(
    st.builds(
        text_leaf,
        st.sampled_from(["", "title", "body"]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        st.sampled_from(["plain", "prefix", "joined"]),
    ),
    st.builds(number_leaf, st.integers(-3, 5), st.integers(-3, 5), st.sampled_from(["=", "[]", "{}", ">", "<=", "*", "in"])),
    st.sampled_from(
        [
            ("level:INFO", rows_where([level == "INFO" for level in LEVELS])),
            ('level:"In Doubt"', rows_where([level == "In Doubt" for level in LEVELS])),
            ("level:In*", rows_where([level == "In Doubt" for level in LEVELS])),
            ("level:info", frozenset()),
            ("level:*", rows_where([level is not None for level in LEVELS])),
            ("title:*", rows_where([title is not None for title in TITLES])),
            ("title:(alpha OR beta)", rows_where([bool({"alpha", "beta"} & set(tokens(title))) for title in TITLES])),
            ("*", ALL),
        ]
    ),
)


def joined(operands: list[tuple[str, Case]], operator: str) -> Case:
    sets = [ALL - rows if sign else rows for sign, (_, rows) in operands]
    text = f" {operator} ".join(sign + text for sign, (text, _) in operands)
    return text, frozenset.intersection(*sets) if operator == "AND" else frozenset.union(*sets)


def as_list(items: list[tuple[str, Case]]) -> Case:
    must = [rows for sign, (_, rows) in items if sign == "+"]
    should = [rows for sign, (_, rows) in items if sign == ""]
    rows = frozenset.intersection(*must) if must else frozenset.union(*should) if should else ALL
    for sign, (_, excluded) in items:
        if sign in ("-", "NOT "):
            rows -= excluded
    return " ".join(sign + text for sign, (text, _) in items), rows


def in_parentheses(case: Case) -> Case:
    return f"({case[0]})", case[1]


def compounds(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    negations = st.sampled_from(["", "NOT ", "-"])
    operands = st.lists(st.tuples(negations, inner), min_size=1, max_size=3)
    conjunction = st.builds(joined, operands, st.just("AND"))
    # without parentheses, since AND binds tighter than OR
    mixed = st.builds(joined, st.lists(st.tuples(st.just(""), conjunction), min_size=2, max_size=3), st.just("OR"))
    items = st.builds(as_list, st.lists(st.tuples(st.sampled_from(["", "+", "-", "NOT "]), inner), min_size=1, max_size=4))
    boosted = st.builds(lambda case: (f"({case[0]})^2.5", case[1]), items)
    return st.one_of(conjunction, st.builds(joined, operands, st.just("OR")), mixed, items).map(in_parentheses) | boosted


QUERIES = st.recursive(LEAVES, compounds, max_leaves=10)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(QUERIES)
def test_every_query_finds_the_rows_of_the_model(reader: SplitReader, query: Case) -> None:
    text, expected = query
    assert matches(reader, text) == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "+", "-", "NOT "]), LEAVES), min_size=1, max_size=5).map(as_list))
def test_lists_without_parentheses(reader: SplitReader, query: Case) -> None:
    text, expected = query
    assert matches(reader, text) == expected


def test_known_answers(reader: SplitReader) -> None:
    alpha, beta = (rows_where([word in tokens(t) + tokens(b) for t, b in zip(TITLES, BODIES, strict=True)]) for word in ("alpha", "beta"))
    assert alpha - beta
    assert beta - alpha
    expected = {
        "alpha AND NOT beta": alpha - beta, "alpha AND -beta": alpha - beta, "alpha -beta": alpha - beta, "alpha NOT beta": alpha - beta,
        "-beta alpha": alpha - beta, "NOT beta AND alpha": alpha - beta, "+alpha beta": alpha, "alpha beta": alpha | beta,
        "alpha OR NOT beta": alpha | (ALL - beta), "NOT beta": ALL - beta, "NOT NOT beta": beta, "-beta -alpha": ALL - beta - alpha,
        "NOT (alpha OR beta)": ALL - alpha - beta, "ALPHA AND Beta": alpha & beta, "alpha AND (NOT beta)": alpha - beta,
        "alpha OR beta -alpha": (alpha | beta) - alpha, "(((alpha)))": alpha, "* -alpha": ALL - alpha, "alpha^3 OR beta^0.5": alpha | beta,
    }  # fmt: skip
    assert {text: matches(reader, text) for text in expected} == expected
