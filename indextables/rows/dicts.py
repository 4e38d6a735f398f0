"""Converts rows given as dicts to record batches of the table's schema. Refuses lossy conversions, which Arrow allows (1.5 to 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaMismatch

_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def from_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, first_row: int) -> pa.RecordBatch:
    """A missing key is null. SchemaMismatch names an unknown key, or a value that does not have its column's type."""
    names = set(schema.names)
    for number, row in enumerate(rows, start=first_row):
        if not names.issuperset(row):
            unknown = next(key for key in row if key not in names)
            raise SchemaMismatch(f"row {number} has a column {unknown!r}, which the table does not have")
    columns = [_column([row.get(field.name) for row in rows], field, first_row) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: pa.Field, first_row: int) -> pa.Array:
    try:
        column = pa.array(values, field.type)
        if _is_plain(values, column):
            return column
    except _FAILURES:
        column = None
    for number, value in enumerate(values):
        if not _fits(value, field.type):
            raise SchemaMismatch(f"row {first_row + number}, column {field.name!r}: {value!r:.80} is not a value of type {field.type}")
    if column is None:
        raise SchemaMismatch(f"column {field.name!r} does not fit type {field.type}")
    return column


def _is_plain(values: list[Any], column: pa.Array) -> bool:
    """Whether Arrow converts all values of these Python types without loss, so that they need no check one by one."""
    kind = column.type
    if pa.types.is_nested(kind):
        return False
    for is_kind, python_type in ((pa.types.is_integer, int), (pa.types.is_date, date), (pa.types.is_timestamp, datetime)):
        if is_kind(kind):
            return set(map(type, values)) <= {python_type, NoneType}
    return not (pa.types.is_float32(kind) and pc.any(pc.is_inf(column)).as_py())


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        return _is_kept(value, pa.array([value], kind)[0])
    except _FAILURES:
        return False


def _is_kept(value: Any, scalar: pa.Scalar) -> bool:
    """Whether Arrow converted a value without loss. Rounding a float to float32 is allowed, because Python has no float32."""
    kind = scalar.type
    if value is None or not scalar.is_valid or isinstance(value, pa.Scalar):  # Arrow accepts a scalar only in its own type
        return True
    if pa.types.is_integer(kind):
        return bool(scalar.as_py() == value)
    if pa.types.is_floating(kind):
        return not math.isinf(scalar.as_py()) or math.isinf(value)
    if pa.types.is_date(kind):
        return not isinstance(value, float | datetime) or (isinstance(value, datetime) and value.time() == time())
    if pa.types.is_timestamp(kind):
        return not isinstance(value, float) and not getattr(value, "nanosecond", 0)  # of pandas; Arrow would truncate them
    if pa.types.is_struct(kind):
        given = dict(value)
        return given.keys() <= {field.name for field in kind} and all(_is_kept(item, scalar[name]) for name, item in given.items())
    if pa.types.is_map(kind):
        pairs = [part for pair in (value.items() if isinstance(value, Mapping) else value) for part in pair]
        return all(_is_kept(*both) for both in zip(pairs, (part for entry in scalar.values for part in entry.values()), strict=True))
    if not pa.types.is_nested(kind):
        return True
    if isinstance(value, str | bytes | Mapping):  # Arrow would use its characters or keys as elements
        return False
    return all(_is_kept(*both) for both in zip(value, scalar.values, strict=True))
