"""Minimum and maximum of each column, collected batch by batch. The bounds never exclude an existing row.

Nulls are ignored. Binaries, arrays, maps and structs have no bounds. Nor has a float column with a NaN, since NaN has no place in the order
of numbers, or a column with a time outside the years 1 to 9999, which the log cannot represent. Strings compare by code point, which is
the order of their UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.schema import has_order
from indextables.splits.format.bundle import ColumnStatistics
from indextables.values import decode_value, encode_value


class _Column:
    """Bounds of one column; temporal values stay Arrow integers, since Python's types do not cover Arrow's range."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.nulls = 0
        self.bounded = has_order(kind)
        self.low: Any = None
        self.high: Any = None

    def add(self, values: pa.Array) -> None:
        self.nulls += values.null_count
        if not self.bounded or values.null_count == len(values):
            return
        if pa.types.is_floating(self.kind) and pc.any(pc.is_nan(values)).as_py():
            self.bounded = False
            return
        if pa.types.is_temporal(self.kind):
            values = values.view(pa.int32() if pa.types.is_date32(self.kind) else pa.int64())
        bounds = pc.min_max(values).as_py()
        self.low = bounds["min"] if self.low is None else min(self.low, bounds["min"])
        self.high = bounds["max"] if self.high is None else max(self.high, bounds["max"])

    def result(self, length: int | None) -> ColumnStatistics:
        if not self.bounded or self.low is None:
            return ColumnStatistics(self.nulls)
        if isinstance(self.low, str):
            return ColumnStatistics(self.nulls, self.low[:length], truncated_maximum(self.high, length))
        try:
            low, high = (encode_value(pa.scalar(bound, self.kind).as_py(), self.kind) for bound in (self.low, self.high))
        except (OverflowError, ValueError):
            return ColumnStatistics(self.nulls)
        return ColumnStatistics(self.nulls, low, high)


class StatsCollector:
    """Statistics of all columns of a schema; strings are truncated to `length` characters, except in partition columns."""

    def __init__(self, schema: pa.Schema, length: int, partition_columns: Sequence[str] = ()) -> None:
        self._columns = {field.name: _Column(field.type) for field in schema}
        self._lengths = {name: None if name in partition_columns else length for name in schema.names}

    def add(self, batch: pa.RecordBatch) -> None:
        for column, values in zip(self._columns.values(), batch.columns, strict=True):
            column.add(values)

    def result(self) -> dict[str, ColumnStatistics]:
        return {name: column.result(self._lengths[name]) for name, column in self._columns.items()}


def truncated_maximum(value: str, length: int | None) -> str | None:
    """A string of at most `length` characters that is not below `value`; None if there is none."""
    if length is None or len(value) <= length:
        return value
    for end in range(length, 0, -1):
        point = ord(value[end - 1])
        if point < 0x10FFFF:
            # The code points D800 to DFFF are surrogates, which are invalid in a string.
            return value[: end - 1] + chr(0xE000 if point == 0xD7FF else point + 1)
    return None


def merge_statistics(schema: pa.Schema, parts: Sequence[tuple[int, Mapping[str, ColumnStatistics]]]) -> dict[str, ColumnStatistics]:
    """Bounds of the union of `parts`, each of which is a number of rows and their statistics."""
    return {field.name: _merge_column(field, parts) for field in schema}


def _merge_column(field: pa.Field, parts: Sequence[tuple[int, Mapping[str, ColumnStatistics]]]) -> ColumnStatistics:
    columns = [(rows, part[field.name]) for rows, part in parts]
    nulls = sum(column.nulls for _, column in columns)
    filled = [column for rows, column in columns if column.nulls < rows]  # parts with nulls only do not affect the bounds
    lows = [column.min for column in filled if column.min is not None]
    highs = [column.max for column in filled if column.max is not None]
    return ColumnStatistics(
        nulls,
        min(lows, key=lambda text: decode_value(text, field.type)) if lows and len(lows) == len(filled) else None,
        max(highs, key=lambda text: decode_value(text, field.type)) if highs and len(highs) == len(filled) else None,
    )
