"""Hypothesis strategies for rows of every type and for predicates, each in our syntax and in that of DuckDB."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from indextables.schema import LOCAL_TIMESTAMP, UTC_TIMESTAMP

SCHEMA = pa.schema(
    {
        "s": pa.string(),
        "l": pa.int64(),
        "i": pa.int32(),
        "h": pa.int16(),
        "y": pa.int8(),
        "f": pa.float32(),
        "d": pa.float64(),
        "b": pa.bool_(),
        "day": pa.date32(),
        "ts": UTC_TIMESTAMP,
        "nt": LOCAL_TIMESTAMP,
    }
)
# In DuckDB integers are cast to decimals and floats to doubles: it compares a float with a decimal literal as floats, which Spark does
# not, and it fails for a bigint and a larger literal. `ts` is loaded into DuckDB in UTC without a zone.
_DUCK_COLUMNS = {
    **{name: f"CAST({name} AS DECIMAL(38, 6))" for name in "lihy"},
    **{name: f"CAST({name} AS DOUBLE)" for name in "fd"},
    "day": "CAST(day AS TIMESTAMP)",
}
_LONG = "long " * 8
STRINGS = ["", "a", "ab", "abc", "b", "a%b", "a_b", "é", "a\nb", "\\", "it's", "𝄞", "\ud7ff", "\U0010ffff", _LONG + "a", _LONG + "b", _LONG]
_DAYS = [date(1, 1, 1), date(1969, 12, 31), date(2024, 1, 1), date(2024, 1, 2), date(9999, 12, 31)]
_TIMES = [timedelta(), timedelta(hours=12), timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999)]
_MOMENTS = [datetime(d.year, d.month, d.day) + t for d in _DAYS for t in _TIMES]
_FLOATS = [0.0, -0.0, 1.5, 0.1, -2.5, math.inf, -math.inf, math.nan, 16777216.0, 1e30]


def _integers(bits: int) -> list[object]:
    edge = 2 ** (bits - 1)
    return [-edge, edge - 1, -129, 128, -1, 0, 1, 2, 3, 5] if bits > 8 else [-edge, edge - 1, -1, 0, 1, 2, 3, 5]


def _single(value: float) -> float:
    return float(pa.scalar(value, pa.float32()).as_py())


# Few values per type, mostly edge cases, so that rows and literals are often equal.
VALUES: dict[str, list[object]] = {
    "s": list(STRINGS),
    "l": [*_integers(64), 2**53, 2**53 + 1],
    "i": _integers(32),
    "h": _integers(16),
    "y": _integers(8),
    "f": [_single(value) for value in _FLOATS],
    "d": [*_FLOATS, _single(0.1), 5e-324, 2.0**53, 2.0**63],
    "b": [True, False],
    "day": list(_DAYS),
    "ts": [moment.replace(tzinfo=UTC) for moment in _MOMENTS],
    "nt": list(_MOMENTS),
}


def make_rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows drawn evenly from VALUES, one value in eight null."""
    choose = random.Random(seed)
    return [{name: None if choose.random() < 1 / 8 else choose.choice(values) for name, values in VALUES.items()} for _ in range(count)]


SEEDS = st.integers(0, 2**32)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


@dataclass(frozen=True)
class Both:
    """The same predicate in our syntax and in that of DuckDB."""

    ours: str
    duck: str


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _integer_literal(text: str) -> Both:
    return Both(text, f"CAST('{Decimal(text.strip(chr(39))):f}' AS DECIMAL(38, 6))")


def _moment_literals(moment: datetime) -> list[Both]:
    duck = f"TIMESTAMP '{moment.isoformat(' ')}'"
    spelled = [f"TIMESTAMP '{moment.isoformat(' ')}'", _quoted(moment.isoformat()), _quoted(moment.isoformat(" ") + "Z")]
    if 1 < moment.year < 9999:
        spelled.append(f"timestamp '{(moment + timedelta(hours=2)).isoformat(' ')}+02:00'")
        spelled.append(_quoted((moment - timedelta(hours=3, minutes=30)).isoformat() + " -0330"))
    return [Both(text, duck) for text in spelled]


