"""Which column is indexed how: made once per table, kept in the log (`docMappingJson`) and in every split."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from indextables.config import COLUMN_WORDS, TOKENIZER_PREFIX, TYPEMAP_PREFIX
from indextables.errors import ConfigError, SchemaMismatch
from indextables.schema import canonical_type

TEXT = "text"  # words with positions: phrases and BM25; also arrays of strings
STRING = "string"  # the whole value, exactly; also arrays of strings
JSON = "json"  # structs and maps: what is in them by path, `column.key.key`
IP = "ip"  # addresses in strings, IPv4 and IPv6 in one order
INTEGER = "i64"
FLOAT = "f64"
DECIMAL = "decimal"  # of at most 18 digits
BOOLEAN = "bool"
DATE = "date"  # dates and timestamps
STORED = "stored"  # rows have it, the index only knows whether it is null
KINDS = (TEXT, STRING, JSON, IP, INTEGER, FLOAT, DECIMAL, BOOLEAN, DATE, STORED)
MODES = COLUMN_WORDS[TYPEMAP_PREFIX]

DEFAULT = "default"  # runs of letters and digits, lowercased
RAW = "raw"  # the whole value as one word
EN_STEM = "en_stem"  # as default, and English words are cut to their stems
WHITESPACE = "whitespace"  # what is between spaces, lowercased
NGRAM = "ngram"  # every three characters, lowercased: finds parts of words
TOKENIZERS = COLUMN_WORDS[TOKENIZER_PREFIX]

DECIMAL_DIGITS = 18  # all of them fit in an i64 whatever the scale
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DocMapping:
    """The columns in schema order, each with one of KINDS, and the tokenizers of text columns that are not split as by default."""

    fields: tuple[tuple[str, str], ...]  # (column, kind)
    tokenizers: tuple[tuple[str, str], ...] = ()  # (column, tokenizer)

    @classmethod
    def for_table(
        cls,
        schema: pa.Schema,
        partition_columns: Sequence[str],
        typemap: Mapping[str, str] = _NONE,
        tokenizers: Mapping[str, str] = _NONE,
    ) -> DocMapping:
        """Strings are `text` unless they are partition columns or `typemap` says otherwise; ConfigError names a bad entry."""
        for column, word in typemap.items():
            _check_mode(schema, partition_columns, column, word)
        fields = tuple((field.name, typemap.get(field.name) or _kind(field, partition_columns)) for field in schema)
        for column, word in tokenizers.items():
            _check_tokenizer(dict(fields), column, word)
        chosen = ((name, tokenizers[name]) for name, _ in fields if tokenizers.get(name, DEFAULT) != DEFAULT)
        return cls(fields, tuple(chosen))

    @classmethod
    def from_json(cls, text: str) -> DocMapping:
        """The mapping `to_json` wrote; ValueError where it is none."""
        try:
            entries = [
                (str(field["name"]), str(field["type"]), str(field.get("tokenizer", DEFAULT))) for field in json.loads(text)["fields"]
            ]
        except (TypeError, KeyError, AttributeError, RecursionError) as cause:
            raise ValueError(f"not a doc mapping: {text[:80]!r}") from cause
        if any(kind not in KINDS or tokenizer not in TOKENIZERS for _, kind, tokenizer in entries):
            raise ValueError(f"a doc mapping with an unknown type: {text[:80]!r}")
        chosen = tuple((name, tokenizer) for name, _, tokenizer in entries if tokenizer != DEFAULT)
        return cls(tuple((name, kind) for name, kind, _ in entries), chosen)

    def to_json(self) -> str:
        chosen = dict(self.tokenizers)
        fields: list[dict[str, Any]] = [
            {"name": name, "type": kind, **({"tokenizer": chosen[name]} if name in chosen else {})} for name, kind in self.fields
        ]
        return json.dumps({"fields": fields}, separators=(",", ":"), ensure_ascii=False)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that a query without a field searches."""
        return tuple(name for name, kind in self.fields if kind == TEXT)

    def tokenizer(self, column: str) -> str:
        return dict(self.tokenizers).get(column, DEFAULT)


def is_object(kind: pa.DataType) -> bool:
    """Whether a column may be indexed as JSON."""
    return bool(pa.types.is_struct(kind) or (pa.types.is_map(kind) and pa.types.is_string(kind.key_type)))


def _check_mode(schema: pa.Schema, partition_columns: Sequence[str], column: str, word: str) -> None:
    key = f"indexing.typemap.{column}"
    if column not in schema.names:
        raise ConfigError(f"{key} names a column that the table does not have: {column!r}")
    if word not in MODES:
        raise ConfigError(f"{key} is {word!r}, must be one of {', '.join(MODES)}")
    if column in partition_columns and word != STRING:
        raise ConfigError(f"{key} is {word!r}, but {column!r} is a partition column, which is always exact")
    kind = schema.field(column).type
    texts = pa.types.is_string(kind) or (pa.types.is_list(kind) and pa.types.is_string(kind.value_type))
    fits = {TEXT: texts, STRING: texts, IP: pa.types.is_string(kind), JSON: is_object(kind)}
    takes = {TEXT: "strings and arrays of strings", STRING: "strings and arrays of strings", IP: "strings"}
    if not fits[word]:
        raise ConfigError(
            f"{key} is {word!r}, which is for {takes.get(word, 'structs and maps by string')}, and {column!r} has type {kind}"
        )


def _check_tokenizer(kinds: Mapping[str, str], column: str, word: str) -> None:
    key = f"indexing.tokenizer.{column}"
    if column not in kinds:
        raise ConfigError(f"{key} names a column that the table does not have: {column!r}")
    if word not in TOKENIZERS:
        raise ConfigError(f"{key} is {word!r}, must be one of {', '.join(TOKENIZERS)}")
    if kinds[column] != TEXT:
        raise ConfigError(f"{key} is for columns indexed as text, and {column!r} is indexed as {kinds[column]}")


def _kind(field: pa.Field, partition_columns: Sequence[str]) -> str:
    kind = canonical_type(field.name, field.type)
    if kind != field.type:
        raise SchemaMismatch(f"column {field.name!r} has type {field.type}, which splits do not hold; they hold {kind}")
    if pa.types.is_string(kind):
        return STRING if field.name in partition_columns else TEXT
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return INTEGER
    if pa.types.is_floating(kind):
        return FLOAT
    if pa.types.is_decimal(kind) and kind.precision <= DECIMAL_DIGITS:
        return DECIMAL
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return DATE
    return STORED
