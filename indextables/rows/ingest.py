"""Converts data of the caller to record batches (`batches_of`), and batches to exactly the table's schema (`conform`).

`SplitTask.write` conforms each batch once, for every kind of write. SchemaMismatch names the column or value that does not fit.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.rows.dicts import from_dicts
from indextables.rows.offending_rows import cast_column, first_bad
from indextables.rows.sources import open_source, unnamed_index
from indextables.schema import canonical_type, is_array

DICT_CHUNK = 10_000
_ALL_INTEGERS = pa.decimal128(20, 0)


def batches_of(data: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Record batches from an Arrow stream (pyarrow, pandas, polars, duckdb …), a file path, record batches, or dicts.

    The table's `schema` determines the types of dicts and files; record batches are passed through unchanged.
    """
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.RecordBatchReader):
        yield from data  # not through the C stream, which replaces exceptions of the reader by ArrowInvalid
    elif isinstance(data, os.PathLike):
        yield from open_source(os.fspath(data), None, schema)
    elif hasattr(data, "__arrow_c_stream__"):
        stream = pa.RecordBatchReader.from_stream(data)
        unnamed = unnamed_index(stream.schema)
        yield from (batch.drop_columns(unnamed) for batch in stream) if unnamed else stream
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        yield from _from_items(iter(data), schema)
    else:
        raise InvalidArgument(f"cannot read rows from {type(data).__name__!r}; pass Arrow data, record batches or dicts")


def _from_items(items: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Converts runs of dicts to batches and passes batches through."""
    row = 0
    for is_dict, run in itertools.groupby(items, key=lambda item: isinstance(item, Mapping)):
        if is_dict:
            while chunk := list(itertools.islice(run, DICT_CHUNK)):
                yield from_dicts(chunk, schema, row)
                row += len(chunk)
            continue
        for item in run:
            if not isinstance(item, pa.RecordBatch):
                raise InvalidArgument(f"row {row} is {type(item).__name__!r}, neither a dict nor a record batch")
            yield item
            row += item.num_rows


def conform(batch: pa.RecordBatch, schema: pa.Schema, first_row: int = 0) -> pa.RecordBatch:
    """The same rows with the table's column order and types. Columns are matched by name; none may be missing or extra."""
    if batch.schema.equals(schema) and not any(batch.column(i).null_count for i, f in enumerate(schema) if not f.nullable):
        return _checked_utf8(batch, first_row)
    check_source_schema(batch.schema, schema)
    columns = [_cast(batch.column(batch.schema.names.index(f.name)), f, first_row) for f in schema]
    return _checked_utf8(pa.RecordBatch.from_arrays(columns, schema=schema), first_row)


def _checked_utf8(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """Returns the batch. SchemaMismatch if a string is not UTF-8, as in files of some other programs."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type) or pa.types.is_nested(field.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                row, reason = first_bad(column, lambda part: part.validate(full=True))
                raise SchemaMismatch(f"row {first_row + row}, column {field.name!r}: {reason}") from error
    return batch


def check_source_schema(given: pa.Schema, schema: pa.Schema) -> None:
    """SchemaMismatch unless the column names are the table's and every type can be converted to the table's."""
    doubled = [name for name in given.names if given.names.count(name) > 1]
    extra = [name for name in given.names if name not in schema.names]
    missing = [name for name in schema.names if name not in given.names]
    if doubled:
        raise SchemaMismatch(f"column {doubled[0]!r} appears more than once in the data")
    if extra:
        raise SchemaMismatch(f"the data has a column {extra[0]!r}, which the table does not have")
    if missing:
        raise SchemaMismatch(f"the data has no column {missing[0]!r}, which the table has")
    for field in schema:
        found = given.field(field.name).type
        if not _can_become(found, field.type):
            raise SchemaMismatch(f"column {field.name!r} is {found} in the data and {field.type} in the table")


def _can_become(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Arrow's cast either keeps a value or refuses it."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return _can_become(found.value_type, kind)
    exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if (exact or pa.types.is_floating(kind)) and pa.types.is_integer(found):
        return True
    if exact and pa.types.is_decimal(found):  # the cast checks each value
        return True
    # pandas stores integers with nulls as floats; the cast checks each value.
    if pa.types.is_floating(found) and (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return True
    if pa.types.is_nested(kind):
        return _can_become_nested(found, kind)
    try:
        return bool(canonical_type("", found) == kind)
    except SchemaMismatch:
        return False


def _can_become_nested(found: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        pairs = [(found.key_type, kind.key_type), (found.item_type, kind.item_type)] if pa.types.is_map(found) else None
    elif pa.types.is_struct(kind):
        names = {field.name for field in kind}
        alike = pa.types.is_struct(found) and {field.name for field in found} == names and found.num_fields == len(names)
        pairs = [(found.field(name).type, kind.field(name).type) for name in names] if alike else None
    else:
        pairs = [(found.value_type, kind.value_type)] if is_array(found) and not pa.types.is_map(found) else None
    return pairs is not None and all(_can_become(a, b) and not _rounds(a, b) for a, b in pairs)


def _rounds(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a cast may round silently; for columns that are not nested, each value is checked instead."""
    return pa.types.is_floating(found) and pa.types.is_floating(kind) and bool(found.bit_width > kind.bit_width)


def _cast(column: pa.Array, field: pa.Field, first_row: int) -> pa.Array:
    if pa.types.is_integer(column.type) and pa.types.is_decimal(field.type):
        column = column.cast(_ALL_INTEGERS)  # otherwise Arrow refuses all values if the type might be too small
    cast = cast_column(column, field.type, field.name, first_row)
    if _rounds(column.type, field.type):
        same = pc.or_(pc.equal(cast.cast(column.type), column), pc.is_nan(column))
        at = pc.index(pc.fill_null(same, True), pa.scalar(False)).as_py()
        if at >= 0:
            raise SchemaMismatch(f"row {first_row + at}, column {field.name!r}: {column[at].as_py()!r} does not fit {field.type} exactly")
    if not field.nullable and cast.null_count:
        row = first_row + pc.index(cast.is_null(), pa.scalar(True)).as_py()
        raise SchemaMismatch(f"row {row}, column {field.name!r} is null, which the table does not allow")
    return cast
