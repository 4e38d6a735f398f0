"""Converts column values for tantivy documents, and refuses values that cannot be indexed."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables import limits
from indextables.errors import SchemaMismatch
from indextables.splits.index import mapping as kinds
from indextables.splits.index.analyzers import analyzer, gram_tokens
from indextables.splits.index.mapping import DocMapping
from indextables.values import python_value

# tantivy drops words of more than 65,530 bytes. They are truncated to more than the length of any query: prefixes still match.
_CUT = limits.QUERY_CHARACTERS + 1
_SHORT = 20_000  # bytes of a text that stays below tantivy's limit, even if lowercasing makes it longer
_MOST_INTEGER = 2**63

Add = Callable[[Any, str, Any], None]
_ADD: dict[str, Add] = {
    kinds.TEXT: tantivy.Document.add_text,
    kinds.STRING: tantivy.Document.add_text,
    kinds.IP: tantivy.Document.add_ip_addr,
    kinds.INTEGER: tantivy.Document.add_integer,
    kinds.FLOAT: tantivy.Document.add_float,
    kinds.DECIMAL: tantivy.Document.add_integer,
    kinds.BOOLEAN: tantivy.Document.add_boolean,
    kinds.DATE: tantivy.Document.add_integer,
}


def prepare_column(column: pa.Array, kind: str, tokenizer: str) -> tuple[Add | None, list[Any]]:
    """The function that adds a value of the column to a document (None if only nulls are indexed), and the values in the form it takes."""
    if kind == kinds.STORED:
        return None, pc.if_else(column.is_valid(), True, None).to_pylist() if column.null_count else []
    if kind in (kinds.TEXT, kinds.STRING):
        return _prepare_text(column, kind, tokenizer)
    if kind == kinds.JSON:
        return tantivy.Document.add_json, [None if value is None else _json_object(value) for value in _as_python(column)]
    if kind == kinds.INTEGER:
        column = column.cast(pa.int64())
    elif kind == kinds.FLOAT:
        column = column.cast(pa.float64())
        # Normalize zero (in Spark, -0.0 = 0.0) and NaN (greater than all numbers, as in Spark).
        column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan")), pc.add(column, pa.scalar(0.0)))
    elif kind == kinds.DECIMAL:
        column = _unscaled(column)
    elif kind == kinds.DATE:
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return _ADD[kind], column.to_pylist()


def refuse_unindexable(batch: pa.RecordBatch, mapping: DocMapping, first_row: int) -> None:
    """SchemaMismatch names the first value that cannot be indexed, so that a write fails before the split is finished."""
    for name, kind in mapping.fields:
        if kind == kinds.IP:
            for row, text in enumerate(batch.column(name).to_pylist(), start=first_row):
                if text is not None and not _is_address(text):
                    raise SchemaMismatch(f"row {row}, column {name!r}: {text[:80]!r} is not an IP address")


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _unscaled(column: pa.Array) -> pa.Array:
    """The unscaled values of decimals of at most 18 digits: the lower half of their 128 bits."""
    halves = np.frombuffer(column.buffers()[1], "<i8")
    lower = halves[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    return pa.array(lower, pa.int64(), mask=column.is_null().to_numpy(zero_copy_only=False))


# --- text


def _prepare_text(column: pa.Array, kind: str, tokenizer: str) -> tuple[Add, list[Any]]:
    is_array = pa.types.is_list(column.type)
    texts = column.flatten() if is_array else column
    short = (pc.max(pc.binary_length(texts)).as_py() or 0) <= _SHORT
    add: Add = _ADD[kind]
    if tokenizer == kinds.NGRAM:
        add = _add_grams
    elif not short:
        add = partial(_add_long_text, kinds.RAW if kind == kinds.STRING else tokenizer)
    return (partial(_add_each, add) if is_array else add), column.to_pylist()


def _add_each(add: Add, document: Any, name: str, values: Iterable[str | None]) -> None:
    for value in values:
        if value is not None:
            add(document, name, value)


def _add_grams(document: Any, name: str, value: str) -> None:
    document.add_pre_tokenized_text(name, gram_tokens(value))


def _add_long_text(tokenizer: str, document: Any, name: str, value: str) -> None:
    if tokenizer == kinds.RAW:
        document.add_text(name, value[:_CUT])
        return
    words = analyzer(tokenizer)
    if all(len(word) <= _CUT for word in words.analyze(value)):
        document.add_text(name, value)
        return
    tokens = [
        tantivy.Token(word.text[:_CUT], word.position, word.char_offset_from, word.char_offset_to)
        for word in words.pre_tokenize(value).tokens
    ]
    document.add_pre_tokenized_text(name, tantivy.PreTokenizedString(value, tokens))


# --- JSON


def _as_python(column: pa.Array) -> list[Any]:
    """The values as Python objects. A time outside Python's range of years becomes None: `where` finds it, a query does not."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [python_value(scalar, lambda _: None) for scalar in column]


def _json_object(value: Any) -> dict[str, Any]:
    """A struct or a map as a JSON object. Values that tantivy would drop or convert become strings or are left out."""
    pairs = value.items() if isinstance(value, dict) else value
    return {key: found for key, item in pairs if (found := _json_value(item)) is not None}


def _json_value(value: Any) -> Any:
    if isinstance(value, str):
        # tantivy parses `2024-01-01T00:00:00Z` as a date and truncates it to seconds. A leading space prevents that and changes no word.
        return " " + value if value[:1].isdigit() else value
    if isinstance(value, bool) or (isinstance(value, int) and -_MOST_INTEGER <= value < _MOST_INTEGER):
        return value
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    if isinstance(value, dict):
        return _json_object(value)
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):  # a map
            return _json_object([(str(key), item) for key, item in value])
        return [found for item in value if (found := _json_value(item)) is not None]
    if isinstance(value, Decimal):
        return " " + format(value, "f")
    return " " + value.isoformat() if isinstance(value, date | datetime) else None
