"""Converts strings of the log (partition values, statistics) to keys.

Exactly the strings that `values.decode_value` accepts have a key. Arrow parses strings in the usual format in bulk. `decode_value` parses
the others one by one, and all of them if one only looks usual (2024-02-30).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.predicates.keys import IntegerKeys, Integers, Keys, Mask, TextKeys, float_keys, key_of, mask_of, typed_scalar
from indextables.predicates.literals import single
from indextables.values import decode_value

_FEW = 16  # strings are stored once each if this many rows or more share one on average
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_INTEGER = r"\A-?[0-9]{1,18}\z"
_FLOAT = r"\A-?[0-9]{1,17}(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?\z"
_DATE = rf"\A{_DAY}\z"
_MOMENT = rf"\A{_DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{3}}([0-9]{{3}})?)?Z?\z"
_YEARS = {"d": (-719_162, 2_932_896), "t": (-62_135_596_800_000_000, 253_402_300_799_999_999)}  # 1 to 9999, in days and microseconds


def has_keys(kind: pa.DataType) -> bool:
    """Whether values of a type have keys; for others (decimal, binary, nested) statistics are not used."""
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def keys_of(texts: pa.Array, kind: pa.DataType) -> Keys:
    """The keys of strings of a type that has keys; unknown where the string is null or not a value of the type."""
    if pa.types.is_string(kind):
        return _shared(texts)
    usual = _usual(texts, kind) or IntegerKeys(np.zeros(len(texts), np.int64), np.zeros(len(texts), bool))
    rest = np.flatnonzero(mask_of(pc.is_valid(texts)) & ~usual.known)
    if not len(rest):
        return usual
    coded = texts.take(pa.array(rest)).dictionary_encode()
    values, known = _one_by_one(coded.dictionary, kind)
    codes = coded.indices.to_numpy()
    all_values, all_known = usual.values.copy(), usual.known.copy()
    all_values[rest], all_known[rest] = values[codes], known[codes]
    return IntegerKeys(all_values, all_known)


def _shared(texts: pa.Array) -> TextKeys:
    """Stores repeated strings once, which can make comparisons a hundred times faster."""
    sample = texts.slice(0, 4096)
    if len(sample.unique()) * _FEW > len(sample):
        return TextKeys(texts)
    coded = texts.dictionary_encode(null_encoding="encode")
    return TextKeys(coded.dictionary, coded.indices.to_numpy(zero_copy_only=False))


def _usual(texts: pa.Array, kind: pa.DataType) -> IntegerKeys | None:
    """The keys of strings in the usual format; None if one of them is not a value after all."""
    try:
        if pa.types.is_integer(kind):
            return _numbers(_only(texts, _INTEGER).cast(pa.int64()))
        if pa.types.is_floating(kind):
            return _floats(_only(texts, _FLOAT).cast(pa.float64()), kind)
        if pa.types.is_boolean(kind):
            return _numbers(_only(texts, r"\A(true|false)\z").cast(pa.bool_()).cast(pa.int64()))
        if pa.types.is_date(kind):
            return _in_years("d", _only(texts, _DATE).cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
        if pa.types.is_timestamp(kind):
            moments = pc.utf8_rtrim(_only(texts, _MOMENT), "Z")
            return _in_years("t", moments.cast(pa.timestamp("us")).cast(pa.int64()))
    except pa.ArrowInvalid:
        return None
    return None


def _only(texts: pa.Array, regex: str) -> pa.Array:
    found = pc.match_substring_regex(texts, regex)
    return texts if pc.all(found).as_py() else pc.if_else(found, texts, typed_scalar(None, pa.string()))


def _numbers(values: pa.Array) -> IntegerKeys:
    filled = pc.fill_null(values, typed_scalar(0, pa.int64()))
    return IntegerKeys(filled.to_numpy(), mask_of(pc.is_valid(values)))


def _floats(values: pa.Array, kind: pa.DataType) -> IntegerKeys:
    numbers = pc.fill_null(values, typed_scalar(0.0, pa.float64())).to_numpy()
    known = mask_of(pc.is_valid(values))
    if pa.types.is_float32(kind):
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32).astype(np.float64)
        known &= np.isfinite(numbers)  # infinite here means out of range of float32
    return IntegerKeys(float_keys(numbers), known)


def _in_years(unit: str, values: pa.Array) -> IntegerKeys:
    found = _numbers(values)
    first, last = _YEARS[unit]
    return found.only((found.values >= first) & (found.values <= last))


def _one_by_one(texts: pa.Array, kind: pa.DataType) -> tuple[Integers, Mask]:
    keys = [_key(text, kind) for text in texts.to_pylist()]
    return np.array([key or 0 for key in keys], np.int64), np.array([key is not None for key in keys], bool)


def _key(text: str, kind: pa.DataType) -> Any:
    try:
        value: Any = decode_value(text, kind)
        return key_of(single(value) if pa.types.is_float32(kind) else value)
    except (ValueError, OverflowError):
        return None
