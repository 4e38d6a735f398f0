"""Schemas: canonical types, conversion to Spark's JSON and back, and errors that name the column."""

from __future__ import annotations

import functools
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import LogCorrupted, SchemaMismatch
from indextables.schema import (
    LOCAL_TIMESTAMP,
    SUPPORTED,
    UTC_TIMESTAMP,
    canonical_schema,
    canonical_type,
    from_spark_json,
    to_spark_json,
)

TYPES = [
    pa.string(),
    pa.int64(),
    pa.int32(),
    pa.int16(),
    pa.int8(),
    pa.float64(),
    pa.float32(),
    pa.bool_(),
    pa.date32(),
    UTC_TIMESTAMP,
    LOCAL_TIMESTAMP,
    pa.binary(),
    pa.null(),
    pa.decimal128(38, 38),
    pa.list_(pa.list_(pa.binary())),
    pa.struct([("x", pa.decimal128(5, 0)), ("y.z", pa.list_(pa.string()))]),
    pa.map_(pa.string(), pa.struct([("x", pa.map_(pa.date32(), UTC_TIMESTAMP))])),
]
names = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=12).filter(lambda n: n[0] not in "_-")


@given(st.lists(st.tuples(names, st.sampled_from(TYPES), st.booleans()), min_size=1, max_size=8, unique_by=lambda f: f[0]))
def test_every_canonical_schema_round_trips_through_spark_json(fields: list[tuple[str, pa.DataType, bool]]) -> None:
    schema = pa.schema([pa.field(name, kind, nullable or kind == pa.null()) for name, kind, nullable in fields])
    assert canonical_schema(schema) == schema
    assert from_spark_json(to_spark_json(schema)) == schema


@pytest.mark.parametrize(
    ("given_type", "stored"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.timestamp("ns"), LOCAL_TIMESTAMP),
        (pa.timestamp("s", tz="Europe/Zurich"), UTC_TIMESTAMP),
        (pa.date64(), pa.date32()),
        (pa.int16(), pa.int16()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.float16(), pa.float32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.decimal256(20, 3), pa.decimal128(20, 3)),
        (pa.large_list(pa.field("item", pa.large_string(), nullable=False)), pa.list_(pa.string())),
        (pa.list_(pa.int64(), 3), pa.list_(pa.int64())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int16())),
        (pa.struct([pa.field("x", pa.date64(), nullable=False)]), pa.struct([("x", pa.date32())])),
    ],
)
def test_equivalent_types_are_stored_as_one_type(given_type: pa.DataType, stored: pa.DataType) -> None:
    assert canonical_type("c", given_type) == stored


DEEP = functools.reduce(lambda kind, _: pa.list_(kind), range(80), pa.int64())


@pytest.mark.parametrize(
    "kind",
    [pa.time64("us"), pa.duration("s"), pa.decimal256(40, 0), pa.decimal128(5, -2), pa.list_(pa.time32("s")), pa.month_day_nano_interval()],
)
def test_errors_name_the_column_of_an_unsupported_type(kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match=r"column 'odd(\.element)?' has type"):
        canonical_schema(pa.schema([("odd", kind)]))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.struct([]), "empty or duplicate field names"),
        (pa.struct([("x", pa.int64()), ("x", pa.int64())]), "empty or duplicate field names"),
        (DEEP, "nested deeper than"),
    ],
)
def test_nested_types_that_could_not_be_read_back_are_refused(kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        canonical_schema(pa.schema([("odd", kind)]))


def test_schema_metadata_is_dropped() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"x": "y"})], metadata={"pandas": "{}"})
    assert canonical_schema(schema).metadata is None
    assert canonical_schema(schema).field("a").metadata is None


@pytest.mark.parametrize("name", ["", "_score", "-a", "a\nb", "a\x00"])
def test_unusable_column_names_are_refused_by_name(name: str) -> None:
    with pytest.raises(SchemaMismatch, match="cannot be used") as refused:
        canonical_schema(pa.schema([(name, pa.int64())]))
    assert repr(name) in str(refused.value)


def test_empty_schemas_and_duplicate_columns_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="at least one column"):
        canonical_schema(pa.schema([]))
    with pytest.raises(SchemaMismatch, match="'b' appears more than once"):
        canonical_schema(pa.schema([("b", pa.int64()), ("a", pa.int64()), ("b", pa.string())]))


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "7", '{"fields": 3}', '{"fields": [1]}', '{"fields": [{"type": "long"}]}', "[" * 100_000]
)
def test_a_malformed_schema_string_is_a_damaged_log(text: str) -> None:
    with pytest.raises(LogCorrupted, match="not a Spark schema"):
        from_spark_json(text)


@pytest.mark.parametrize("word", [None, 3, ["long"], {"type": "array"}, {"type": "struct"}, {"type": "map", "keyType": "long"}])
def test_a_malformed_type_is_a_damaged_log(word: object) -> None:
    with pytest.raises(LogCorrupted, match="not a Spark schema"):
        from_spark_json(json.dumps({"type": "struct", "fields": [{"name": "odd", "type": word}]}))


STRUCT = {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]}


@pytest.mark.parametrize(
    ("word", "arrow"),
    [
        ("variant", pa.opaque(pa.null(), "variant", "spark")),
        ("interval day to second", pa.opaque(pa.null(), "interval day to second", "spark")),
        ({"type": "udt", "class": "x"}, pa.opaque(pa.null(), "udt", "spark")),
    ],
)
def test_unsupported_spark_types_are_shown_and_refused_by_name(word: object, arrow: pa.DataType) -> None:
    schema = from_spark_json(json.dumps({"type": "struct", "fields": [{"name": "odd", "type": word}]}))
    assert schema.field("odd").type == arrow
    for use in (canonical_schema, to_spark_json):
        with pytest.raises(SchemaMismatch, match="column 'odd' has type"):
            use(schema)


@pytest.mark.parametrize(
    ("word", "arrow"),
    [
        ("binary", pa.binary()),
        ("void", pa.null()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ({"type": "array", "elementType": "long", "containsNull": False}, pa.list_(pa.int64())),
        (STRUCT, pa.struct([("x", pa.int32())])),
        ({"type": "map", "keyType": "string", "valueType": STRUCT}, pa.map_(pa.string(), pa.struct([("x", pa.int32())]))),
    ],
)
def test_nested_spark_types_are_read_and_written(word: object, arrow: pa.DataType) -> None:
    schema = from_spark_json(json.dumps({"type": "struct", "fields": [{"name": "a", "type": word}]}))
    assert schema.field("a").type == arrow
    assert from_spark_json(to_spark_json(schema)) == schema


@pytest.mark.parametrize("word", ["char(5)", "varchar(10)"])
def test_sized_strings_are_strings(word: str) -> None:
    assert from_spark_json(json.dumps({"fields": [{"name": "a", "type": word}]})).field("a").type == pa.string()


def test_a_missing_nullable_means_nullable() -> None:
    assert from_spark_json('{"fields":[{"name":"a","type":"long"}]}').field("a").nullable


def test_the_list_of_supported_types_names_each() -> None:
    assert len(SUPPORTED.split(", ")) == len(TYPES)  # each type once in TYPES, nested ones by one example
