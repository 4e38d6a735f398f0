"""Arrow schemas and the Spark schema JSON that the log stores (`metaData.schemaString`).

A table's Arrow schema is canonical: one Arrow type for each Spark type, so that equal tables have equal schemas whatever library
the data came from.
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

# Spark's word -> the canonical Arrow type
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
}
_SPARK_WORDS = {arrow: word for word, arrow in _ARROW_TYPES.items()}
SUPPORTED = ", ".join(_ARROW_TYPES)


def canonical_type(column: str, given: pa.DataType) -> pa.DataType:
    """The type a table stores for `given`; SchemaMismatch names the column where there is none."""
    if pa.types.is_dictionary(given):
        return canonical_type(column, given.value_type)
    if pa.types.is_large_string(given) or pa.types.is_string_view(given):
        return pa.string()
    if pa.types.is_timestamp(given):
        return UTC_TIMESTAMP if given.tz else LOCAL_TIMESTAMP
    if given == pa.date64():
        return pa.date32()
    if given not in _SPARK_WORDS:
        raise SchemaMismatch(f"column {column!r} has type {given}, which tables do not hold yet (they hold {SUPPORTED})")
    return given


def canonical_schema(given: pa.Schema) -> pa.Schema:
    """`given` with canonical types and without metadata; refuses empty, duplicate and unusable column names."""
    if not given.names:
        raise SchemaMismatch("a table needs at least one column, and the schema has none")
    for name in given.names:
        check_column_name(name)
    doubled = sorted({n for n in given.names if given.names.count(n) > 1})
    if doubled:
        raise SchemaMismatch(f"column {doubled[0]!r} appears more than once in the schema")
    return pa.schema([pa.field(f.name, canonical_type(f.name, f.type), f.nullable) for f in given])


def check_column_name(name: str) -> None:
    if not name or name.startswith(("_", "-")) or any(ord(c) < 32 for c in name):
        raise SchemaMismatch(f"column name {name!r} cannot be used: empty, with control characters, or starting with '_' or '-'")


def to_spark_json(schema: pa.Schema) -> str:
    """The canonical schema as Spark spells it; SchemaMismatch names a column whose type tables do not hold."""
    fields = [
        {"name": f.name, "type": _SPARK_WORDS[canonical_type(f.name, f.type)], "nullable": f.nullable, "metadata": {}} for f in schema
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)


def from_spark_json(text: str) -> pa.Schema:
    """The Arrow schema of a `schemaString`; LogCorrupted where it is none.

    Tables of other programs have types that ours do not hold yet: they get Arrow's type for them, or an opaque one, so that such a table
    opens and lists. `canonical_type` refuses them where values are needed.
    """
    try:
        fields = _fields(json.loads(text), 0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, pa.ArrowException) as cause:
        raise LogCorrupted(f"the table's schemaString is not a Spark schema: {text[:80]!r}") from cause
    return pa.schema(fields)


def _fields(document: Any, depth: int) -> list[pa.Field]:
    return [pa.field(str(f["name"]), _arrow_type(f["type"], depth + 1), bool(f.get("nullable", True))) for f in document["fields"]]


def _arrow_type(given: Any, depth: int) -> pa.DataType:
    if depth > limits.JSON_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(given, dict):
        return _nested_type(given, depth)
    if not isinstance(given, str):
        raise TypeError(given)
    if given in _ARROW_TYPES:
        return _ARROW_TYPES[given]
    if given == "binary":
        return pa.binary()
    sized = re.fullmatch(r"(decimal)\(([0-9]{1,2}),([0-9]{1,2})\)|(?:var)?char\([0-9]{1,9}\)", given)
    if sized is None:
        return pa.opaque(pa.null(), given, "spark")
    return pa.decimal128(int(sized[2]), int(sized[3])) if sized[1] else pa.string()


def _nested_type(given: dict[str, Any], depth: int) -> pa.DataType:
    kind = given["type"]
    if kind == "struct":
        return pa.struct(_fields(given, depth))
    if kind == "array":
        return pa.list_(_arrow_type(given["elementType"], depth + 1))
    if kind == "map":
        return pa.map_(_arrow_type(given["keyType"], depth + 1), _arrow_type(given["valueType"], depth + 1))
    return pa.opaque(pa.null(), str(kind), "spark")
