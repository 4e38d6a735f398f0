"""Decodes Avro records of file entries to columns, all records of a block at once.

Fields have no fixed offsets, so the decoder needs to know where each record begins: our manifests contain the length of each record. The
lengths are a hint: every record must end exactly where the next one begins, so the result is the same as with any other Avro reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import columns
from indextables.errors import LogCorrupted
from indextables.state.checkpoints.avro.entry import FIELDS, UNSTATED, Field, FieldType

MAX_ITEMS = 4096  # maximum items of a map or list; each costs a pass over the block
_PADDING = 16  # zero bytes after the block, because a number at its end may be read beyond it
_MAX_VARINT_BYTES = 10  # maximum bytes of a varint
_MAX_COMPARED_KEY = 64  # maximum length of map keys that are compared byte by byte
_ZEROS = pa.py_buffer(bytes(65_537 * 8))  # offsets and bitmap of columns with nulls only

Longs = npt.NDArray[np.int64]


class TooManyItems(Exception):
    """A map or list has more than MAX_ITEMS items; the manifest has to be decoded entry by entry."""


def decode_block(block: bytes, lengths: npt.NDArray[np.uint32], source: str) -> pa.Table:
    """Rows of `columns.SCHEMA`; LogCorrupted unless the records have exactly these lengths. Of their contents only UTF-8 is checked."""
    reader = _Reader(block, lengths.astype(np.int64), source)
    found = {field.column: reader.column(field) for field in FIELDS}
    reader.finish()
    unstated = found.pop(UNSTATED).to_numpy(zero_copy_only=False) == True  # noqa: E712
    stated = found["has_footer_offsets"]
    found["has_footer_offsets"] = pa.array(stated.to_numpy(zero_copy_only=False), pa.bool_(), mask=unstated) if unstated.any() else stated
    # 0 means unknown: upstream always writes 0, and version 0 adds no files. We write 0 if a commit does not record its time.
    for name in ("added_at_version", "added_at_timestamp"):
        values = found[name].to_numpy()
        found[name] = pa.array(values, pa.int64(), mask=values == 0)
    table = pa.Table.from_arrays([found[name] for name in columns.SCHEMA.names], schema=columns.SCHEMA)
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise LogCorrupted(f"{source} is damaged: {str(error)[:120]}") from error
    return table


@dataclass(slots=True)
class _Spans:
    """Start and end offsets of texts in the block, ascending."""

    starts: Longs
    ends: Longs


class _Reader:
    def __init__(self, block: bytes, lengths: Longs, source: str) -> None:
        self._source = source
        self._size = len(block)
        self._block = pa.py_buffer(block)
        self._data = np.frombuffer(block + bytes(_PADDING), np.uint8)
        self._ends = np.cumsum(lengths)
        self._at = self._ends - lengths
        if len(lengths) == 0 or int(self._ends[-1]) != self._size or self._size >= 2**31 - 1:
            raise self._damaged("the record lengths do not add up to the size of the block")

    def finish(self) -> None:
        if not np.array_equal(self._at, self._ends):
            raise self._damaged("a record does not have its declared length")

    def column(self, field: Field) -> pa.Array:
        if not field.nullable:
            return self._values(field, None)
        branch = self._bytes(None)
        if not branch.any():
            return _nulls(field, len(branch))
        if (branch & ~np.uint8(2)).any():
            raise self._damaged("a union has an unknown branch")
        return self._values(field, None if branch.all() else np.flatnonzero(branch))

    def _values(self, field: Field, rows: Longs | None) -> pa.Array:
        """The values of these rows, by default of all; other rows are null."""
        total = len(self._at)
        mask = None
        if rows is not None:
            mask = np.ones(total, bool)
            mask[rows] = False
        if field.kind is FieldType.STRING:
            return self._texts(self._span(rows), columns.SCHEMA.field(field.column).type, mask)
        if field.kind in (FieldType.MAP, FieldType.ARRAY):
            return self._collections(field, rows, mask)
        values: Any = self._bytes(rows) if field.kind is FieldType.BOOLEAN else self._longs(rows)
        if field.kind is FieldType.BOOLEAN:
            if (values > 1).any():
                raise self._damaged("a boolean is neither 0 nor 1")
            values = values.astype(bool)
        if rows is not None:
            spread = np.zeros(total, values.dtype)
            spread[rows] = values
            values = spread
        return pa.array(values, mask=mask)

    def _starts(self, rows: Longs | None) -> Longs:
        """The offsets of the next values of these rows."""
        at = self._at if rows is None else self._at[rows]
        if (at > self._size).any():
            raise self._damaged("a record does not have its declared length")
        return at

    def _bytes(self, rows: Longs | None) -> npt.NDArray[np.uint8]:
        at = self._starts(rows)
        self._move(rows, at + 1)
        found: npt.NDArray[np.uint8] = self._data[at]
        return found

    def _longs(self, rows: Longs | None) -> Longs:
        at = self._starts(rows)
        byte = self._data[at]
        more = np.flatnonzero(byte & np.uint8(0x80))
        if not len(more):  # all values have one byte, as lengths usually do
            self._move(rows, at + 1)
            small: Longs = (byte >> np.uint8(1)).astype(np.int64)
            return small ^ -(byte & np.uint8(1)).astype(np.int64) if (byte & np.uint8(1)).any() else small
        value = (byte & np.uint8(0x7F)).astype(np.uint64)
        at = at + 1
        shift = 7
        while len(more):
            if shift >= 7 * _MAX_VARINT_BYTES:
                raise self._damaged(f"a number has more than {_MAX_VARINT_BYTES} bytes")
            if len(more) == len(at):  # times and sizes have many bytes in every row: no rows need to be selected
                byte = self._data[at]
                value |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
                at += 1
                more = np.flatnonzero(byte & np.uint8(0x80))
            else:
                byte = self._data[at[more]]
                value[more] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
                at[more] += 1
                more = more[(byte & np.uint8(0x80)) != 0]
            shift += 7
        self._move(rows, at)
        signed = (value >> np.uint64(1)).view(np.int64)
        found: Longs = signed ^ -(value & np.uint64(1)).view(np.int64)
        return found

    def _span(self, rows: Longs | None) -> _Spans:
        lengths = self._longs(rows)
        starts = self._at if rows is None else self._at[rows]
        limits = self._ends if rows is None else self._ends[rows]
        if (lengths < 0).any() or (lengths > limits - starts).any():
            raise self._damaged("a text is longer than its record")
        ends = starts + lengths
        self._move(rows, ends.copy())  # a copy, because the span keeps `ends`
        return _Spans(starts, ends)

    def _move(self, rows: Longs | None, at: Longs) -> None:
        if rows is None:
            self._at = at
        else:
            self._at[rows] = at

    def _texts(self, spans: _Spans, kind: pa.DataType, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        """Texts as slices of the block: cut at every start and end, it is an array of which every second item is a text."""
        count = len(spans.starts)
        if count == 0:
            return pa.nulls(0, kind)
        cuts = np.empty(2 * count, np.int32)
        cuts[0::2], cuts[1::2] = spans.starts, spans.ends
        pieces = pa.Array.from_buffers(pa.string(), 2 * count - 1, [None, pa.py_buffer(cuts), self._block])
        numbers = np.arange(0, 2 * count, 2)
        if mask is not None:
            spread = np.zeros(len(mask), np.int64)
            spread[~mask] = numbers
            numbers = spread
        texts = pieces.take(pa.array(numbers, mask=mask))
        return texts if kind == pa.string() else texts.cast(kind)

    def _collections(self, field: Field, rows: Longs | None, mask: npt.NDArray[np.bool_] | None) -> pa.Array:
        total = len(self._at)
        active = np.arange(total) if rows is None else rows
        width = 2 if field.kind is FieldType.MAP else 1
        counts = np.zeros(total, np.int64)
        found: list[list[_Spans]] = [[] for _ in range(width)]
        rounds = 0
        while len(active):
            given = self._longs(active)
            negative = active[given < 0]
            if len(negative):
                self._longs(negative)  # the size of this array or map block in bytes, for readers that skip it
            active, given = active[given != 0], np.abs(given[given != 0])
            rounds += int(given.max(initial=0))
            if rounds > MAX_ITEMS or (given < 0).any():
                raise TooManyItems
            counts[active] += given
            for number in range(int(given.max(initial=0))):
                with_item = active if int(given.min()) > number else active[given > number]
                for spans in found:
                    spans.append(self._span(None if len(with_item) == total else with_item))
        offsets = np.zeros(total + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        is_even = rows is None and len({len(spans.starts) for spans in found[0]}) == 1
        same = self._same_for_all(found[0]) if is_even and width == 2 else None
        parts = [self._texts(_ordered(spans, is_even), pa.string()) if same is None or at else same for at, spans in enumerate(found)]
        nulls = None if mask is None else pa.array(mask)
        if width == 2:
            return pa.MapArray.from_arrays(pa.array(offsets), parts[0], parts[1], mask=nulls)
        return pa.ListArray.from_arrays(pa.array(offsets), parts[0], mask=nulls)

    def _same_for_all(self, spans: list[_Spans]) -> pa.Array | None:
        """The keys of all maps if every record has the same ones, which is usual: repeating them is faster than slicing them."""
        names: list[bytes] = []
        for span in spans:
            start, length = int(span.starts[0]), int(span.ends[0] - span.starts[0])
            if length > _MAX_COMPARED_KEY or (span.ends - span.starts != length).any():
                return None
            columns_of_bytes = (self._data[span.starts + at] for at in range(length))
            if any((column != column[0]).any() for column in columns_of_bytes):
                return None
            names.append(self._data[start : start + length].tobytes())
        total = len(spans[0].starts)
        offsets = np.zeros(len(names) * total + 1, np.int32)
        np.cumsum(np.tile(np.array([len(name) for name in names], np.int32), total), out=offsets[1:])
        return pa.Array.from_buffers(pa.string(), len(names) * total, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(names) * total)])

    def _damaged(self, why: str) -> LogCorrupted:
        return LogCorrupted(f"{self._source} is damaged: {why}")


def _ordered(spans: list[_Spans], is_even: bool) -> _Spans:
    """The spans of all items (one entry of `spans` per item number) in the order of the block, which is record by record."""
    if not spans:
        return _Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if is_even:
        return _Spans(np.stack([s.starts for s in spans], 1).ravel(), np.stack([s.ends for s in spans], 1).ravel())
    starts, ends = np.concatenate([s.starts for s in spans]), np.concatenate([s.ends for s in spans])
    order = np.argsort(starts, kind="stable")
    return _Spans(starts[order], ends[order])


def _nulls(field: Field, count: int) -> pa.Array:
    """A column of nulls; all of them share one buffer of zeros."""
    kind = pa.bool_() if field.column == UNSTATED else columns.SCHEMA.field(field.column).type
    if 8 * (count + 1) > _ZEROS.size or pa.types.is_nested(kind):
        return pa.nulls(count, kind)
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pa.Array.from_buffers(kind, count, [_ZEROS, _ZEROS, _ZEROS] if texts else [_ZEROS, _ZEROS], count)
