"""Builds Arrow arrays and scalars of literals from their bytes.

pa.array and pa.scalar import pandas if it is installed (pyarrow 26, even with a type given), which costs a command 1.5 s.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pyarrow as pa

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def typed_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of literals of a bound expression, without nulls; `kind` is canonical, for numbers int64 or float64."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        offsets = array("i", accumulate(map(len, encoded), initial=0))
        return _from_buffers(kind, len(values), offsets, b"".join(encoded))
    if pa.types.is_boolean(kind):
        bits = bytearray((len(values) + 7) // 8)
        for at, value in enumerate(values):
            bits[at // 8] |= int(value) << at % 8
        return _from_buffers(kind, len(values), bytes(bits))
    if pa.types.is_decimal(kind):
        return _from_buffers(
            kind, len(values), b"".join(_unscaled(value, kind.scale).to_bytes(16, "little", signed=True) for value in values)
        )
    if pa.types.is_date(kind):
        return _from_buffers(kind, len(values), array("i", [day.toordinal() - _EPOCH_DAY for day in values]))
    if pa.types.is_timestamp(kind):
        return _from_buffers(kind, len(values), array("q", [_microseconds(moment) for moment in values]))
    return _from_buffers(kind, len(values), array("d" if pa.types.is_floating(kind) else "q", values))


def typed_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, kind)[0] if value is None else typed_array([value], kind)[0]


def _from_buffers(kind: pa.DataType, length: int, *buffers: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, length, [None, *(pa.py_buffer(buffer) for buffer in buffers)])


def _unscaled(value: Decimal, scale: int) -> int:
    """Exact, whatever the precision of decimal's context."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # not NaN or infinity
    written = int("".join(map(str, digits)))
    shift = exponent + scale
    magnitude: int = written * 10**shift if shift >= 0 else written // 10**-shift
    return -magnitude if sign else magnitude


def _microseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
