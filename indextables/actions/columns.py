"""Converts adds to Arrow, one column per field, and back, without loss."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions.model import Add
from indextables.errors import LogCorrupted

STRINGS = pa.map_(pa.string(), pa.string())
_JSON = pa.large_string()  # long texts, and as JSON the fields without a column type of their own
_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    str: pa.string(),
    dict[str, str]: STRINGS,
    list[str]: pa.list_(pa.string()),
}
_LONG_TEXTS = frozenset({"stats", "doc_mapping_json"})


def _plain(annotation: Any) -> Any:
    """The plain type of an annotation: `int` for `Annotated[int, …] | None`."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        (given,) = (part for part in get_args(annotation) if part is not type(None))
        return _plain(given)
    return annotation


_KINDS = {name: _plain(kind) for name, kind in get_type_hints(Add).items()}
SCHEMA = pa.schema([(name, _JSON if name in _LONG_TEXTS else _TYPES.get(kind, _JSON)) for name, kind in _KINDS.items()])
# The fields that are JSON in a column. Created at import, for the reason in splits/format/bundle.py.
_DECODERS = {
    field.name: msgspec.json.Decoder(_KINDS[field.name]) for field in SCHEMA if field.type == _JSON and _KINDS[field.name] is not str
}
_GETTERS = [(field, attrgetter(field.name)) for field in SCHEMA]


def encode(adds: Sequence[Add]) -> pa.Table:
    """One row per add, in order; `adds` is not empty."""
    try:
        return pa.Table.from_arrays([_column(field, list(map(get, adds))) for field, get in _GETTERS], schema=SCHEMA)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise LogCorrupted(f"{len(adds)} adds, the first for {adds[0].path!r}, do not fit into columns: {error}") from error


def decode(rows: pa.Table) -> Iterator[Add]:
    """Yields the adds of a table with `SCHEMA`, decoded lazily."""
    for batch in rows.to_batches(max_chunksize=4096):
        columns = [_values(field, batch.column(field.name).to_pylist()) for field in SCHEMA]
        for row in zip(*columns, strict=True):
            yield Add(**dict(zip(SCHEMA.names, row, strict=True)))


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if values[0] is None and values.count(None) == len(values):
        return pa.nulls(len(values), field.type)
    if field.type == STRINGS:
        return _map(values)
    if field.name in _DECODERS:
        values = [None if value is None else msgspec.json.encode(value).decode() for value in values]
    return pa.array(values, field.type)


def _map(dicts: list[dict[str, str] | None]) -> pa.Array:
    """Builds the map array from offsets, keys and items: ten times faster than from lists of pairs."""
    known: list[dict[str, str]] = list(filter(None, dicts))
    whole = len(known) == len(dicts)
    lengths = np.fromiter(map(len, known) if whole else (len(d) if d else 0 for d in dicts), np.int32, len(dicts))
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    names = set(map(tuple, known))
    if len(names) == 1:  # usual within a table: every dict has the same keys
        (one,) = names
        keys = pa.array(one, pa.string()).take(pa.array(np.tile(np.arange(len(one)), len(known)), pa.int64()))
    else:
        keys = pa.array(list(chain.from_iterable(known)), pa.string())
    items = pa.array(list(chain.from_iterable(map(dict.values, known))), pa.string())
    mask = None if None not in dicts else pa.array([d is None for d in dicts], pa.bool_())
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=mask)


def _values(field: pa.Field, values: list[Any]) -> list[Any]:
    if field.type == STRINGS:
        return [None if pairs is None else dict(pairs) for pairs in values]
    if field.name in _DECODERS:
        decoder = _DECODERS[field.name]
        return [None if text is None else decoder.decode(text) for text in values]
    return values


def strings_of(column: pa.ChunkedArray, key: str) -> pa.Array:
    """The value under `key` in each row of a column of maps; null where the key is absent."""
    parts = [_strings_of(chunk, key) for chunk in column.chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _strings_of(maps: pa.MapArray, key: str) -> pa.Array:
    offsets = maps.offsets.to_numpy()
    entries = np.flatnonzero(np.asarray(pc.equal(maps.keys, pa.scalar(key)).to_numpy(zero_copy_only=False), bool))
    entries = entries[(entries >= offsets[0]) & (entries < offsets[-1])]
    found = np.full(len(maps), -1, np.int64)  # the entry of each row
    found[np.searchsorted(offsets, entries, side="right") - 1] = entries
    return maps.items.take(pa.array(found, pa.int64(), mask=found < 0))


def without_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with each null map replaced by an empty one."""
    if not column.null_count:
        return column
    chunks = [pa.MapArray.from_arrays(chunk.offsets, chunk.keys, chunk.items) for chunk in column.chunks]
    return pa.chunked_array(chunks, STRINGS)
