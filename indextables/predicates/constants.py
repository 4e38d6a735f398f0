"""Builds Arrow arrays and scalars of literals.

pa.array and pa.scalar import pandas if it is installed (pyarrow 26, even with a type given), which costs a command 1.5 s.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from indextables.values import encode_value


def typed_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of literals of a bound expression, without nulls; `kind` is canonical, for numbers int64 or float64."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _from_buffers(kind, len(values), array("d" if pa.types.is_floating(kind) else "q", values))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        offsets = array("i", accumulate(map(len, encoded), initial=0))
        return _from_buffers(kind, len(values), offsets, b"".join(encoded))
    return typed_array([encode_value(value, kind) for value in values], pa.string()).cast(kind)


def typed_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, kind)[0] if value is None else typed_array([value], kind)[0]


def _from_buffers(kind: pa.DataType, length: int, *buffers: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, length, [None, *(pa.py_buffer(buffer) for buffer in buffers)])
