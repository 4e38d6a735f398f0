"""Aggregates a split from the log alone: row counts, partition values, and bounds of numbers and times in our splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from indextables.actions import Add
from indextables.operations.aggregate.grouping import GroupKey
from indextables.operations.aggregate.measures import Measure
from indextables.paths import is_our_split
from indextables.table import Snapshot
from indextables.values import decode_value


@dataclass(frozen=True, slots=True)
class SplitAggregate:
    """The aggregate of all selected rows of a split as one group."""

    values: dict[str, Any]  # partition column -> value
    parts: dict[str, Any]  # name of a measure's part -> value


def aggregate_from_log(
    add: Add, snapshot: Snapshot, groups: Sequence[GroupKey], measures: Sequence[Measure], rows: int | None
) -> SplitAggregate | None:
    """The aggregates of a split of which all `rows` count; None unless the log has all of them exactly."""
    try:
        texts = {name: add.partition_values.get(name) for name in snapshot.partition_columns}
        values = {name: None if text is None else decode_value(text, snapshot.schema.field(name).type) for name, text in texts.items()}
    except (ValueError, OverflowError):
        return None
    if rows is None or any(group.column not in values for group in groups):
        return None
    parts: dict[str, Any] = {}
    for measure in measures:
        found = _parts(measure, add, values, rows)
        if found is None:
            return None
        parts |= found
    return SplitAggregate(values, parts)


def partial_table(facts: Sequence[SplitAggregate], groups: Sequence[GroupKey], keys: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The aggregates as a partial result with this schema."""
    columns: dict[str, Any] = {key: pa.array([0] * len(facts), schema.field(key).type) for key in keys[len(groups) :]}
    for key, group in zip(keys, groups, strict=False):
        values = pa.array([fact.values[group.column] for fact in facts], group.source)
        columns[key] = group.values(pa.table({group.column: values}))
    for name in schema.names[len(keys) :]:
        columns[name] = pa.array([fact.parts[name] for fact in facts], schema.field(name).type)
    return pa.table(columns).select(schema.names).cast(schema)


def _parts(measure: Measure, add: Add, values: dict[str, Any], rows: int) -> dict[str, Any] | None:
    if measure.column is None:
        return {measure.parts[0].name: rows}
    if measure.function == "count" and measure.column in values:
        return {measure.parts[0].name: 0 if values[measure.column] is None else rows}
    if measure.function not in ("min", "max"):
        return None
    first, *nans = measure.parts
    if measure.column in values:
        bound = values[measure.column]
    else:
        bound = _bound(measure, add)
        if bound is None:  # only nulls, NaN among the values, or unknown: the split must be read
            return None
    return None if bound != bound else {first.name: bound, **{part.name: 0 for part in nans}}


def _bound(measure: Measure, add: Add) -> Any:
    """The exact bound from the log, or None: bounds of strings may be truncated, and other writers ignore NaN."""
    kind = measure.kind
    exact = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    text = ((add.min_values if measure.function == "min" else add.max_values) or {}).get(measure.column or "")
    if not exact or text is None or not is_our_split(add.path):
        return None
    try:
        return decode_value(text, kind)
    except (ValueError, OverflowError):
        return None
