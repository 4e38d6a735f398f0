"""Which files can hold a row that matches: decided from partition values and min/max statistics alone (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import pyarrow as pa

from indextables.limits import STATS_CHARACTERS
from indextables.predicates import Predicate
from indextables.predicates.expressions import order_key
from indextables.predicates.literals import single
from indextables.predicates.outcomes import TRUE, UNKNOWN, Domain, exactly, outcomes
from indextables.values import decode_value


class FileStats(Protocol):
    """What the log says of a file, in the log's spelling."""

    @property
    def partition_values(self) -> Mapping[str, str]: ...  # a partition column that is missing is null
    @property
    def min_values(self) -> Mapping[str, str]: ...
    @property
    def max_values(self) -> Mapping[str, str]: ...
    @property
    def num_records(self) -> int | None: ...


def may_match(
    predicate: Predicate, stats: FileStats, schema: pa.Schema, partition_columns: Sequence[str], *, trusted_bounds: bool = True
) -> bool:
    """False only if no row of the file can match.

    `trusted_bounds` False is for files of other writers, whose string maxima may be cut off (decisions.md, C-51) and whose floating-point
    maxima may leave NaN out.
    """
    if stats.num_records == 0:
        return False

    @cache
    def domain(name: str) -> Domain:
        kind = schema.field(name).type
        if kind != predicate.schema.field(name).type:
            return UNKNOWN
        if name in partition_columns:
            return _partition_domain(stats.partition_values.get(name), kind)
        high = _decoded(stats.max_values.get(name), kind)
        return _range(_decoded(stats.min_values.get(name), kind), high if trusted_bounds or _is_bound(high) else None)

    return bool(outcomes(predicate.expression, domain) & TRUE)


def decided_by_partition(predicate: Predicate, partition_columns: Sequence[str]) -> bool:
    """Whether all rows of a file get the same answer, since the predicate uses partition columns only."""
    return predicate.columns <= set(partition_columns)


def _partition_domain(text: str | None, kind: pa.DataType) -> Domain:
    value = _decoded(text, kind)
    return UNKNOWN if text is not None and value is None else exactly(value)


def _range(low: Any, high: Any) -> Domain:
    """No column has NaN for a bound, or bounds in the wrong order: such statistics are somebody's mistake and say nothing."""
    if low != low or high != high:
        return UNKNOWN
    if low is not None and high is not None and order_key(low) > order_key(high):
        return UNKNOWN
    return Domain(low, high)


def _is_bound(high: Any) -> bool:
    return not isinstance(high, float) and not (isinstance(high, str) and len(high) >= STATS_CHARACTERS)


def _decoded(text: str | None, kind: pa.DataType) -> Any:
    """None where nothing is known: there is no such statistic, or it is not a value of the column's type."""
    if text is None:
        return None
    try:
        if pa.types.is_string(kind):
            text.encode()  # half a surrogate pair has no place in the order
        value = decode_value(text, kind)
        return single(float(value)) if pa.types.is_float32(kind) and isinstance(value, float) else value
    except (ValueError, OverflowError):
        return None
