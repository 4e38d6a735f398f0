"""Checks the lines of a log file before they are decoded: bounded size, no duplicate keys."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from indextables import limits
from indextables.errors import LogCorrupted


def numbered_lines(data: bytes, source: str) -> Iterator[tuple[int, bytes]]:
    """Yields every line that is not blank, with its number from 1; LogCorrupted names a line that is too long or has too many values."""
    for number, line in enumerate(BytesIO(data), start=1):
        if len(line) > limits.LINE_CHECKED_BYTES:
            _refuse_oversized(line, f"{source}, line {number}")
        if not line.isspace():
            yield number, line


def _refuse_oversized(line: bytes, place: str) -> None:
    if len(line) > limits.LINE_BYTES:
        raise LogCorrupted(f"{place} is longer than {limits.LINE_BYTES} bytes")
    if line.count(b",") > limits.LINE_VALUES:
        raise LogCorrupted(f"{place} has more than {limits.LINE_VALUES} values")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:80]} is too large a number")
    return number


def refuse_duplicate_keys(line: bytes, place: str) -> None:
    """LogCorrupted if an object has a duplicate key or a number is infinite: readers would disagree on which value counts."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise LogCorrupted(f"{place} has the key {key[:80]!r} twice")
            seen.add(key)

    try:
        json.loads(line, object_pairs_hook=check, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise LogCorrupted(f"{place} is not an action: {error}") from error
