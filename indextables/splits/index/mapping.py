"""The doc mapping: how each column is indexed. It is fixed per table, and stored in the log (`docMappingJson`) and in every split."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from indextables.config import COLUMN_WORDS, TOKENIZER_PREFIX, TYPEMAP_PREFIX, Config
from indextables.errors import ConfigError, SchemaMismatch
from indextables.schema import canonical_type

TEXT = "text"  # words with positions: phrases and BM25; also arrays of strings
STRING = "string"  # the exact value; also arrays of strings
JSON = "json"  # structs and maps, searched by path: `column.key.key`
IP = "ip"  # IPv4 and IPv6 addresses in strings, in one common order
INTEGER = "i64"
FLOAT = "f64"
DECIMAL = "decimal"  # of at most 18 digits
BOOLEAN = "bool"
DATE = "date"  # dates and timestamps
STORED = "stored"  # not indexed, except whether the value is null
KINDS = (TEXT, STRING, JSON, IP, INTEGER, FLOAT, DECIMAL, BOOLEAN, DATE, STORED)

DEFAULT = "default"  # runs of letters and digits, lowercased
RAW = "raw"  # the whole value as one word
EN_STEM = "en_stem"  # as default, with English words reduced to their stems
WHITESPACE = "whitespace"  # separated by whitespace, lowercased
NGRAM = "ngram"  # every three consecutive characters, lowercased: finds substrings

DECIMAL_DIGITS = 18  # as many digits fit in an i64 at any scale
_KINDS_OF_TYPES = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_integer, INTEGER),
    (pa.types.is_floating, FLOAT),
    (pa.types.is_decimal, DECIMAL),
    (pa.types.is_temporal, DATE),
)
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DocMapping:
    """The columns in schema order, each with one of KINDS, and the tokenizers of text columns that do not use the default."""

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
        """Strings are `text` unless they are partition columns or listed in `typemap`; ConfigError names an invalid entry."""
        for column, word in typemap.items():
            _check_mode(schema, partition_columns, column, word)
        fields = tuple((field.name, typemap.get(field.name) or _kind(field, partition_columns)) for field in schema)
        for column, word in tokenizers.items():
            _check_tokenizer(dict(fields), column, word)
        chosen = ((name, tokenizers[name]) for name, _ in fields if tokenizers.get(name, DEFAULT) != DEFAULT)
        return cls(fields, tuple(chosen))

    @classmethod
    def of_config(cls, config: Config, schema: pa.Schema, partition_columns: Sequence[str]) -> DocMapping:
        """The mapping with the indexing options of a configuration that includes the table's own; raises like `for_table`."""
        return cls.for_table(schema, partition_columns, config.of_columns(TYPEMAP_PREFIX), config.of_columns(TOKENIZER_PREFIX))

    @classmethod
    def from_json(cls, text: str) -> DocMapping:
        """Parses the output of `to_json`; ValueError if it is not a doc mapping."""
        try:
            entries = [
                (str(field["name"]), str(field["type"]), str(field.get("tokenizer", DEFAULT))) for field in json.loads(text)["fields"]
            ]
        except (TypeError, KeyError, AttributeError, RecursionError) as cause:
            raise ValueError(f"not a doc mapping: {text[:80]!r}") from cause
        if any(kind not in KINDS or tokenizer not in COLUMN_WORDS[TOKENIZER_PREFIX] for _, kind, tokenizer in entries):
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
        """The columns that a query without a column name searches."""
        return tuple(name for name, kind in self.fields if kind == TEXT)

    def tokenizer(self, column: str) -> str:
        return dict(self.tokenizers).get(column, DEFAULT)


def without_invalid_column_options(config: Config, schema: pa.Schema, partition_columns: Sequence[str]) -> Config:
    """The configuration without the table's own `indexing.*` values that do not fit its columns, which other programs may have written.

    Reading continues without them, and `Config.warnings` names them. A value of the call that does not fit is kept, so that
    `DocMapping.for_table` refuses it.
    """
    typemap, misfits = config.of_columns(TYPEMAP_PREFIX), {}
    for column, word in tuple(typemap.items()):
        try:
            _check_mode(schema, partition_columns, column, word)
        except ConfigError as error:
            misfits[TYPEMAP_PREFIX + column] = str(error)
            del typemap[column]
    for column, word in config.of_columns(TOKENIZER_PREFIX).items():
        try:
            kinds = {field.name: typemap.get(column) or _kind(field, partition_columns) for field in schema if field.name == column}
            _check_tokenizer(kinds, column, word)
        except (ConfigError, SchemaMismatch) as error:
            misfits[TOKENIZER_PREFIX + column] = str(error)
    return config.without_invalid_column_options(misfits)


def is_object(kind: pa.DataType) -> bool:
    """Whether a column may be indexed as JSON."""
    return bool(pa.types.is_struct(kind) or (pa.types.is_map(kind) and pa.types.is_string(kind.key_type)))


def _check_mode(schema: pa.Schema, partition_columns: Sequence[str], column: str, word: str) -> None:
    key = f"indexing.typemap.{column}"
    if column not in schema.names:
        raise ConfigError(f"{key} names a column that the table does not have: {column!r}")
    _check_word(key, word, TYPEMAP_PREFIX)
    if column in partition_columns and word != STRING:
        raise ConfigError(f"{key} is {word!r}, but {column!r} is a partition column, which is always indexed as string")
    kind = schema.field(column).type
    texts = pa.types.is_string(kind) or (pa.types.is_list(kind) and pa.types.is_string(kind.value_type))
    fits = {TEXT: texts, STRING: texts, IP: pa.types.is_string(kind), JSON: is_object(kind)}
    takes = {TEXT: "strings or arrays of strings", STRING: "strings or arrays of strings", IP: "strings"}
    if not fits[word]:
        raise ConfigError(
            f"{key} is {word!r}, which requires {takes.get(word, 'structs or maps with string keys')}, but {column!r} has type {kind}"
        )


def _check_tokenizer(kinds: Mapping[str, str], column: str, word: str) -> None:
    key = f"indexing.tokenizer.{column}"
    if column not in kinds:
        raise ConfigError(f"{key} names a column that the table does not have: {column!r}")
    _check_word(key, word, TOKENIZER_PREFIX)
    if kinds[column] != TEXT:
        raise ConfigError(f"{key} requires a column indexed as text, but {column!r} is indexed as {kinds[column]}")


def _check_word(key: str, word: str, prefix: str) -> None:
    if word not in COLUMN_WORDS[prefix]:
        raise ConfigError(f"{key} is {word!r}, but must be one of {', '.join(COLUMN_WORDS[prefix])}")


def _kind(field: pa.Field, partition_columns: Sequence[str]) -> str:
    kind = canonical_type(field.name, field.type)
    if kind != field.type:
        raise SchemaMismatch(f"column {field.name!r} has type {field.type}, which splits cannot store; cast it to {kind}")
    if pa.types.is_string(kind):
        return STRING if field.name in partition_columns else TEXT
    if pa.types.is_decimal(kind) and kind.precision > DECIMAL_DIGITS:
        return STORED
    return next((found for is_kind, found in _KINDS_OF_TYPES if is_kind(kind)), STORED)
