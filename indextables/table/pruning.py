"""Which files can hold a row that matches: decided from partition values and min/max statistics alone, for all files at once (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import LiveFiles, Part, Segment, strings_of
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
    Texts,
    exceeds,
    has_keys,
    keys_of,
    mask_of,
    outcomes,
    typed_array,
    typed_scalar,
)

_CUT = typed_scalar(STATS_CHARACTERS, pa.int64()).cast(pa.int32())  # characters at which other writers cut
_FEW = 4  # where no more than one file in so many is left by its partition, min/max are compared of those alone


@dataclass(frozen=True, slots=True, eq=False)
class Pruned:
    """Which rows of `LiveFiles.table()` are left after each step."""

    in_partitions: Mask  # by partition values
    remaining: Mask  # and by min/max: the files that may hold a matching row


def prune(files: LiveFiles, predicate: Predicate, schema: pa.Schema, partition_columns: Sequence[str]) -> Pruned:
    """A file is left out only if no row of it can match.

    Files of other writers are known by their paths: their string maxima may be cut off (decisions.md, C-51), their order of strings may be
    that of UTF-16, and their floating-point maxima may leave NaN out.
    """
    found = [_prune_part(part, predicate, schema, partition_columns) for part in files.all_parts]
    none = np.zeros(0, bool)
    return Pruned(*(np.concatenate([none, *masks]) for masks in zip(*found, strict=True))) if found else Pruned(none, none)


def decided_by_partition(predicate: Predicate, partition_columns: Sequence[str]) -> bool:
    """Whether all rows of a file get the same answer, since the predicate uses partition columns only."""
    return predicate.columns <= set(partition_columns)


def may_match_bounds(
    predicate: Predicate,
    bounds: Mapping[str, tuple[str | None, str | None]] | None,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    *,
    by_type: bool = True,
    without_null: Collection[str] = (),
) -> bool:
    """False only if no file can match whose partition values lie within these bounds (min and max, null where not known).

    Values may be null besides, but for the columns `without_null`. `by_type` says that the bounds are the least and greatest in the order
    of the column's type (`predicates.log_strings.bounds_of`); other writers compare texts, where 10 comes before 9.
    """
    given = bounds or {}

    def ranges(name: str) -> Ranges:
        kind = schema.field(name).type
        if name not in partition_columns or name not in given or not _is_comparable(predicate, name, kind):
            return Ranges(kind)
        low, high = given[name]
        if not by_type and low != high and not _ordered_as_text(kind, low, high):
            return Ranges(kind)
        found = _ranges(kind, keys_of(_texts(low), kind), keys_of(_texts(high), kind))
        return replace(found, null=NO) if name in without_null else found

    return bool(outcomes(predicate.expression, ranges, TRUE).true.any())


def partition_ranges(texts: pa.Array, kind: pa.DataType) -> Ranges:
    """A partition column that is missing is null; a value that does not decode may be anything."""
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
    if not decided_by_partition(predicate, partition_columns):
        rows = np.flatnonzero(remaining)
        if len(rows) * _FEW <= size:
            remaining[rows] = _may_be_true(predicate, lambda name: by_stats(name).take(rows), len(rows))
        else:
            remaining &= _may_be_true(predicate, by_stats, size)
    return (in_partitions, remaining) if part.live is None else (in_partitions[part.live], remaining[part.live])


def _is_comparable(predicate: Predicate, name: str, kind: pa.DataType) -> bool:
    """A column that changed its type, or whose type has no order, says nothing."""
    return bool(kind == predicate.schema.field(name).type) and has_keys(kind)


def partition_column(segment: Segment, name: str, kind: pa.DataType) -> Ranges:
    """Its values in all rows of the segment, kept with it."""
    return segment.derived(
        ("partition", name, kind), lambda rows: partition_ranges(strings_of(rows.column("partition_values"), name), kind)
    )


def _may_be_true(predicate: Predicate, ranges: Callable[[str], Ranges], size: int) -> Mask:
    return np.broadcast_to(outcomes(predicate.expression, ranges, TRUE).true, (size,))


def _has_rows(files: pa.Table) -> Mask:
    counts = files.column("num_records").combine_chunks()
    return ~mask_of(pc.equal(counts, typed_scalar(0, pa.int64())))


def stats_ranges(files: pa.Table, ours: Mask, name: str, kind: pa.DataType) -> Ranges:
    """What min and max of a column say, for each file."""
    texts = [strings_of(files.column(side), name) for side in ("min_values", "max_values")]
    low, high = (keys_of(side, kind) for side in texts)
    if not ours.all() and pa.types.is_floating(kind):
        high = high.only(ours)
    if not ours.all() and pa.types.is_string(kind):
        low, high = (keys.only(ours | ~_is_beyond(side)) for keys, side in zip((low, high), texts, strict=True))
        high = high.only(ours | ~mask_of(pc.greater_equal(pc.utf8_length(texts[1]), _CUT)))
    return _ranges(kind, low, high)


def _is_ours(files: pa.Table) -> Mask:
    return mask_of(pc.match_substring_regex(files.column("path").combine_chunks(), rf"\A(?:{SPLIT_PATTERN})\z"))


def _is_beyond(texts: pa.Array) -> Mask:
    """Where there is a character that programs on the JVM, which compare UTF-16, sort otherwise: U+FFFF after U+10000."""
    return mask_of(pc.match_substring_regex(texts, r"[\x{E000}-\x{10FFFF}]"))


def _ranges(kind: pa.DataType, low: Keys, high: Keys) -> Ranges:
    """No column has NaN for a bound, or bounds in the wrong order: such statistics are somebody's mistake and say nothing."""
    wrong = exceeds(low, high, or_equal=False)
    if pa.types.is_floating(kind) and not isinstance(low, Texts) and not isinstance(high, Texts):
        wrong = wrong | ((low.values == NAN) & low.known) | ((high.values == NAN) & high.known)
    return Ranges(kind, low.only(~wrong), high.only(~wrong)) if wrong.any() else Ranges(kind, low, high)


def _ordered_as_text(kind: pa.DataType, *bounds: str | None) -> bool:
    """Dates and booleans have the same order as texts, and so have strings but for characters that the JVM sorts otherwise."""
    if pa.types.is_string(kind):
        return not any(_is_beyond(_texts(bound))[0] for bound in bounds)
    return bool(pa.types.is_date(kind) or pa.types.is_boolean(kind))


def _texts(text: str | None) -> pa.Array:
    return pa.nulls(1, pa.string()) if text is None else typed_array([text], pa.string())
