"""Conversion between Spark and Arrow schemas, by way of Spark's schema JSON."""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql.types import StructType

from indextables.schema import from_spark_json, to_spark_json


def arrow_schema(struct: StructType) -> pa.Schema:
    """The canonical Arrow schema; SchemaMismatch names a column whose type is not supported."""
    return from_spark_json(struct.json())


def struct_type(schema: pa.Schema) -> StructType:
    return StructType.fromJson(json.loads(to_spark_json(schema)))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with all columns nullable, as Spark's own sources write it: a frame's nullability is often an accident of its query."""
    return pa.schema([field.with_nullable(True) for field in schema])
