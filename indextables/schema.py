"""Arrow schemas and the Spark schema JSON that the log stores (`metaData.schemaString`).

A table's Arrow schema is canonical: one Arrow type for each Spark type, so that equal tables have equal schemas whichever library the data
came from.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from indextables import limits
from indextables.errors import LogCorrupted, SchemaMismatch

UTC_TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")

# Spark's type name -> the canonical Arrow type
_ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": UTC_TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
    "binary": pa.binary(),
    "void": pa.null(),  # only nulls
}
_SPARK_WORDS = {arrow: word for word, arrow in _ARROW_TYPES.items()}
SUPPORTED = ", ".join((*_ARROW_TYPES, "decimal", "array", "struct", "map"))
# Arrow types without a counterpart in Spark -> the smallest type with one that can represent all their values
_WIDENED: dict[pa.DataType, pa.DataType] = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.float16(): pa.float32(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_MAX_PRECISION = 38  # of Spark's decimals


def canonical_type(column: str, given: pa.DataType) -> pa.DataType:
    """The type in which a table stores `given`; SchemaMismatch names the column if there is none.

    Elements of arrays, maps and structs are always nullable.
    """
    if given in _SPARK_WORDS:
        return given
    if given in _WIDENED:
        return _WIDENED[given]
    if pa.types.is_dictionary(given):
        return canonical_type(column, given.value_type)
    if pa.types.is_fixed_size_binary(given):
        return pa.binary()
    if pa.types.is_timestamp(given):
        return UTC_TIMESTAMP if given.tz else LOCAL_TIMESTAMP
    if pa.types.is_decimal(given) and 0 <= given.scale <= given.precision <= _MAX_PRECISION:
        return pa.decimal128(given.precision, given.scale)
    nested = _canonical_nested(column, given)
    if nested is None:
        raise SchemaMismatch(f"column {column!r} has type {given}, which is not supported; supported are {SUPPORTED}")
    return nested


def _canonical_nested(column: str, given: pa.DataType) -> pa.DataType | None:
    if pa.types.is_map(given):
        return map_type(canonical_type(f"{column}.key", given.key_type), canonical_type(f"{column}.value", given.item_type))
    if is_array(given):
        return array_type(canonical_type(f"{column}.element", given.value_type))
    if pa.types.is_struct(given):
        names = [field.name for field in given]
        if not names or len(set(names)) < len(names) or not all(names):
            raise SchemaMismatch(f"column {column!r} is a struct without fields, or with empty or duplicate field names: {given}")
        return pa.struct([pa.field(field.name, canonical_type(f"{column}.{field.name}", field.type)) for field in given])
    return None


def is_array(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(test(kind) for test in tests)


def has_order(kind: pa.DataType) -> bool:
    """Whether values of the type have a minimum and a maximum that the log can record."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind))


def array_type(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def map_type(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.map_(key, pa.field("value", value))


def canonical_schema(given: pa.Schema) -> pa.Schema:
    """`given` with canonical types and without metadata; SchemaMismatch for empty, duplicate and invalid column names."""
    if not given.names:
        raise SchemaMismatch("a table needs at least one column, and the schema has none")
    for name in given.names:
        check_column_name(name)
    doubled = sorted({n for n in given.names if given.names.count(n) > 1})
    if doubled:
        raise SchemaMismatch(f"column {doubled[0]!r} appears more than once in the schema")
    canonical = pa.schema([pa.field(f.name, canonical_type(f.name, f.type), f.nullable) for f in given])
    try:
        from_spark_json(to_spark_json(canonical))
    except LogCorrupted:
        raise SchemaMismatch(f"the schema is nested deeper than {limits.JSON_DEPTH} levels") from None
    return canonical


def check_column_name(name: str) -> None:
    if not name or name.startswith(("_", "-")) or any(ord(c) < 32 for c in name):
        raise SchemaMismatch(f"column name {name!r} cannot be used: empty, with control characters, or starting with '_' or '-'")


def to_spark_json(schema: pa.Schema) -> str:
    """The canonical schema as Spark's JSON; SchemaMismatch names a column whose type is not supported."""
    fields = [_spark_field(f.name, canonical_type(f.name, f.type), f.nullable) for f in schema]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)


def _spark_field(name: str, kind: pa.DataType, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": _spark_type(kind), "nullable": nullable, "metadata": {}}


def _spark_type(kind: pa.DataType) -> str | dict[str, Any]:
    """Spark's JSON of a canonical type."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_spark_field(field.name, field.type) for field in kind]}
    if pa.types.is_map(kind):
        entries = {"keyType": _spark_type(kind.key_type), "valueType": _spark_type(kind.item_type)}
        return {"type": "map", **entries, "valueContainsNull": True}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _spark_type(kind.value_type), "containsNull": True}
    return _SPARK_WORDS[kind]


def from_spark_json(text: str) -> pa.Schema:
    """The Arrow schema of a `schemaString`; LogCorrupted if it is not a Spark schema.

    Unsupported types, which other programs may have used, become opaque types, so that such a table can be opened and listed.
    `canonical_type` refuses them where values are needed.
    """
    try:
        fields = _fields(json.loads(text), 0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, pa.ArrowException) as cause:
        raise LogCorrupted(f"the table's schemaString is not a Spark schema: {text[:80]!r}") from cause
    return pa.schema(fields)


def _fields(document: Any, depth: int) -> list[pa.Field]:
    return [_arrow_field(f, depth) for f in document["fields"]]


def _arrow_field(document: Any, depth: int) -> pa.Field:
    """The field of a JSON document. Nested fields (see `canonical_type`) and columns of type void are always nullable."""
    kind = _arrow_type(document["type"], depth + 1)
    return pa.field(str(document["name"]), kind, depth > 0 or pa.types.is_null(kind) or bool(document.get("nullable", True)))


def _arrow_type(given: Any, depth: int) -> pa.DataType:
    if depth > limits.JSON_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(given, dict):
        return _nested_type(given, depth)
    if not isinstance(given, str):
        raise TypeError(given)
    if given in _ARROW_TYPES:
        return _ARROW_TYPES[given]
    sized = re.fullmatch(r"(decimal)\(([0-9]{1,2}),([0-9]{1,2})\)|(?:var)?char\([0-9]{1,9}\)", given)
    if sized is None:
        return pa.opaque(pa.null(), given, "spark")
    return pa.decimal128(int(sized[2]), int(sized[3])) if sized[1] else pa.string()


def _nested_type(given: dict[str, Any], depth: int) -> pa.DataType:
    kind = given["type"]
    if kind == "struct":
        return pa.struct(_fields(given, depth))
    if kind == "array":
        return array_type(_arrow_type(given["elementType"], depth + 1))
    if kind == "map":
        return map_type(_arrow_type(given["keyType"], depth + 1), _arrow_type(given["valueType"], depth + 1))
    return pa.opaque(pa.null(), str(kind), "spark")
