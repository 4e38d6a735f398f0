"""Reads JSON Lines (one object per line) with the types of a schema. Output of a scan as jsonl is read back without loss.

Dates and times are ISO 8601, binary values hex, maps objects; decimals may be strings, and floats may be NaN, Infinity and -Infinity.
Arrow's own reader supports neither dates nor maps as objects, and does not report the invalid value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import IO, Any, TypeVar

import msgspec
import pyarrow as pa

from indextables.errors import SchemaMismatch, SourceUnreadable
from indextables.rows.dicts import from_dicts
from indextables.rows.offending_rows import cast_column
from indextables.values import decode_value

_ROWS = 10_000
_LINE = 16 << 20  # maximum bytes of a line, and of a chunk before its last line
_SPECIAL = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


def _exact(text: str) -> Decimal:
    """Limited to the range of floats: converting 1e30000000 to an integer would take minutes and exhaust memory."""
    with suppress(InvalidOperation):
        if not math.isinf(float(text)):
            return Decimal(text)
    raise ValueError("Number out of range")


# Created at import: msgspec prepares a type at first use, and doing so in two threads at once crashes the process.
_PLAIN = msgspec.json.Decoder(dict[str, Any])
_EXACT = msgspec.json.Decoder(dict[str, Any], float_hook=_exact)

Convert = Callable[[Any], Any]
_Value = TypeVar("_Value")


def read_jsonl(file: IO[bytes], source: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """SchemaMismatch names a value that does not have its column's type, SourceUnreadable a line that is not an object."""
    decoder = _EXACT if any(_has_decimals(field.type) for field in schema) else _PLAIN
    is_text = [pa.types.is_temporal(field.type) or pa.types.is_decimal(field.type) for field in schema]  # Arrow then casts them
    parse_schema = pa.schema([(field.name, pa.string() if text else field.type) for field, text in zip(schema, is_text, strict=True)])
    converters = {field.name: convert for field in schema if (convert := _converter(field.type)) is not None}
    row = 0
    for lines in _chunks(file, source):
        rows = [_object(line, number, decoder, source) for number, line in lines]
        for number, values in enumerate(rows, start=row):
            _convert(values, converters, schema, number)
        batch = from_dicts(rows, parse_schema, row)
        columns = [cast_column(column, field.type, field.name, row) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)
        row += len(rows)


def check_lines(file: IO[bytes], source: str) -> None:
    """SourceUnreadable for the first line that is not an object."""
    for lines in _chunks(file, source):
        for number, line in lines:
            _object(line, number, _PLAIN, source)


def _chunks(file: IO[bytes], source: str) -> Iterator[list[tuple[int, bytes]]]:
    """Chunks of lines with their numbers, starting at 1; skips empty lines."""
    chunk: list[tuple[int, bytes]] = []
    size = 0
    for number, line in enumerate(iter(lambda: file.readline(_LINE + 1), b""), start=1):
        if len(line) > _LINE:
            raise SourceUnreadable(f"{source!r} cannot be read: line {number} has more than {_LINE >> 20} MiB")
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            chunk.append((number, text))
            size += len(text)
        if len(chunk) >= _ROWS or size >= _LINE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _object(line: bytes, number: int, decoder: msgspec.json.Decoder[dict[str, Any]], source: str) -> dict[str, Any]:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        is_spread = line.lstrip()[:1] == b"[" or line.strip() == b"{"
        why = "expected one object per line, not an array or an object that spans lines" if is_spread else error
        raise SourceUnreadable(f"{source!r} cannot be read: line {number} is not a JSON object: {why}") from error


def _convert(values: dict[str, Any], converters: dict[str, Convert], schema: pa.Schema, row: int) -> None:
    for name, convert in converters.items():
        value = values.get(name)
        if value is not None:
            try:
                values[name] = convert(value)
            except (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as error:
                kind = schema.field(name).type
                raise SchemaMismatch(f"row {row}, column {name!r}: {value!r:.80} is not a value of type {kind}") from error


# --- types


def _has_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_decimals(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_decimal(kind))


def _converter(kind: pa.DataType) -> Convert | None:
    """A conversion from JSON values to the values a column is built from; None if none is needed."""
    if pa.types.is_decimal(kind):
        return _to_decimal_text
    return (lambda value: _checked_type(value, str)) if pa.types.is_temporal(kind) else _nested_converter(kind)


def _nested_converter(kind: pa.DataType) -> Convert | None:
    """The conversion of a value inside a nested one; None if none is needed.

    These values are converted here because Arrow would also cast values behind nulls.
    """
    if pa.types.is_floating(kind):
        return _to_float
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(_to_decimal_text(value))
    if pa.types.is_temporal(kind):
        return lambda value: pa.scalar(_checked_type(value, str)).cast(kind).as_py()
    if pa.types.is_binary(kind):
        return bytes.fromhex
    if pa.types.is_list(kind):
        element = _nested_converter(kind.value_type)
        return None if element is None else lambda value: [_convert_unless_null(element, item) for item in _checked_type(value, list)]
    if pa.types.is_struct(kind):
        fields = {field.name: _nested_converter(field.type) for field in kind}
        return lambda value: {name: _convert_unless_null(fields.get(name), item) for name, item in value.items()}
    if pa.types.is_map(kind):
        key, item = _key_converter(kind.key_type), _nested_converter(kind.item_type)
        return lambda value: [] if value == [] else [(key(name), _convert_unless_null(item, found)) for name, found in value.items()]
    return None


def _convert_unless_null(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or (isinstance(value, str) and value not in _SPECIAL):
        raise ValueError(value)
    return float(_SPECIAL[value] if isinstance(value, str) else value)


def _to_decimal_text(value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError(value)
    return value if isinstance(value, str) else str(Decimal(value))


def _checked_type(value: Any, kind: type[_Value]) -> _Value:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def _key_converter(kind: pa.DataType) -> Convert:
    """A conversion from the names of a JSON object to the keys of a map."""
    if pa.types.is_binary(kind):
        return bytes.fromhex
    if pa.types.is_nested(kind):
        raise SchemaMismatch(f"JSON does not support maps with keys of type {kind}")
    return lambda text: decode_value(text, kind)
