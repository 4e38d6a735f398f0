"""Which files may contain a matching row, judged by partition values and min/max statistics for all files at once (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import gt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import Bounds, LiveFiles, Part, Segment, strings_of
from indextables.limits import STATS_CHARACTERS
from indextables.paths import SPLIT_PATTERN
from indextables.predicates import (
    NAN,
    NO,
    TRUE,
    Keys,
    Mask,
    Predicate,
    Ranges,
    TextKeys,
    compared,
    has_keys,
    keys_of,
    mask_of,
    outcomes,
    typed_array,
    typed_scalar,
)

_TRUNCATED_LENGTH = typed_scalar(STATS_CHARACTERS, pa.int64()).cast(pa.int32())  # length at which other writers truncate string statistics
_SELECTIVE = 4  # if partitions leave at most one file in four, min/max are compared for these files only


@dataclass(frozen=True, slots=True, eq=False)
class Pruned:
    """Masks of the rows of `LiveFiles.table()` that are left after each step."""

    in_partitions: Mask  # by partition values
    remaining: Mask  # by partition values and min/max


def prune(files: LiveFiles, predicate: Predicate, schema: pa.Schema, partition_columns: Sequence[str]) -> Pruned:
    """Prunes a file only if none of its rows can match.

    Statistics of other writers, which are recognised by the names of their files, are trusted less: their string maxima may be truncated
    (C-51), their string order may be that of UTF-16, and their floating-point maxima may ignore NaN.
    """
    found = [_prune_part(part, predicate, schema, partition_columns) for part in files.all_parts]
    none = np.zeros(0, bool)
    return Pruned(*(np.concatenate([none, *masks]) for masks in zip(*found, strict=True))) if found else Pruned(none, none)


def may_match_bounds(predicate: Predicate, bounds: Mapping[str, Bounds], schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
    """False only if no file with partition values within these bounds can match. Bounds of other writers are in the order of strings, where
    10 comes before 9."""

    def ranges(name: str) -> Ranges:
        kind = schema.field(name).type
        if name not in partition_columns or name not in bounds or not _is_comparable(predicate, name, kind):
            return Ranges(kind)
        given = bounds[name]
        if not given.by_type and given.low != given.high and not _ordered_as_text(kind, given.low, given.high):
            return Ranges(kind)
        found = _ranges(kind, keys_of(_texts(given.low), kind), keys_of(_texts(given.high), kind))
        return found if given.has_null else replace(found, null=NO)

    return bool(outcomes(predicate.expression, ranges, TRUE).true.any())


def partition_ranges(texts: pa.Array, kind: pa.DataType) -> Ranges:
    """A missing partition value is null; one that cannot be decoded may be any value."""
    keys = keys_of(texts, kind)
    is_null = mask_of(pc.is_null(texts))
    return Ranges(kind, keys, keys, null=~keys.known, value=~is_null)


def _prune_part(part: Part, predicate: Predicate, schema: pa.Schema, partition_columns: Sequence[str]) -> tuple[Mask, Mask]:
    segment, size = part.segment, part.segment.num_rows

    def by_partition(name: str) -> Ranges:
        kind = schema.field(name).type
        if name not in partition_columns or not _is_comparable(predicate, name, kind):
            return Ranges(kind)
        return partition_column(segment, name, kind)

    def by_stats(name: str) -> Ranges:
        kind = schema.field(name).type
        if name in partition_columns or not _is_comparable(predicate, name, kind):
            return by_partition(name)
        ours = segment.derived("ours", _is_ours)
        return segment.derived(("stats", name, kind), lambda rows: stats_ranges(rows, ours, name, kind))

    in_partitions = _may_be_true(predicate, by_partition, size)
    remaining = in_partitions & segment.derived("has rows", _has_rows)
    if not predicate.columns <= set(partition_columns):
        rows = np.flatnonzero(remaining)
        if len(rows) * _SELECTIVE <= size:
            remaining[rows] = _may_be_true(predicate, lambda name: by_stats(name).take(rows), len(rows))
        else:
            remaining &= _may_be_true(predicate, by_stats, size)
    return (in_partitions, remaining) if part.live is None else (in_partitions[part.live], remaining[part.live])


def _is_comparable(predicate: Predicate, name: str, kind: pa.DataType) -> bool:
    """Whether the column can prune: it has the type that the predicate expects, and that type has an order."""
    return bool(kind == predicate.schema.field(name).type) and has_keys(kind)


def partition_column(segment: Segment, name: str, kind: pa.DataType) -> Ranges:
    """The values of a partition column in all rows of the segment, cached with the segment."""
    return segment.derived(
        ("partition", name, kind), lambda rows: partition_ranges(strings_of(rows.column("partition_values"), name), kind)
    )


def _may_be_true(predicate: Predicate, ranges: Callable[[str], Ranges], size: int) -> Mask:
    return np.broadcast_to(outcomes(predicate.expression, ranges, TRUE).true, (size,))


def _has_rows(files: pa.Table) -> Mask:
    counts = files.column("num_records").combine_chunks()
    return ~mask_of(pc.equal(counts, typed_scalar(0, pa.int64())))


def stats_ranges(files: pa.Table, ours: Mask, name: str, kind: pa.DataType) -> Ranges:
    """The range of a column in each file, from its min and max."""
    texts = [strings_of(files.column(side), name) for side in ("min_values", "max_values")]
    low, high = (keys_of(side, kind) for side in texts)
    if not ours.all() and pa.types.is_floating(kind):
        high = high.only(ours)
    if not ours.all() and pa.types.is_string(kind):
        low, high = (keys.only(ours | ~_differs_in_utf16(side)) for keys, side in zip((low, high), texts, strict=True))
        high = high.only(ours | ~mask_of(pc.greater_equal(pc.utf8_length(texts[1]), _TRUNCATED_LENGTH)))
    return _ranges(kind, low, high)


def _is_ours(files: pa.Table) -> Mask:
    return mask_of(pc.match_substring_regex(files.column("path").combine_chunks(), rf"\A(?:{SPLIT_PATTERN})\z"))


def _differs_in_utf16(texts: pa.Array) -> Mask:
    """Where a text has a character that the JVM, which compares UTF-16, orders differently: U+FFFF after U+10000."""
    return mask_of(pc.match_substring_regex(texts, r"[\x{E000}-\x{10FFFF}]"))


def _ranges(kind: pa.DataType, low: Keys, high: Keys) -> Ranges:
    """The range between the bounds; unbounded where they are NaN or in the wrong order, which only a faulty writer produces."""
    wrong = compared(gt, low, high)
    if pa.types.is_floating(kind) and not isinstance(low, TextKeys) and not isinstance(high, TextKeys):
        wrong = wrong | ((low.values == NAN) & low.known) | ((high.values == NAN) & high.known)
    return Ranges(kind, low.only(~wrong), high.only(~wrong)) if wrong.any() else Ranges(kind, low, high)


def _ordered_as_text(kind: pa.DataType, *bounds: str | None) -> bool:
    """Whether the order of the type equals that of its texts: for dates and booleans, and for strings that the JVM orders as we do."""
    if pa.types.is_string(kind):
        return not any(_differs_in_utf16(_texts(bound))[0] for bound in bounds)
    return bool(pa.types.is_date(kind) or pa.types.is_boolean(kind))


def _texts(text: str | None) -> pa.Array:
    return pa.nulls(1, pa.string()) if text is None else typed_array([text], pa.string())
