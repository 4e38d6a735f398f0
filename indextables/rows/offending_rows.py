"""Finds the row of a column that fails a conversion, so that the error can name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from indextables.errors import SchemaMismatch


def cast_column(column: pa.Array, kind: pa.DataType, name: str, first_row: int) -> pa.Array:
    """Casts the column. SchemaMismatch names the first value that cannot be cast."""
    try:
        return column.cast(kind)
    except (pa.ArrowException, OverflowError) as error:
        row, complaint = first_bad(column, lambda part: part.cast(kind))
        reason = complaint.split(". ", 1)[0]  # the rest is advice about Arrow's API
        raise SchemaMismatch(
            f"row {first_row + row}, column {name!r}: {_shown(column, row)} is not a value of type {kind}: {reason}"
        ) from error


def from_hex(column: Any, kind: pa.DataType, name: str, first_row: int) -> pa.Array:
    """Decodes hex strings. SchemaMismatch names the first invalid string."""
    found: list[bytes | None] = []
    for row, text in enumerate(column.to_pylist(), start=first_row):
        try:
            found.append(None if text is None else bytes.fromhex(text))
        except ValueError as error:
            raise SchemaMismatch(
                f"row {row}, column {name!r}: {text[:80]!r} is not a value of type {kind}, which is pairs of hex digits"
            ) from error
    return pa.array(found, kind)


def first_bad(column: pa.Array, check: Callable[[pa.Array], Any]) -> tuple[int, str]:
    """The first row that fails the check, and the error, in a column that fails it as a whole."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _complaint(_only(column, low, middle), check) is None:
            low = middle
        else:
            high = middle
    return low, _complaint(_only(column, low, low + 1), check) or "it does not fit"


def _only(column: pa.Array, start: int, end: int) -> pa.Array:
    """Some rows of a column, copied if nested: a slice of lists would still hold the elements of all lists."""
    return column.take(pa.array(range(start, end), pa.int64())) if pa.types.is_nested(column.type) else column.slice(start, end - start)


def _complaint(part: pa.Array, check: Callable[[pa.Array], Any]) -> str | None:
    try:
        check(part)
    except (pa.ArrowException, OverflowError) as error:
        return str(error)
    return None


def _shown(column: pa.Array, row: int) -> str:
    try:
        return repr(column[row].as_py())[:80]
    except (ValueError, OverflowError):  # a timestamp outside of Python's range
        return f"{column[row].value} as {column.type}"
