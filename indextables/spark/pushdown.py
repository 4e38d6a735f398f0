"""Filters that Spark offers, as a predicate of ours.

Every filter is handed back, so Spark checks each row again: ours may keep too many rows, and must never drop one that Spark would keep. So
only comparisons that mean the same on both sides are taken: no floating-point columns (NaN), no nulls as values.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from indextables.errors import InvalidPredicate
from indextables.predicates import Predicate, parse_predicate

_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def predicate_of(filters: Sequence[Filter], where: str | None, schema: pa.Schema) -> Predicate | None:
    """`where` and every filter that can be said in a predicate; None where there is nothing to say."""
    parts = [f"({where})"] if where is not None else []
    for offered in filters:
        text = filter_text(offered, schema)
        if text is not None and _parses(text, schema):
            parts.append(f"({text})")
    if not parts:
        return None
    try:
        return parse_predicate(" AND ".join(parts), schema)
    except InvalidPredicate:  # too long together: less is pushed, not less is right
        return None if where is None else parse_predicate(where, schema)


def filter_text(offered: Filter, schema: pa.Schema) -> str | None:
    """The filter in our syntax, or None."""
    path: tuple[str, ...] = getattr(offered, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    kind = schema.field(path[0]).type
    column = "`" + path[0].replace("`", "``") + "`"
    if isinstance(offered, IsNull):
        return f"{column} IS NULL"
    if isinstance(offered, IsNotNull):
        return f"{column} IS NOT NULL"
    if pa.types.is_floating(kind):
        return None
    if isinstance(offered, In):
        values = [_literal(value, kind) for value in offered.value]
        known = [value for value in values if value is not None]
        return f"{column} IN ({', '.join(known)})" if known and len(known) == len(values) else None
    operator = _OPERATORS.get(type(offered))
    literal = _literal(offered.value, kind) if operator else None
    return None if literal is None else f"{column} {operator} {literal}"


def _literal(value: Any, kind: pa.DataType) -> str | None:
    """A value as a predicate writes it; None for what is not exactly a value of the column's type."""
    if isinstance(value, bool):
        return str(value).upper() if pa.types.is_boolean(kind) else None
    if isinstance(value, int):
        return str(value) if pa.types.is_integer(kind) else None
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if pa.types.is_string(kind) else None
    if isinstance(value, datetime):
        return _timestamp(value, kind)
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'" if pa.types.is_date(kind) else None
    return None


def _timestamp(value: datetime, kind: pa.DataType) -> str | None:
    if not pa.types.is_timestamp(kind) or (value.tzinfo is None) != (kind.tz is None):
        return None
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if value.tzinfo else value.isoformat(" ")
    return f"TIMESTAMP '{text}{'Z' if value.tzinfo else ''}'"


def _parses(text: str, schema: pa.Schema) -> bool:
    try:
        parse_predicate(text, schema)
    except InvalidPredicate:
        return False
    return True
