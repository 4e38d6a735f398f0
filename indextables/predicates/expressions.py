"""A bound predicate: every column exists, and every literal has the Python type of the column it is compared with.

Each node is true, false or null for a row. Values are int for integer columns, float for float and double, str, bytes, bool, date, and
datetime (aware, UTC, for timestamp; naive for timestamp_ntz). Other SQL is expressed by these nodes: BETWEEN is two comparisons, `<=>`
is `Is(…, True)`, and a boolean column by itself is compared with true. A literal that the column's type cannot hold (`x > 2.5` on
integers) is replaced by the neighbouring value that gives the same answers, or the comparison becomes `Always`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | None


@dataclass(frozen=True, slots=True)
class Compare:
    operator: Operator
    column: str
    value: Any


@dataclass(frozen=True, slots=True)
class CompareColumns:
    operator: Operator
    left: str
    right: str
    common: pa.DataType  # both are converted to it first


@dataclass(frozen=True, slots=True)
class Always:
    """`value` for every row where the column is not null, else null."""

    column: str
    value: bool


@dataclass(frozen=True, slots=True)
class In:
    column: str
    values: tuple[Any, ...]  # ascending in `order_key`, each once, none null; may be empty
    has_null: bool  # whether the list contains NULL: then null instead of false


@dataclass(frozen=True, slots=True)
class Like:
    column: str
    prefix: str  # every match starts with it
    only_prefix: bool  # whether every string that starts with it matches
    regex: str  # RE2, anchored at both ends


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class Is:
    """True where the operand is exactly `value` (None: null), else false; never null."""

    operand: Expr
    value: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expr


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Expr, ...]


Expr = Constant | Compare | CompareColumns | Always | In | Like | IsNull | Is | Not | And | Or


def order_key(value: Any) -> tuple[int, Any]:
    """Sorts values of one type as Spark does: NaN equals itself and is greatest, -0.0 equals 0.0, strings by code point (which is the
    order of their UTF-8 bytes)."""
    return (1, 0) if value != value else (0, value)
