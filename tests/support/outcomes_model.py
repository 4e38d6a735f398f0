"""A model of `predicates.possible_outcomes` and `table.pruning` in plain Python, for one file at a time.

Computes the possible outcomes of a predicate when only a range is known for each column. The result is a union of TRUE, FALSE and NULL
that contains the outcome for every row within the ranges. It can contain more where a column is used twice. If every column is known
exactly, it contains exactly one outcome.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.limits import STATS_CHARACTERS
from indextables.predicates import Predicate
from indextables.predicates import expressions as exp
from indextables.predicates.keys import typed_scalar
from indextables.predicates.literals import midnight, single
from indextables.values import decode_value

TRUE, FALSE, NULL = 1, 2, 4
_OUTCOME: dict[bool | None, int] = {True: TRUE, False: FALSE, None: NULL}


@dataclass(frozen=True, slots=True)
class Domain:
    """What is known about the values of a column: each is null or within the inclusive bounds."""

    low: Any = None  # None: unknown
    high: Any = None
    may_be_null: bool = True
    may_be_value: bool = True

    @property
    def point(self) -> bool:
        """Whether only one non-null value is possible."""
        return self.low is not None and self.high is not None and exp.order_key(self.low) == exp.order_key(self.high)

    def outcomes(self, true: bool, false: bool) -> int:
        """The possible outcomes for values, and NULL for a null."""
        of_value = (TRUE if true else 0) | (FALSE if false else 0) if self.may_be_value else 0
        return of_value | (NULL if self.may_be_null else 0)


UNKNOWN = Domain()
ONLY_NULL = Domain(may_be_value=False)


def exactly(value: Any) -> Domain:
    return ONLY_NULL if value is None else Domain(value, value, may_be_null=False)


def outcomes(expression: exp.Expr, domain: Callable[[str], Domain]) -> int:
    match expression:
        case exp.Constant(value):
            return _OUTCOME[value]
        case exp.Compare(operator, name, value):
            return _compare(operator, domain(name), exactly(value))
        case exp.CompareColumns(operator, left, right, common):
            return _compare(operator, _lifted(domain(left), common), _lifted(domain(right), common))
        case exp.Always(name, value):
            return domain(name).outcomes(value, not value)
        case exp.In():
            return _in(expression, domain(expression.column))
        case exp.Like():
            return _like(expression, domain(expression.column))
        case exp.IsNull(name):
            known = domain(name)
            return (TRUE if known.may_be_null else 0) | (FALSE if known.may_be_value else 0)
        case exp.Is(operand, value):
            found = outcomes(operand, domain)
            return (TRUE if found & _OUTCOME[value] else 0) | (FALSE if found & ~_OUTCOME[value] else 0)
        case exp.Not(operand):
            return _inverted(outcomes(operand, domain))
        case exp.And(operands):
            found = TRUE
            for operand in operands:
                found = _both(found, outcomes(operand, domain))
            return found
        case exp.Or(operands):
            found = TRUE
            for operand in operands:
                found = _both(found, _inverted(outcomes(operand, domain)))
            return _inverted(found)


def _inverted(found: int) -> int:
    return (found & NULL) | (TRUE if found & FALSE else 0) | (FALSE if found & TRUE else 0)


def _both(left: int, right: int) -> int:
    """AND of two outcome sets: false takes precedence over null, null over true."""
    true = left & right & TRUE
    false = (left | right) & FALSE
    null = NULL if (left | right) & NULL and left & ~FALSE and right & ~FALSE else 0
    return true | false | null


def _below(left: Any, right: Any, or_equal: bool) -> bool:
    """Whether `left` can be less than `right` (or equal). Unknown bounds can."""
    if left is None or right is None:
        return True
    a, b = exp.order_key(left), exp.order_key(right)
    return a <= b if or_equal else a < b


def _compare(operator: exp.Operator, left: Domain, right: Domain) -> int:
    if operator in ("<>", ">", ">="):
        opposite: dict[exp.Operator, exp.Operator] = {"<>": "=", ">": "<=", ">=": "<"}
        return _inverted(_compare(opposite[operator], left, right))
    if operator == "=":
        true = _below(left.low, right.high, or_equal=True) and _below(right.low, left.high, or_equal=True)
        false = not (left.point and right.point and true)
    else:
        strict = operator == "<"
        true = _below(left.low, right.high, or_equal=not strict)
        false = _below(right.low, left.high, or_equal=strict)
    of_both = Domain(may_be_null=left.may_be_null or right.may_be_null, may_be_value=left.may_be_value and right.may_be_value)
    return of_both.outcomes(true, false)


def _lifted(known: Domain, common: pa.DataType) -> Domain:
    return Domain(_lift(known.low, common), _lift(known.high, common), known.may_be_null, known.may_be_value)


def _lift(value: Any, common: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_floating(common):
        return float(value)
    if common == pa.timestamp("us", tz="UTC"):
        return value.replace(tzinfo=UTC) if isinstance(value, datetime) else midnight(value)
    return value


def _in(expression: exp.In, known: Domain) -> int:
    values = expression.values
    at = 0 if known.low is None else bisect_left(values, exp.order_key(known.low), key=exp.order_key)
    true = at < len(values) and _below(values[at], known.high, or_equal=True)
    found = known.outcomes(true, not (true and known.point))
    return (found & ~FALSE) | NULL if expression.has_null and found & FALSE else found


def _like(expression: exp.Like, known: Domain) -> int:
    prefix = expression.prefix
    low, high = known.low, known.high
    if known.point and not expression.only_prefix:
        matches = bool(pc.match_substring_regex(typed_scalar(low, pa.string()), expression.regex).as_py())
        return known.outcomes(matches, not matches)
    true = (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)
    # Strings between two with the same prefix have this prefix too.
    all_match = expression.only_prefix and low is not None and high is not None and low.startswith(prefix) and high.startswith(prefix)
    return known.outcomes(true, not all_match)


@dataclass(frozen=True)
class Stats:
    """The statistics of a file as strings, as they are in the log."""

    partition_values: Mapping[str, str] = field(default_factory=dict)
    min_values: Mapping[str, str] = field(default_factory=dict)
    max_values: Mapping[str, str] = field(default_factory=dict)
    num_records: int | None = None


def may_match(predicate: Predicate, stats: Stats, schema: pa.Schema, partition_columns: Sequence[str], trusted: bool) -> bool:
    if stats.num_records == 0:
        return False

    def domain(name: str) -> Domain:
        kind = schema.field(name).type
        if kind != predicate.schema.field(name).type:
            return UNKNOWN
        if name in partition_columns:
            text = stats.partition_values.get(name)
            value = _decoded(text, kind)
            return UNKNOWN if text is not None and value is None else exactly(value)
        low, high = (_decoded(side.get(name), kind) for side in (stats.min_values, stats.max_values))
        if not trusted:
            low, high = (None if isinstance(bound, str) and max(bound, default="") >= "\ue000" else bound for bound in (low, high))
            high = high if _is_bound(high) else None
        return _range(low, high)

    return bool(outcomes(predicate.expression, domain) & TRUE)


def _range(low: Any, high: Any) -> Domain:
    if low != low or high != high:
        return UNKNOWN
    if low is not None and high is not None and exp.order_key(low) > exp.order_key(high):
        return UNKNOWN
    return Domain(low, high)


def _is_bound(high: Any) -> bool:
    return not isinstance(high, float) and not (isinstance(high, str) and len(high) >= STATS_CHARACTERS)


def _decoded(text: str | None, kind: pa.DataType) -> Any:
    if text is None:
        return None
    try:
        value = decode_value(text, kind)
    except (ValueError, OverflowError):
        return None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    try:
        return single(float(value)) if pa.types.is_float32(kind) and isinstance(value, float) else value
    except OverflowError:
        return None
