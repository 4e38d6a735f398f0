"""Whatever the caller has, as record batches of exactly the table's schema; SchemaMismatch names what does not fit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.schema import canonical_type

DICT_CHUNK = 10_000


def to_batches(data: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """From an Arrow stream (pyarrow, pandas, polars, duckdb …), record batches, or dicts by column name."""
    row = 0
    for batch in _batches(data, schema):
        yield conform(batch, schema, row)
        row += batch.num_rows


def _batches(data: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.RecordBatchReader):
        yield from data  # not through the C stream, which turns what a reader raises into an ArrowInvalid
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        yield from _from_items(iter(data), schema)
    else:
        raise InvalidArgument(f"cannot read rows from {type(data).__name__!r}; give Arrow data, record batches or dicts")


def _from_items(items: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Runs of dicts become batches; batches pass."""
    row = 0
    for is_dict, run in itertools.groupby(items, key=lambda item: isinstance(item, Mapping)):
        if is_dict:
            while chunk := list(itertools.islice(run, DICT_CHUNK)):
                yield _from_dicts(chunk, schema, row)
                row += len(chunk)
            continue
        for item in run:
            if not isinstance(item, pa.RecordBatch):
                raise InvalidArgument(f"row {row} is {type(item).__name__!r}, neither a dict nor a record batch")
            yield item
            row += item.num_rows


def _from_dicts(rows: list[Mapping[str, Any]], schema: pa.Schema, first_row: int) -> pa.RecordBatch:
    names = set(schema.names)
    for number, row in enumerate(rows, start=first_row):
        if not names.issuperset(row):
            unknown = next(key for key in row if key not in names)
            raise SchemaMismatch(f"row {number} has a column {unknown!r}, which the table does not have")
    columns = [_column([row.get(field.name) for row in rows], field, first_row) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: pa.Field, first_row: int) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    for number, value in enumerate(values, start=first_row):
        try:
            pa.array([value], field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaMismatch(f"row {number}, column {field.name!r}: {value!r} is not a value of type {field.type}") from error
    raise SchemaMismatch(f"column {field.name!r} does not fit type {field.type}")


def conform(batch: pa.RecordBatch, schema: pa.Schema, first_row: int = 0) -> pa.RecordBatch:
    """The same rows with the table's columns, in its order and types. Columns go by name; none may be missing or extra."""
    if batch.schema.equals(schema) and not any(batch.column(i).null_count for i, f in enumerate(schema) if not f.nullable):
        return _valid(batch, first_row)
    check_columns(batch.schema, schema)
    columns = [_cast(batch.column(batch.schema.names.index(f.name)), f, first_row) for f in schema]
    return _valid(pa.RecordBatch.from_arrays(columns, schema=schema), first_row)


def _valid(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """The batch; SchemaMismatch where a string is not UTF-8, which other programs' files and buffers may hold."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise SchemaMismatch(f"column {field.name!r}, from row {first_row}: {error}") from error
    return batch


def check_columns(given: pa.Schema, schema: pa.Schema) -> None:
    """SchemaMismatch unless the names are the table's and every type can become the table's."""
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
        if not _can_become(found, field):
            raise SchemaMismatch(f"column {field.name!r} is {found} in the data and {field.type} in the table")


def _can_become(found: pa.DataType, field: pa.Field) -> bool:
    if pa.types.is_null(found):
        return True
    if pa.types.is_integer(found) and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
        return True
    # Pandas makes integers with nulls floating; whether nothing is lost shows value by value.
    if pa.types.is_floating(found) and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
        return True
    try:
        return bool(canonical_type(field.name, found) == field.type)
    except SchemaMismatch:
        return False


def _cast(column: pa.Array, field: pa.Field, first_row: int) -> pa.Array:
    try:
        cast = column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(f"column {field.name!r}, from row {first_row}: {error}") from error
    if pa.types.is_floating(column.type) and column.type.bit_width > field.type.bit_width:
        _refuse_lost_precision(column, cast, field, first_row)
    if not field.nullable and cast.null_count:
        row = first_row + pc.index(cast.is_null(), pa.scalar(True)).as_py()
        raise SchemaMismatch(f"row {row}, column {field.name!r} is null, which the table does not allow")
    return cast


def _refuse_lost_precision(column: pa.Array, cast: pa.Array, field: pa.Field, first_row: int) -> None:
    same = pc.or_(pc.equal(cast.cast(column.type), column), pc.is_nan(column))
    at = pc.index(pc.fill_null(same, True), pa.scalar(False)).as_py()
    if at >= 0:
        raise SchemaMismatch(f"row {first_row + at}, column {field.name!r}: {column[at].as_py()!r} does not fit {field.type} exactly")
