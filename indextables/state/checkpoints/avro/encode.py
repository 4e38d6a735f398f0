"""Encodes file entries from columns to Avro records, all rows of a slice at once.

Numpy encodes numbers and lengths, Arrow joins the bytes of the fields row by row; no Python code runs per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import columns
from indextables.state.checkpoints.avro.entry import FIELDS, UNSTATED, Field, FieldType

BLOCK_ROWS = 16_384
BLOCK_BYTES = 16 * 1024 * 1024  # approximate size of the columns of a block, whose offsets have 32 bits

Longs = npt.NDArray[np.int64]


def blocks(rows: pa.Table) -> Iterator[tuple[bytes, npt.NDArray[np.uint32]]]:
    """For each slice of rows: its records as one block, and the length of each record."""
    if not rows.num_rows:
        return
    size = max(1, min(BLOCK_ROWS, BLOCK_BYTES * rows.num_rows // max(1, rows.nbytes)))
    for start in range(0, rows.num_rows, size):
        joined = _joined(rows.slice(start, size).combine_chunks())
        _, buffer, data = joined.buffers()
        offsets = np.frombuffer(buffer, np.int32, len(joined) + 1, 4 * joined.offset)
        yield data[int(offsets[0]) : int(offsets[-1])].to_pybytes(), np.diff(offsets).astype(np.uint32)


def _joined(rows: pa.Table) -> pa.BinaryArray:
    """The records. Adjacent constants are joined first, so that fields that are never set cost nothing."""
    parts: list[bytes | pa.Array] = []
    for field in FIELDS:
        for part in _parts(field, rows):
            if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
                parts[-1] += part
            else:
                parts.append(part)
    arguments = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*arguments, pa.scalar(b"", pa.binary()))


def _parts(field: Field, rows: pa.Table) -> list[bytes | pa.Array]:
    column = _column(field, rows)
    if field.nullable and column.null_count == len(column):
        return [b"\0"]
    if field.kind is FieldType.STRING:
        return _strings(column, field.nullable)
    if field.kind in (FieldType.MAP, FieldType.ARRAY):
        return _collections(column, field.nullable)
    if field.kind is FieldType.BOOLEAN:
        return _booleans(column, field.nullable)
    return [varints(_longs(column), pc.is_valid(column) if field.nullable else None)]


def _column(field: Field, rows: pa.Table) -> pa.Array:
    name = "has_footer_offsets" if field.column == UNSTATED else field.column
    chunks = rows.column(name).chunks
    column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    if field.column == UNSTATED:
        unstated = column.is_null()
        return pc.if_else(unstated, pa.scalar(True), pa.scalar(None, pa.bool_()))
    if not field.nullable and field.kind is not FieldType.MAP and column.null_count:
        return column.fill_null(False if field.kind is FieldType.BOOLEAN else 0)
    return column


def _longs(column: pa.Array) -> Longs:
    found: Longs = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _booleans(column: pa.Array, nullable: bool) -> list[bytes | pa.Array]:
    words = [b"\2\0", b"\2\1", b"\0"] if nullable else [b"\0", b"\1"]
    codes = pc.if_else(column, pa.scalar(1, pa.int8()), pa.scalar(0, pa.int8())).fill_null(2)
    return [pa.array(words, pa.binary()).take(codes)]


def _strings(column: pa.Array, nullable: bool) -> list[bytes | pa.Array]:
    texts = column.cast(pa.binary())
    valid = pc.is_valid(texts) if nullable and texts.null_count else None
    lengths = _longs(pc.binary_length(texts))
    union = [b"\2"] if nullable and valid is None else []
    return [*union, varints(lengths, valid), texts.fill_null(b"") if texts.null_count else texts]


def _collections(column: pa.Array, nullable: bool) -> list[bytes | pa.Array]:
    """The item count, the items, and a final zero; only the zero if there are no items."""
    offsets = column.offsets.to_numpy()
    counts = np.diff(offsets).astype(np.int64)
    valid = pc.is_valid(column)
    missing = ~valid.to_numpy(zero_copy_only=False)
    counts[missing] = 0
    if column.null_count:
        items, bounds = _items(column.filter(valid))
        present_before = np.zeros(len(column) + 1, np.int64)
        present_before[1:] = np.cumsum(~missing)
        starts = bounds[present_before]
    else:
        items, starts = _items(column)
    several = _sliced(items, starts)
    ends = np.where(missing, 0, 1)
    head = varints(counts, None, empty=counts == 0)
    end = b"\0" if not missing.any() else pa.array([b"", b"\0"], pa.binary()).take(pa.array(ends))
    if not nullable:
        # A missing map is written as an empty one.
        return [head, several, b"\0"]
    union: bytes | pa.Array = b"\2" if not missing.any() else pa.array([b"\0", b"\2"], pa.binary()).take(pa.array(ends))
    return [union, head, several, end]


def _items(column: pa.Array) -> tuple[pa.Array, Longs]:
    """The encoded items of all rows of a column without nulls, and the index of the first item of each row."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    parts: list[Any] = []
    for texts in (column.keys, column.items) if pa.types.is_map(column.type) else (column.values,):
        cut = texts.slice(first, last - first).cast(pa.binary())
        parts += [varints(_longs(pc.binary_length(cut))), cut]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary())), offsets - first


def _sliced(items: pa.Array, starts: Longs) -> pa.Array:
    """The items of each row joined into one value: the same bytes with fewer offsets."""
    if not len(items):
        return pa.array([b""], pa.binary()).take(pa.array(np.zeros(len(starts) - 1, np.int64)))
    _, buffer, data = items.buffers()
    offsets = np.frombuffer(buffer, np.int32, len(items) + 1, 4 * items.offset)[starts]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data])


def varints(values: Longs, valid: pa.Array | None = None, *, empty: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Zigzag varints. With `valid`, the union branch precedes each value, and an invalid value is the null branch only; where `empty` is
    set the result has no bytes."""
    if valid is None and empty is None and len(values) and values.min() >= 0 and values.max() < len(_TABLE):
        return _TABLE.take(pa.array(values))  # most numbers are small
    return _encoded(values, valid, empty)


def _encoded(values: Longs, valid: pa.Array | None, empty: npt.NDArray[np.bool_] | None) -> pa.Array:
    unsigned = ((values << 1) ^ (values >> 63)).view(np.uint64)
    lengths = np.ones(len(values), np.int64)
    rest = unsigned >> np.uint64(7)
    while rest.any():
        lengths += rest > 0
        rest >>= np.uint64(7)
    most = int(lengths.max(initial=1))
    matrix = np.empty((len(values), most + 1), np.uint8)
    matrix[:, 0] = 2
    for index in range(most):
        seven = (unsigned >> np.uint64(7 * index)).astype(np.uint8) & np.uint8(0x7F)
        matrix[:, index + 1] = np.where(index < lengths - 1, seven | np.uint8(0x80), seven)
    begin = 1
    if valid is not None:
        begin, known = 0, valid.to_numpy(zero_copy_only=False)
        matrix[~known, 0] = 0
        lengths = np.where(known, lengths + 1, 1)
    if empty is not None:
        lengths = np.where(empty, 0, lengths)
    matrix = matrix[:, begin:]
    data = np.ascontiguousarray(matrix[np.arange(matrix.shape[1]) < lengths[:, None]])
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


_TABLE = _encoded(np.arange(4096), None, None)
assert {*columns.SCHEMA.names, UNSTATED} == {field.column for field in FIELDS}
