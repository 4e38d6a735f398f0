"""Column values as strings of the log: partition values and min/max statistics.

Numbers in shortest decimal form, `true`/`false`, dates `2024-01-31`, timestamps ISO 8601 with microseconds and `Z` where the column has
a zone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

Scalar = bool | int | float | str | date | datetime | Decimal


def encode_value(value: Scalar, kind: pa.DataType) -> str:
    """The string for a value that is not null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if pa.types.is_float32(kind):
        return str(pa.scalar(value, pa.float32()).cast(pa.string()).as_py())
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text + "Z" if kind.tz else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        digits = format(value, "f")
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    return str(value)


def decode_value(text: str, kind: pa.DataType) -> Scalar:
    """The value of a string, in Python's type for the column; ValueError if it is not a value of that type.

    Timestamps of a column with a zone are aware (UTC), others naive.
    """
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _bad(text, kind)
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_decimal(kind):
        return _decode_decimal(text, kind)
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return _decode_timestamp(text, kind)
    return _bad(text, kind)


def python_value(scalar: pa.Scalar, otherwise: Callable[[pa.Scalar], Any]) -> Any:
    """Like Arrow's `as_py`, but `otherwise` converts timestamps beyond those of Python (years 1 to 9999), nested ones too."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        pass
    if pa.types.is_struct(scalar.type):
        return {name: python_value(item, otherwise) for name, item in scalar.items()}
    if pa.types.is_map(scalar.type):
        return [tuple(python_value(part, otherwise) for part in entry.values()) for entry in scalar.values]
    if pa.types.is_list(scalar.type):
        return [python_value(item, otherwise) for item in scalar.values]
    return otherwise(scalar)


def _decode_decimal(text: str, kind: pa.DataType) -> Scalar:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return _bad(text, kind)
    return number if number.is_finite() and number.adjusted() <= kind.precision else _bad(text, kind)


def _decode_timestamp(text: str, kind: pa.DataType) -> datetime:
    if text[4:5] != "-":  # 1612010112345 is milliseconds for other programs; Python would read it as a time of 1612
        raise ValueError(f"{text!r} is not a value of type {kind}")
    moment = datetime.fromisoformat(text)
    if kind.tz:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _bad(text: str, kind: Any) -> Scalar:
    raise ValueError(f"{text!r} is not a value of type {kind}")