_DAY_LITERALS = [Both(text.format(day), f"TIMESTAMP '{day} 00:00:00'") for day in _DAYS for text in ("'{}'", "DATE '{}'")]
_MOMENT_LITERALS = [both for moment in _MOMENTS for both in _moment_literals(moment)]
_INTEGER_TEXTS = [
    "0",
    "1",
    "-1",
    "+2",
    "2.5",
    "-0.5",
    "127",
    "128",
    "1e3",
    "'5'",
    "' 3'",
    "-129.000001",
    "9223372036854775807",
    "1e25",
    "-1E25",
]
_FLOAT_TEXTS = ["0", "-0.0", "0.1", "1.5", "16777217", "1e30", "-2.5", "'1.5'", "'NaN'", "'-Infinity'", "'inf'"]
LITERALS: dict[str, st.SearchStrategy[Both]] = {
    "s": (st.sampled_from(STRINGS) | st.text("ab%_\\\n", max_size=3)).map(lambda value: Both(_quoted(str(value)), _quoted(str(value)))),
    **{name: st.sampled_from(_INTEGER_TEXTS).map(_integer_literal) for name in "lihy"},
    **{name: st.sampled_from(_FLOAT_TEXTS).map(lambda t: Both(t, f"CAST({_quoted(t.strip(chr(39)))} AS DOUBLE)")) for name in "fd"},
    "b": st.sampled_from([Both("TRUE", "TRUE"), Both("'false'", "FALSE"), Both("'True'", "TRUE")]),
    "day": st.sampled_from(_DAY_LITERALS + [both for both in _MOMENT_LITERALS if both.ours.upper().startswith("TIMESTAMP")]),
    "ts": st.sampled_from(_MOMENT_LITERALS + _DAY_LITERALS),
    "nt": st.sampled_from(_MOMENT_LITERALS + _DAY_LITERALS),
}
_NULL = Both("NULL", "NULL")
_OPERATORS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
_PAIRS = [("s", "s"), ("l", "i"), ("y", "h"), ("f", "d"), ("d", "d"), ("l", "d"), ("day", "ts"), ("nt", "ts"), ("day", "day"), ("b", "b")]


def column(name: str) -> Both:
    return Both(name, _DUCK_COLUMNS.get(name, name))


def _join(template: str, *parts: Both) -> Both:
    duck = template.replace("<=>", "IS NOT DISTINCT FROM")
    return Both(template.format(*(p.ours for p in parts)), duck.format(*(p.duck for p in parts)))


@st.composite
def _leaf(draw: st.DrawFn) -> Both:
    name = draw(st.sampled_from(SCHEMA.names))
    literals = st.one_of(LITERALS[name], LITERALS[name], LITERALS[name], st.just(_NULL))
    shape = draw(st.sampled_from(["compare", "compare", "flipped", "in", "between", "like", "null", "columns", "flag", "constant"]))
    maybe_not = draw(st.sampled_from(["", "NOT "]))
    if shape == "compare":
        return _join(f"{{}} {draw(_OPERATORS)} {{}}", column(name), draw(literals))
    if shape == "flipped":
        return _join(f"{{}} {draw(_OPERATORS)} ({{}})", draw(literals), column(name))
    if shape == "in":
        members = draw(st.lists(literals, min_size=1, max_size=4))
        return _join(f"{{}} {maybe_not}IN ({', '.join(['{}'] * len(members))})", column(name), *members)
    if shape == "between":
        return _join(f"{{}} {maybe_not}BETWEEN {{}} AND {{}}", column(name), draw(literals), draw(literals))
    if shape == "like":
        return _like(draw, maybe_not)
    if shape == "null":
        return _join(f"{{}} IS {maybe_not}NULL", column(name))
    if shape == "columns":
        left, right = draw(st.sampled_from(_PAIRS))
        if (left, right) == ("l", "d"):  # Spark compares them as doubles
            return _join(f"{{}} {draw(_OPERATORS)} {{}}", Both("l", "CAST(l AS DOUBLE)"), column("d"))
        return _join(f"{{}} {draw(_OPERATORS)} {{}}", column(left), column(right))
    if shape == "flag":
        return _join(draw(st.sampled_from(["{}", "{} IS TRUE", "{} IS NOT FALSE"])), Both("b", "b"))
    text = draw(st.sampled_from(["TRUE", "FALSE", "NULL", "1 = 1", "'b' < 'a'", "NULL IS NULL", "1 IN (2, NULL)"]))
    return Both(text, text)


def _like(draw: st.DrawFn, maybe_not: str) -> Both:
    pieces = draw(st.lists(st.sampled_from(["a", "b", "%", "_", "!%", "!_", "!!", "\n", "\\", "é", "long "]), max_size=5))
    if draw(st.booleans()):
        both = _quoted("".join(pieces))
        return Both(f"s {maybe_not}LIKE {both} ESCAPE '!'", f"s {maybe_not}LIKE {both} ESCAPE '!'")
    backslashed = _quoted("".join("\\\\" if piece == "\\" else piece.replace("!%", "\\%").replace("!_", "\\_") for piece in pieces))
    return Both(f"s {maybe_not}LIKE {backslashed}", f"s {maybe_not}LIKE {backslashed} ESCAPE '\\'")  # DuckDB's default is no escape


def _compound(children: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    return st.one_of(
        st.builds(lambda a, b: _join("({}) AND ({})", a, b), children, children),
        st.builds(lambda a, b: _join("({}) or ({})", a, b), children, children),
        st.builds(lambda a, b, c: _join("{} OR {} AND NOT {}", a, b, c), _leaf(), _leaf(), _leaf()),
        st.builds(lambda a: _join("NOT ({})", a), children),
        st.builds(lambda a: _join("({}) IS NULL", a), children),
    )


PREDICATES = st.one_of(_leaf(), st.recursive(_leaf(), _compound, max_leaves=6))
