"""Evaluates a predicate on many files at once, given only a range of values per column.

The outcomes of a file are a subset of true, false and null: every answer that a row within its ranges can get, and possibly more if a
column is used twice. If the value of every column is known exactly, there is exactly one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import eq, ge, gt, le, lt, or_

import numpy as np
import pyarrow as pa

from indextables.predicates import expressions as exp
from indextables.predicates.keys import Integers, Key, Keys, Mask, Test, TextKeys, between, compared, key_of, lifted

YES: Mask = np.array(True)  # for every file: masks of one element broadcast to any number
NO: Mask = np.array(False)
TRUE, FALSE, NULL = 1, 2, 4  # bits of the requested answers; others are not computed, as comparing a million strings takes milliseconds
_ANY = TRUE | FALSE | NULL
_BIT: dict[bool | None, int] = {True: TRUE, False: FALSE, None: NULL}
_OPPOSITE: dict[exp.Operator, exp.Operator] = {"<>": "=", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The ranges of a column, one per file: values that are not null are within the bounds, inclusive."""

    kind: pa.DataType
    low: Keys | None = None  # None: unknown for all files
    high: Keys | None = None
    null: Mask = field(default_factory=lambda: YES)  # whether a row may be null
    value: Mask = field(default_factory=lambda: YES)  # whether a row may have a value

    @property
    def point(self) -> Mask:
        """Whether only one value is possible, besides null."""
        return _are(eq, self.low, self.high)

    def take(self, rows: Integers) -> Ranges:
        """The ranges of some of the files."""
        low = None if self.low is None else self.low.take(rows)
        high = low if self.high is self.low else None if self.high is None else self.high.take(rows)
        null, value = (mask.take(rows) if mask.ndim else mask for mask in (self.null, self.value))
        return Ranges(self.kind, low, high, null, value)

    @property
    def nbytes(self) -> int:
        bounds = (self.low,) if self.low is self.high else (self.low, self.high)
        return sum(keys.nbytes for keys in bounds if keys is not None) + self.null.nbytes + self.value.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Which answers the rows of each file may get."""

    true: Mask
    false: Mask
    null: Mask

    def inverted(self) -> Outcomes:
        return Outcomes(self.false, self.true, self.null)

    def both(self, other: Outcomes) -> Outcomes:
        """AND: false wins over null, null over true."""
        null = (self.null | other.null) & (self.true | self.null) & (other.true | other.null)
        return Outcomes(self.true & other.true, self.false | other.false, null)


def outcomes(expression: exp.Expr, ranges: Callable[[str], Ranges], requested: int = _ANY) -> Outcomes:
    """Masks with one element, or with one per file. An answer that is not requested may be reported as possible although it is not."""
    match expression:
        case exp.Constant(value):
            return Outcomes(*(YES if value is answer else NO for answer in (True, False, None)))
        case exp.Compare(operator, name, value):
            return _compare(operator, ranges(name), value, requested)
        case exp.CompareColumns(operator, left, right, common):
            return _compare_columns(operator, _lifted(ranges(left), common), _lifted(ranges(right), common))
        case exp.Always(name, value):
            return _answers(ranges(name), YES if value else NO, NO if value else YES)
        case exp.In():
            return _in(expression, ranges(expression.column), requested)
        case exp.Like():
            return _like(expression, ranges(expression.column))
        case exp.IsNull(name):
            return Outcomes(ranges(name).null, ranges(name).value, NO)
        case exp.Is(operand, value):
            needed = (_BIT[value] if requested & TRUE else 0) | (_ANY & ~_BIT[value] if requested & FALSE else 0)
            found = outcomes(operand, ranges, needed)
            masks = {True: found.true, False: found.false, None: found.null}
            return Outcomes(masks.pop(value), reduce(or_, masks.values()), NO)
        case exp.Not(operand):
            return outcomes(operand, ranges, _swapped(requested)).inverted()
        case exp.And(operands):
            needed = requested | (TRUE if requested & NULL else 0)
            return reduce(Outcomes.both, (outcomes(operand, ranges, needed) for operand in operands))
        case exp.Or(operands):
            needed = requested | (FALSE if requested & NULL else 0)
            return reduce(Outcomes.both, (outcomes(operand, ranges, needed).inverted() for operand in operands)).inverted()


def _swapped(requested: int) -> int:
    return (requested & NULL) | (TRUE if requested & FALSE else 0) | (FALSE if requested & TRUE else 0)


def _answers(ranges: Ranges, true: Mask, false: Mask) -> Outcomes:
    """The answers possible for a value, and null for null."""
    return Outcomes(true & ranges.value, false & ranges.value, ranges.null)


def _compare(operator: exp.Operator, ranges: Ranges, value: object, requested: int) -> Outcomes:
    if ranges.low is None and ranges.high is None:
        return _answers(ranges, YES, YES)
    if operator in _OPPOSITE:
        return _compare(_OPPOSITE[operator], ranges, value, _swapped(requested)).inverted()
    key = key_of(value)
    if operator == "=":
        true = ~(_is(gt, ranges.low, key) | _is(lt, ranges.high, key))
        return _answers(ranges, true, ~(ranges.point & true) if requested & FALSE else YES)
    never, always = (ge, lt) if operator == "<" else (gt, le)  # if the low or the high bound compares so with the key
    true = ~_is(never, ranges.low, key) if requested & TRUE else YES
    return _answers(ranges, true, ~_is(always, ranges.high, key) if requested & FALSE else YES)


def _is(test: Test, keys: Keys | None, key: Key) -> Mask:
    return NO if keys is None else keys.compared(test, key)


def _compare_columns(operator: exp.Operator, left: Ranges, right: Ranges) -> Outcomes:
    if operator in _OPPOSITE:
        return _compare_columns(_OPPOSITE[operator], left, right).inverted()
    both = Ranges(left.kind, null=left.null | right.null, value=left.value & right.value)
    if operator == "=":
        true = ~(_are(gt, left.low, right.high) | _are(gt, right.low, left.high))
        return _answers(both, true, ~(left.point & right.point & true))
    never, always = (ge, gt) if operator == "<" else (gt, ge)
    return _answers(both, ~_are(never, left.low, right.high), ~_are(always, right.low, left.high))


def _are(test: Test, left: Keys | None, right: Keys | None) -> Mask:
    return NO if left is None or right is None else compared(test, left, right)


def _lifted(ranges: Ranges, common: pa.DataType) -> Ranges:
    low, high = (None if keys is None else lifted(keys, ranges.kind, common) for keys in (ranges.low, ranges.high))
    return Ranges(common, low, high, ranges.null, ranges.value)


def _in(expression: exp.In, ranges: Ranges, requested: int) -> Outcomes:
    values = expression.values
    has_bounds = ranges.low is not None or ranges.high is not None
    true = between([key_of(value) for value in values], ranges.low, ranges.high) if has_bounds else np.array(bool(values))
    found = _answers(ranges, true, ~(true & ranges.point) if requested & (FALSE | NULL) else YES)
    return Outcomes(found.true, NO, found.null | found.false) if expression.has_null else found


def _like(expression: exp.Like, ranges: Ranges) -> Outcomes:
    prefix, low, high = expression.prefix, ranges.low, ranges.high
    assert isinstance(low, TextKeys | None), "LIKE is for strings"
    assert isinstance(high, TextKeys | None), "LIKE is for strings"
    below_low = NO if low is None else low.compared(gt, prefix) & ~low.starts_with(prefix)
    true = ~(_is(lt, high, prefix) | below_low)
    if low is None or high is None:
        return _answers(ranges, true, YES)
    if expression.only_prefix:  # strings between two that share a prefix share it too
        return _answers(ranges, true, ~(low.starts_with(prefix) & high.starts_with(prefix)))
    point = ranges.point
    if not point.any():
        return _answers(ranges, true, YES)
    matches = low.matches(expression.regex, point)
    return _answers(ranges, np.where(point, matches, true), ~(point & matches))
