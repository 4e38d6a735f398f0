"""What a predicate can come to for many files at once, when of each column only a range is known.

The outcomes of a file are some of true, false and null: every answer that a row within its ranges can get, and perhaps more where the
same column is used twice. With every column known exactly there is exactly one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa

from indextables.predicates.expressions import (
    Always,
    And,
    Compare,
    CompareColumns,
    Constant,
    Expr,
    Flag,
    In,
    Is,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
)
from indextables.predicates.keys import Integers, Key, Keys, Mask, Texts, between, exceeds, key_of, lifted, same

YES: Mask = np.array(True)  # for every file: masks of one element stretch to any number
NO: Mask = np.array(False)
TRUE, FALSE, NULL = 1, 2, 4  # answers that are wanted; comparing a million texts takes milliseconds, so the others are not looked for
_ANY = TRUE | FALSE | NULL
_BIT: dict[bool | None, int] = {True: TRUE, False: FALSE, None: NULL}
_OPPOSITE: dict[Operator, Operator] = {"<>": "=", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """What is known of a column in each file: its values that are not null lie between the bounds, both included."""

    kind: pa.DataType
    low: Keys | None = None  # None: not known of any file
    high: Keys | None = None
    null: Mask = field(default_factory=lambda: YES)  # whether a row may be null,
    value: Mask = field(default_factory=lambda: YES)  # and whether one may not

    @property
    def point(self) -> Mask:
        """Where only one value is possible, besides null."""
        return NO if self.low is None or self.high is None else same(self.low, self.high)

    def take(self, rows: Integers) -> Ranges:
        """The same of some of the files."""
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
    """For each file, which answers its rows may get."""

    true: Mask
    false: Mask
    null: Mask

    def inverted(self) -> Outcomes:
        return Outcomes(self.false, self.true, self.null)

    def both(self, other: Outcomes) -> Outcomes:
        """AND: false wins over null, null over true."""
        null = (self.null | other.null) & (self.true | self.null) & (other.true | other.null)
        return Outcomes(self.true & other.true, self.false | other.false, null)

    def of(self, answer: bool | None) -> Mask:
        return self.null if answer is None else self.true if answer else self.false

    def other_than(self, answer: bool | None) -> Mask:
        return self.true | self.false if answer is None else self.null | (self.false if answer else self.true)


def outcomes(expression: Expr, ranges: Callable[[str], Ranges], wanted: int = _ANY) -> Outcomes:
    """Masks of one element, or of as many as the ranges have. An answer that is not wanted may be said to be possible where it is not."""
    match expression:
        case Constant(value):
            return Outcomes(*(YES if value is answer else NO for answer in (True, False, None)))
        case Flag(name):
            return _compare("=", ranges(name), True, wanted)
        case Compare(operator, name, value):
            return _compare(operator, ranges(name), value, wanted)
        case CompareColumns(operator, left, right, common):
            return _compare_columns(operator, _lifted(ranges(left), common), _lifted(ranges(right), common))
        case Always(name, value):
            return _answers(ranges(name), YES if value else NO, NO if value else YES)
        case In():
            return _in(expression, ranges(expression.column), wanted)
        case Like():
            return _like(expression, ranges(expression.column))
        case IsNull(name):
            return Outcomes(ranges(name).null, ranges(name).value, NO)
        case Is(operand, value):
            asked = (_BIT[value] if wanted & TRUE else 0) | (_ANY & ~_BIT[value] if wanted & FALSE else 0)
            found = outcomes(operand, ranges, asked)
            return Outcomes(found.of(value), found.other_than(value), NO)
        case Not(operand):
            return outcomes(operand, ranges, _swapped(wanted)).inverted()
        case And(operands):
            asked = wanted | (TRUE if wanted & NULL else 0)
            return _all(outcomes(operand, ranges, asked) for operand in operands)
        case Or(operands):
            asked = wanted | (FALSE if wanted & NULL else 0)
            return _all(outcomes(operand, ranges, asked).inverted() for operand in operands).inverted()


def _all(found: Iterable[Outcomes]) -> Outcomes:
    return reduce(Outcomes.both, found)


def _swapped(wanted: int) -> int:
    return (wanted & NULL) | (TRUE if wanted & FALSE else 0) | (FALSE if wanted & TRUE else 0)


def _answers(known: Ranges, true: Mask, false: Mask) -> Outcomes:
    """The answers possible for a value, and null for null."""
    return Outcomes(true & known.value, false & known.value, known.null)


def _compare(operator: Operator, known: Ranges, value: object, wanted: int) -> Outcomes:
    if known.low is None and known.high is None:
        return _answers(known, YES, YES)
    if operator in _OPPOSITE:
        return _compare(_OPPOSITE[operator], known, value, _swapped(wanted)).inverted()
    key = key_of(value)
    if operator == "=":
        true = ~(_above(known.low, key) | _below(known.high, key))
        return _answers(known, true, ~(known.point & true) if wanted & FALSE else YES)
    strict = operator == "<"
    true = ~_above(known.low, key, or_equal=strict) if wanted & TRUE else YES
    return _answers(known, true, ~_below(known.high, key, or_equal=not strict) if wanted & FALSE else YES)


def _above(keys: Keys | None, key: Key, or_equal: bool = False) -> Mask:
    return NO if keys is None else keys.above(key, or_equal)


def _below(keys: Keys | None, key: Key, or_equal: bool = False) -> Mask:
    return NO if keys is None else keys.below(key, or_equal)


def _compare_columns(operator: Operator, left: Ranges, right: Ranges) -> Outcomes:
    if operator in _OPPOSITE:
        return _compare_columns(_OPPOSITE[operator], left, right).inverted()
    both = Ranges(left.kind, null=left.null | right.null, value=left.value & right.value)
    if operator == "=":
        true = ~(_exceeds(left.low, right.high) | _exceeds(right.low, left.high))
        return _answers(both, true, ~(left.point & right.point & true))
    strict = operator == "<"
    return _answers(both, ~_exceeds(left.low, right.high, or_equal=strict), ~_exceeds(right.low, left.high, or_equal=not strict))


def _exceeds(left: Keys | None, right: Keys | None, or_equal: bool = False) -> Mask:
    return NO if left is None or right is None else exceeds(left, right, or_equal)


def _lifted(known: Ranges, common: pa.DataType) -> Ranges:
    low, high = (None if keys is None else lifted(keys, known.kind, common) for keys in (known.low, known.high))
    return Ranges(common, low, high, known.null, known.value)


def _in(expression: In, known: Ranges, wanted: int) -> Outcomes:
    is_known = known.low is not None or known.high is not None
    true = between([key_of(value) for value in expression.values], known.low, known.high) if is_known else np.array(bool(expression.values))
    found = _answers(known, true, ~(true & known.point) if wanted & (FALSE | NULL) else YES)
    return Outcomes(found.true, NO, found.null | found.false) if expression.has_null else found


def _like(expression: Like, known: Ranges) -> Outcomes:
    prefix, low, high = expression.prefix, known.low, known.high
    assert isinstance(low, Texts | None), "LIKE is for strings"
    assert isinstance(high, Texts | None), "LIKE is for strings"
    below_low = NO if low is None else low.above(prefix) & ~low.starts_with(prefix)
    true = ~(_below(high, prefix) | below_low)
    if low is None or high is None:
        return _answers(known, true, YES)
    if expression.only_prefix:  # strings between two that share a prefix share it too
        return _answers(known, true, ~(low.starts_with(prefix) & high.starts_with(prefix)))
    point = known.point
    if not point.any():
        return _answers(known, true, YES)
    matches = low.matches(expression.regex, point)
    return _answers(known, np.where(point, matches, true), ~(point & matches))
