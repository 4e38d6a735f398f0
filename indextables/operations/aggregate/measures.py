"""The functions of an aggregation, each composed of parts that are computed per chunk and combined without loss.

Sums of integers are exact 64-bit integers; an overflow is an error. Sums of floats are doubles, sums of decimals decimals; averages are
doubles. Nulls are ignored; without values min, max, sum and avg are null. As in Spark, NaN is the largest number and a sum with NaN is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument
from indextables.operations.search import requested_columns
from indextables.splits import ColumnNumbers

FUNCTIONS = ("count", "count_distinct", "sum", "min", "max", "avg")
_LOW = 0xFFFF_FFFF
_EXACT = 2**53  # doubles represent integers below it exactly


@dataclass(frozen=True, slots=True)
class Part:
    """One column of a partial result."""

    name: str
    function: str  # Arrow's aggregate function over the rows of a group
    merge: str  # Arrow's aggregate function that combines partial results
    values: Callable[[pa.Array], pa.Array]  # column -> input of the function


@dataclass(frozen=True, slots=True)
class Measure:
    name: str  # in the result
    function: str
    column: str | None  # None for count(*)
    kind: pa.DataType | None  # of the column
    parts: tuple[Part, ...]

    def result(self, partial: pa.Table) -> pa.Array:
        """The values for the groups of a complete partial result."""
        parts = [partial.column(part.name).combine_chunks() for part in self.parts]
        if self.function in ("min", "max"):
            return self._bound(parts)
        if self.function in ("sum", "avg"):
            return self._sum(parts)
        return pc.fill_null(parts[0], 0)

    def parts_of(self, known: ColumnNumbers) -> dict[str, Any] | None:
        """The parts from statistics of tantivy over some rows; None if its doubles may be inexact or NaN is among the values."""
        if self.function not in ("count", "sum", "avg", "min", "max"):
            return None
        if self.function == "count" or not known.count:
            return {part.name: known.count if part.function == "count" else None for part in self.parts}
        whole = pa.types.is_integer(self.kind)
        largest = max(abs(known.low), abs(known.high))
        if not (known.count * largest < _EXACT if whole else math.isfinite(known.total)):
            return None
        if self.function in ("min", "max"):
            bound = known.low if self.function == "min" else known.high
            return {part.name: 0 if part.function == "sum" else int(bound) if whole else bound for part in self.parts}
        halves = [int(known.total) >> 32, int(known.total) & _LOW] if whole else [known.total]
        return dict(zip([part.name for part in self.parts], [*halves, known.count], strict=True))

    def _bound(self, parts: list[pa.Array]) -> pa.Array:
        if len(parts) == 1:
            return parts[0]
        values, nans = parts
        has_nan = pc.greater(nans, 0)
        wins = has_nan if self.function == "max" else pc.and_(has_nan, pc.is_null(values))
        return pc.if_else(pc.fill_null(wins, False), pa.scalar(math.nan, values.type), values)

    def _sum(self, parts: list[pa.Array]) -> pa.Array:
        *sums, counts = parts
        if len(sums) == 1:
            exact = sums[0].to_pylist() if self.function == "avg" else []
            return sums[0] if self.function == "sum" else _quotients(exact, counts)
        numbers = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
        high, low = (pc.fill_null(part, 0).to_numpy(zero_copy_only=False) for part in sums)
        if self.function == "avg":
            return _quotients([(int(h) << 32) + int(w) for h, w in zip(high, low, strict=True)], counts)
        high = high + (low >> 32)
        if (high >= 1 << 31).any() or (high < -(1 << 31)).any():
            raise InvalidArgument(f"a sum of column {self.column!r} does not fit into 64 bits; use avg or more groups")
        return pa.array((high << 32) | (low & _LOW), mask=numbers == 0)


def _quotients(sums: Sequence[Any], counts: pa.Array) -> pa.Array:
    return pa.array([float(s / n) if n else None for s, n in zip(sums, counts.to_pylist(), strict=True)], pa.float64())


def parse_measures(schema: pa.Schema, aggs: Mapping[str, Any]) -> tuple[Measure, ...]:
    """Parses name -> (function, column); count also takes `*`. InvalidArgument names an invalid measure."""
    if not isinstance(aggs, Mapping) or not aggs:
        raise InvalidArgument(f"aggs {aggs!r} is not a non-empty mapping like {{'n': ('count', '*')}}")
    return tuple(_parse(schema, number, name, given) for number, (name, given) in enumerate(aggs.items()))


def _parse(schema: pa.Schema, number: int, name: Any, given: Any) -> Measure:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"an aggregate cannot be named {name!r}")
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidArgument(f"aggregate {name!r} is {given!r}; expected a function ({', '.join(FUNCTIONS)}) with a column")
    if given[0] not in FUNCTIONS:
        raise InvalidArgument(f"aggregate {name!r} has the unknown function {given[0]!r}; use one of {', '.join(FUNCTIONS)}")
    function, column = given
    if column == "*" and function == "count":
        return Measure(name, function, None, None, (Part(f"m{number}", "count_all", "sum", _unchanged),))
    requested_columns(schema, [column])
    kind = schema.field(column).type
    return Measure(name, function, column, kind, _parts(f"m{number}", function, column, kind))


def _parts(name: str, function: str, column: str, kind: pa.DataType) -> tuple[Part, ...]:
    count = Part(f"{name}_n", "count", "sum", _unchanged)
    if function == "count":
        return (count,)
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise InvalidArgument(f"{function} does not support column {column!r} of type {kind}")
    if function == "count_distinct":
        return ()
    if function in ("min", "max"):
        if not pa.types.is_floating(kind):
            return (Part(name, function, function, _unchanged),)
        nans = Part(f"{name}_nan", "sum", "sum", lambda values: pc.is_nan(values).cast(pa.int64()))
        return Part(name, function, function, _numbers), nans
    if pa.types.is_integer(kind):
        return Part(f"{name}_high", "sum", "sum", _high), Part(f"{name}_low", "sum", "sum", _low), count
    if pa.types.is_decimal(kind):
        return Part(name, "sum", "sum", _unchanged), count
    if pa.types.is_floating(kind):
        return Part(name, "sum", "sum", lambda values: values.cast(pa.float64())), count
    raise InvalidArgument(f"{function} requires a column of numbers, but {column!r} has type {kind}")


def _unchanged(values: pa.Array) -> pa.Array:
    return values


def _numbers(values: pa.Array) -> pa.Array:
    """The values with NaN replaced by null, because Arrow's min and max handle NaN inconsistently."""
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def _high(values: pa.Array) -> pa.Array:
    """The upper halves; summed separately from the lower halves, so that 2^31 rows do not overflow 64 bits."""
    return pc.shift_right(values.cast(pa.int64()), 32)


def _low(values: pa.Array) -> pa.Array:
    return pc.bit_wise_and(values.cast(pa.int64()), np.int64(_LOW))
