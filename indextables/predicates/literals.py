"""Parses literals and converts them to the type of a column."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

# As written: Decimal for every number; datetime always aware, UTC
Written = Decimal | str | bytes | bool | date | datetime | None

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?"
_ZONE = r"(?P<zone>Z|UTC|(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?)"
_DATE_ONLY = re.compile(_DATE)
_TIMESTAMP = re.compile(rf"{_DATE}(?:[ T]{_TIME}(?: ?{_ZONE})?)?", re.IGNORECASE)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "+inf": math.inf, "+infinity": math.inf}
_SPECIAL |= {"-inf": -math.inf, "-infinity": -math.inf}
_EXACT_DIGITS = 100  # more than a decimal column has
_INT_MIN, _INT_MAX = Decimal(-(2**63)), Decimal(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Placed:
    """The position of a literal among the values a column can have: equal to `value`, or (`after`) between it and the next value.

    If `value` is None, the literal is greater than every value of the column (`after`), or less than every value.
    """

    value: Any
    after: bool = False


def excerpt(text: str, most: int = 40) -> str:
    """A text shortened for an error message."""
    return text if len(text) <= most else text[: most - 1] + "…"


def parse_number(text: str) -> Decimal:
    """ValueError if the text is not a number, or its exponent is out of range."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{excerpt(text)!r} is not a number")
    try:
        return Decimal(text)
    except InvalidOperation as cause:
        raise ValueError(f"{excerpt(text)!r} is out of range") from cause


def parse_bytes(text: str) -> bytes:
    if not _HEX.fullmatch(text):
        raise ValueError(f"{excerpt(text)!r} does not consist of pairs of hexadecimal digits")
    return bytes.fromhex(text)


def parse_date(text: str) -> date:
    found = _DATE_ONLY.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{excerpt(text)!r} is not a date like 2024-01-31")
    return _date(found)


def parse_timestamp(text: str) -> datetime:
    """The time in UTC; a text without a zone is UTC."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{excerpt(text)!r} is not a timestamp like 2024-01-31 12:30:00.123456+02:00 (the zone is Z, UTC or an offset)")
    day = _date(found)
    if found["hour"] is None:
        return midnight(day)
    clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0), int((found["fraction"] or "0").ljust(6, "0")))
    try:
        return datetime.combine(day, clock, _offset(found)).astimezone(UTC)
    except OverflowError as cause:
        raise ValueError(f"{excerpt(text)!r} is out of range") from cause


def _date(found: re.Match[str]) -> date:
    return date(int(found["year"]), int(found["month"]), int(found["day"]))


def _offset(found: re.Match[str]) -> timezone:
    if found["sign"] is None:
        return UTC
    ahead = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return timezone(ahead if found["sign"] == "+" else -ahead)


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def single(value: float) -> float:
    """The float32 nearest to `value`; OverflowError if it is out of range."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def place(literal: Any, kind: pa.DataType) -> Placed:
    """The position of the literal among the values of type `kind`; ValueError says why they cannot be compared."""
    if pa.types.is_string(kind):
        return _place_string(literal)
    if pa.types.is_boolean(kind):
        return _place_boolean(literal)
    if pa.types.is_integer(kind):
        placed = _place_exact(as_number(literal), _INT_MIN, _INT_MAX, 0)
        return placed if placed.value is None else Placed(int(placed.value), placed.after)
    if pa.types.is_floating(kind):
        return _place_float(as_number(literal, special=True))
    if pa.types.is_decimal(kind):
        high = Decimal((0, (9,) * kind.precision, -kind.scale))
        return _place_exact(as_number(literal), high.copy_negate(), high, kind.scale)
    if pa.types.is_date(kind):
        return _place_date(parse_date(literal) if isinstance(literal, str) else literal)
    if pa.types.is_binary(kind):
        return _place_binary(literal)
    if not pa.types.is_timestamp(kind):
        raise ValueError("only IS NULL and IS NOT NULL are for columns of this type")
    return _place_timestamp(literal, kind)


def _place_string(literal: Any) -> Placed:
    if not isinstance(literal, str):
        raise ValueError("write the value in single quotes")
    return Placed(literal)


def _place_binary(literal: Any) -> Placed:
    """A string means its UTF-8 bytes, as in Spark."""
    if not isinstance(literal, str | bytes):
        raise ValueError("expected bytes like X'00ff'")
    return Placed(literal if isinstance(literal, bytes) else literal.encode())


def _place_boolean(literal: Any) -> Placed:
    if isinstance(literal, str) and literal.strip().lower() in ("true", "false"):
        return Placed(literal.strip().lower() == "true")
    if not isinstance(literal, bool):
        raise ValueError("expected TRUE or FALSE")
    return Placed(literal)


def as_number(literal: Any, special: bool = False) -> Decimal | float:
    if isinstance(literal, str):
        word = literal.strip()
        if special and word.lower() in _SPECIAL:
            return _SPECIAL[word.lower()]
        return parse_number(word)
    if not isinstance(literal, Decimal):
        raise ValueError("expected a number")
    return literal


def _place_exact(number: Any, low: Decimal, high: Decimal, scale: int) -> Placed:
    """The position among the decimals of this scale from `low` to `high`."""
    # Compared before it is expanded: 1e999999999 as an integer would exhaust memory.
    if number > high:
        return Placed(None, after=True)
    if number < low:
        return Placed(None)
    with localcontext(prec=_EXACT_DIGITS):
        floor = number.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR) if number.as_tuple().exponent < -scale else number
    return Placed(floor, after=bool(floor != number))


def _place_float(number: Decimal | float) -> Placed:
    nearest = float(number)
    if isinstance(number, Decimal) and math.isinf(nearest):  # larger than every double, smaller than infinity
        return Placed(math.nextafter(math.inf, 0), after=True) if nearest > 0 else Placed(-math.inf, after=True)
    return Placed(nearest)


def _place_date(literal: Any) -> Placed:
    if isinstance(literal, datetime):
        return Placed(literal.date(), after=literal.timetz().replace(tzinfo=None) != time())
    if not isinstance(literal, date):
        raise ValueError("expected a date")
    return Placed(literal)


def _place_timestamp(literal: Any, kind: pa.DataType) -> Placed:
    if isinstance(literal, str):
        literal = parse_timestamp(literal)
    if not isinstance(literal, date):
        raise ValueError("expected a timestamp")
    moment = literal if isinstance(literal, datetime) else midnight(literal)
    return Placed(moment if kind.tz else moment.replace(tzinfo=None))
