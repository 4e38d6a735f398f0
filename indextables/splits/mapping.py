"""Which column is indexed how: made once per table, kept in the log (`docMappingJson`) and in every split."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from indextables.errors import ConfigError, SchemaMismatch

TEXT = "text"  # words, lowercased, with positions: phrases and BM25
STRING = "string"  # the whole value, exactly
INTEGER = "i64"
FLOAT = "f64"
BOOLEAN = "bool"
DATE = "date"  # dates and timestamps
KINDS = (TEXT, STRING, INTEGER, FLOAT, BOOLEAN, DATE)
_NO_TYPEMAP: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DocMapping:
    """The indexed columns in schema order, each with one of KINDS."""

    fields: tuple[tuple[str, str], ...]  # (column, kind)

    @classmethod
    def for_table(cls, schema: pa.Schema, partition_columns: Sequence[str], typemap: Mapping[str, str] = _NO_TYPEMAP) -> DocMapping:
        """Strings are `text` unless they are partition columns or `typemap` says `string`; ConfigError names a bad entry."""
        for column, word in typemap.items():
            _check_entry(schema, partition_columns, column, word)
        exact = {*partition_columns, *(column for column, word in typemap.items() if word == STRING)}
        return cls(tuple((field.name, _kind(field, exact)) for field in schema))

    @classmethod
    def from_json(cls, text: str) -> DocMapping:
        """The mapping `to_json` wrote; ValueError where it is none."""
        try:
            fields = tuple((str(field["name"]), str(field["type"])) for field in json.loads(text)["fields"])
        except (TypeError, KeyError, RecursionError) as cause:
            raise ValueError(f"not a doc mapping: {text[:80]!r}") from cause
        if any(kind not in KINDS for _, kind in fields):
            raise ValueError(f"a doc mapping with an unknown type: {text[:80]!r}")
        return cls(fields)

    def to_json(self) -> str:
        fields = [{"name": name, "type": kind} for name, kind in self.fields]
        return json.dumps({"fields": fields}, separators=(",", ":"), ensure_ascii=False)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that a query without a field searches."""
        return tuple(name for name, kind in self.fields if kind == TEXT)


def _check_entry(schema: pa.Schema, partition_columns: Sequence[str], column: str, word: str) -> None:
    key = f"indexing.typemap.{column}"
    if column not in schema.names:
        raise ConfigError(f"{key} names a column that the table does not have: {column!r}")
    if word not in (STRING, TEXT):
        raise ConfigError(f"{key} is {word!r}, must be 'string' or 'text'")
    if not pa.types.is_string(schema.field(column).type):
        raise ConfigError(f"{key} is for string columns, and {column!r} has type {schema.field(column).type}")
    if word == TEXT and column in partition_columns:
        raise ConfigError(f"{key} is 'text', but {column!r} is a partition column, which is always exact")


def _kind(field: pa.Field, exact: set[str]) -> str:
    kind = field.type
    if pa.types.is_string(kind):
        return STRING if field.name in exact else TEXT
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return INTEGER
    if pa.types.is_floating(kind):
        return FLOAT
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return DATE
    raise SchemaMismatch(f"column {field.name!r} has type {kind}, which splits do not index")
