"""`group_by` of an aggregation: columns, and buckets of numbers and times. Parsed against the schema, then applied to Arrow columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import parse_duration
from indextables.errors import InvalidArgument
from indextables.operations.search import requested_columns

_CALENDAR = re.compile(r"([0-9]{0,4})\s*(month|quarter|year)s?")
_DAY_MS = 86_400_000
_MONDAY_MS = 4 * _DAY_MS  # the first Monday after 1970-01-01


@dataclass(frozen=True, slots=True)
class GroupKey:
    name: str  # in the result
    column: str
    source: pa.DataType  # of the column
    kind: pa.DataType  # of the result
    bucket: Callable[[pa.Array], pa.Array]

    def values(self, chunk: pa.Table) -> pa.Array:
        found = self.bucket(chunk.column(self.column).combine_chunks())
        if not pa.types.is_floating(self.kind):
            return found
        # As in Spark, -0.0 equals 0.0 and all NaN are equal.
        return pc.if_else(pc.is_nan(found), pa.scalar(math.nan, self.kind), pc.add(found, pa.scalar(0.0, self.kind)))


def parse_groups(schema: pa.Schema, group_by: Sequence[Any] | Mapping[str, Any] | None) -> tuple[GroupKey, ...]:
    """Parses column names, or name -> column, ("histogram", column, width) or ("date_histogram", column, "1h").

    InvalidArgument names an invalid group.
    """
    if group_by is None:
        return ()
    if isinstance(group_by, str):
        raise InvalidArgument(f"group_by {group_by!r} is not a list of column names")
    items = group_by.items() if isinstance(group_by, Mapping) else [(name, name) for name in group_by]
    return tuple(_parse(schema, name, given) for name, given in items)


def _parse(schema: pa.Schema, name: Any, given: Any) -> GroupKey:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"group_by {name!r} is not a non-empty string")
    if isinstance(given, str):
        kind = _type_of(schema, given)
        if pa.types.is_nested(kind):
            raise InvalidArgument(f"cannot group by column {given!r} of type {kind}")
        return GroupKey(name, given, kind, kind, lambda values: values)
    if isinstance(given, tuple | list) and len(given) == 3 and given[0] in ("histogram", "date_histogram"):
        make = _histogram if given[0] == "histogram" else _date_histogram
        return make(schema, name, given[1], given[2])
    raise InvalidArgument(
        f"group_by {name!r} is {given!r}; expected a column, ('histogram', column, width) or ('date_histogram', column, interval)"
    )


def _type_of(schema: pa.Schema, column: Any) -> pa.DataType:
    requested_columns(schema, [column])
    return schema.field(column).type


def _histogram(schema: pa.Schema, name: str, column: str, width: Any) -> GroupKey:
    """Buckets labelled by their lower bounds, multiples of `width`. Exact for integers with an integer width."""
    kind = _type_of(schema, column)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InvalidArgument(f"a histogram requires a column of numbers, but {column!r} has type {kind}")
    size = _width(width)
    if pa.types.is_integer(kind) and isinstance(size, int):
        return GroupKey(name, column, kind, pa.int64(), lambda values: _floored(values.cast(pa.int64()), size))

    def bucket(values: pa.Array) -> pa.Array:
        return pc.multiply(pc.floor(pc.divide(values.cast(pa.float64(), safe=False), size)), size)

    return GroupKey(name, column, kind, pa.float64(), bucket)


def _width(width: Any) -> int | float:
    """The width as an integer if it is one; the terminal passes strings."""
    size: int | float
    try:
        text = str(width).strip()
        size = int(text) if re.fullmatch(r"[0-9]{1,18}", text) else float(text)
    except ValueError:
        size = math.nan
    if isinstance(width, bool) or not 0 < size < math.inf:
        raise InvalidArgument(f"the width {width!r} of a histogram is not a number above 0")
    return size


def _date_histogram(schema: pa.Schema, name: str, column: str, interval: Any) -> GroupKey:
    """Buckets labelled by their start in UTC. Weeks start on Monday; other intervals are aligned to 1970-01-01."""
    kind = _type_of(schema, column)
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidArgument(f"a date_histogram requires a column of dates or timestamps, but {column!r} has type {kind}")
    calendar = _CALENDAR.fullmatch(interval) if isinstance(interval, str) else None
    if calendar is not None:
        multiple = int(calendar[1] or 1)
        if not multiple:
            raise InvalidArgument(f"the interval {interval!r} of a date_histogram is empty")
        return GroupKey(name, column, kind, kind, lambda values: _calendar_floored(values, multiple, calendar[2]))
    step = parse_duration(interval)
    if step <= 0:
        raise InvalidArgument(f"the interval {interval!r} of a date_histogram is empty")
    origin = _MONDAY_MS if interval.strip()[-1] in "wW" else 0
    if pa.types.is_date(kind):
        if step % _DAY_MS:
            raise InvalidArgument(
                f"column {column!r} holds dates, but the interval {interval!r} of its date_histogram is not a whole number of days"
            )
        return GroupKey(name, column, kind, kind, lambda values: _floored_days(values, step // _DAY_MS, origin // _DAY_MS))
    return GroupKey(name, column, kind, kind, lambda values: _floored(values.view(pa.int64()), step * 1000, origin * 1000).view(kind))


def _floored_days(values: pa.Array, step: int, origin: int) -> pa.Array:
    days = _floored(values.view(pa.int32()).cast(pa.int64()), step, origin)
    return days.cast(pa.int32()).view(pa.date32())


def _calendar_floored(values: pa.Array, multiple: int, unit: str) -> pa.Array:
    if pa.types.is_date(values.type):
        return pc.floor_temporal(values.cast(pa.timestamp("s")), multiple, unit).cast(pa.date32())
    local = values.view(pa.timestamp("us"))  # without time zone, so that Arrow needs no time zone database
    return pc.floor_temporal(local, multiple, unit).view(values.type)


def _floored(values: pa.Array, step: int, origin: int = 0) -> pa.Array:
    """The largest multiple of `step` from `origin` that does not exceed each value; nulls stay null."""
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        found = numbers - np.mod(numbers - origin, step)
    if (found > numbers).any():
        raise InvalidArgument(f"the value {int(numbers[found > numbers][0])} is too small for buckets of {step}")
    return pc.if_else(pc.is_valid(values), pa.array(found), pa.scalar(None, pa.int64()))
