"""Aggregation: combines partial results of each split; the number of groups, not of rows, bounds the memory.

Values that the log has exactly are not read: counts, partition columns, and bounds of numbers and times in our splits. For a query,
tantivy counts the hits and computes sums and bounds, which is 40 times faster than fetching the rows, unless its doubles could be inexact
(integers beyond 2^53, NaN). Arrow computes everything else from the row store: without a query the index would have to be opened first,
and it does not hold whole strings.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import limits
from indextables.actions import Add
from indextables.errors import InvalidArgument
from indextables.operations.aggregate.grouping import GroupKey, parse_groups
from indextables.operations.aggregate.log_answers import SplitAggregate, aggregate_from_log, partial_table
from indextables.operations.aggregate.measures import Measure, parse_measures
from indextables.operations.executor import in_threads
from indextables.operations.search import bind, bound_query
from indextables.operations.verbs import Aggregate
from indextables.predicates import Predicate
from indextables.rows import LiveSplit
from indextables.splits import ParsedQuery
from indextables.table import Snapshot, TableContext, fully_matching_files, live_files

_CHUNK_ROWS = 65_536
_ALL = "g"  # the one group of an aggregation without group_by


@dataclass(frozen=True, slots=True)
class Plan:
    """An aggregation checked against the table."""

    groups: tuple[GroupKey, ...]
    measures: tuple[Measure, ...]
    predicate: Predicate | None
    query: ParsedQuery | None
    schema: pa.Schema  # of the table
    fully_matching: frozenset[str]  # paths of splits whose rows all match the predicate

    @property
    def keys(self) -> list[str]:
        return [f"k{number}" for number in range(len(self.groups))] or [_ALL]

    @property
    def columns(self) -> list[str]:
        """The columns used by groups and measures."""
        used = [*(group.column for group in self.groups), *(m.column for m in self.measures if m.column is not None)]
        return list(dict.fromkeys(used))

    @property
    def merges(self) -> list[tuple[str, str]]:
        return [(part.name, part.merge) for measure in self.measures for part in measure.parts]


def aggregate(request: Aggregate, context: TableContext, snapshot: Snapshot) -> pa.Table:
    """One row per group, sorted by group with nulls last; without `group_by` exactly one row."""
    groups, measures = parse_groups(snapshot.schema, request.group_by), parse_measures(snapshot.schema, request.aggs)
    predicate = bind(snapshot, request.where)
    parsed = None if request.query is None else bound_query(context, snapshot, request.query)[0]
    files = live_files(context.load(snapshot, predicate), predicate)
    plan = Plan(groups, measures, predicate, parsed, snapshot.schema, fully_matching_files(predicate, files, snapshot))
    names = [*(group.name for group in plan.groups), *(measure.name for measure in plan.measures)]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise InvalidArgument(f"the result would have two columns {doubled[0]!r}")
    results = Results(plan)
    facts, unread = _from_log(snapshot, files, plan)
    results.add(partial_table(facts, plan.groups, plan.keys, results.schema))

    def work(add: Add) -> None:
        if (counted := _counted(context, snapshot, add, plan)) is not None:
            results.add(partial_table(counted, plan.groups, plan.keys, results.schema))
            return
        for chunk in _chunks(context, snapshot, add, plan):
            results.add(partial(plan, chunk), chunk)

    in_threads(work, unread)
    return results.table()


def _from_log(snapshot: Snapshot, files: Sequence[Add], plan: Plan) -> tuple[list[SplitAggregate], list[Add]]:
    """The aggregates of splits that the log alone determines, and the splits to read."""
    facts, unread = [], []
    for add in files:
        whole = plan.query is None and add.path in plan.fully_matching
        found = aggregate_from_log(add, snapshot, plan.groups, plan.measures, LiveSplit.of(snapshot, add).known_rows) if whole else None
        if found is None:
            unread.append(add)
        else:
            facts.append(found)
    return facts, unread


def _counted(context: TableContext, snapshot: Snapshot, add: Add, plan: Plan) -> list[SplitAggregate] | None:
    """The aggregate of a query's hits in a split, computed by tantivy without reading rows; None if that would not be exact."""
    counts = [measure for measure in plan.measures if measure.column is None]
    if plan.query is None or add.path not in plan.fully_matching or aggregate_from_log(add, snapshot, plan.groups, [], 0) is None:
        return None
    columns = list(dict.fromkeys(measure.column for measure in plan.measures if measure.column is not None))
    found = LiveSplit.of(snapshot, add).open(context).numbers(plan.query, columns)
    if found is None:
        return None
    hits, numbers = found
    facts = aggregate_from_log(add, snapshot, plan.groups, counts, hits)
    parts = [measure.parts_of(numbers[measure.column]) for measure in plan.measures if measure.column is not None]
    if facts is None or None in parts:
        return None
    return [SplitAggregate(facts.values, dict(ChainMap(facts.parts, *filter(None, parts))))] if hits else []


# --- from rows


def partial(plan: Plan, chunk: pa.Table) -> pa.Table:
    """The partial result of some rows: their groups with the parts of every measure."""
    columns: dict[str, Any] = _key_columns(plan, chunk)
    functions: list[tuple[str | list[str], str]] = []
    for measure in plan.measures:
        for part in measure.parts:
            if measure.column is None:
                functions.append(([], part.function))
                continue
            columns[part.name] = part.values(chunk.column(measure.column).combine_chunks())
            functions.append((part.name, part.function))
    found = pa.table(columns).group_by(plan.keys, use_threads=False).aggregate(functions)
    return found.rename_columns([*plan.keys, *(name for name, _ in plan.merges)])


def _key_columns(plan: Plan, chunk: pa.Table) -> dict[str, Any]:
    if not plan.groups:
        return {_ALL: pa.array(np.zeros(chunk.num_rows, np.int8))}
    return {key: group.values(chunk) for key, group in zip(plan.keys, plan.groups, strict=True)}


def _chunks(context: TableContext, snapshot: Snapshot, add: Add, plan: Plan) -> Iterator[pa.Table]:
    """The selected rows of a split with the needed columns."""
    predicate = None if add.path in plan.fully_matching else plan.predicate
    rows = LiveSplit.of(snapshot, add).open(context)
    if plan.query is None:
        return rows.chunks(plan.columns, predicate)
    return (found for found, _ in rows.hits(plan.query, plan.columns, predicate))


class Results:
    """Collects partial results from any thread and combines them before they use much memory. Thread-safe."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        empty = pa.table({name: pa.array([], plan.schema.field(name).type) for name in plan.columns} or {"": pa.array([], pa.int8())})
        self._lock = threading.Lock()
        self._merged = partial(plan, empty)
        self._waiting: list[pa.Table] = []
        distinct = [measure for measure in plan.measures if measure.function == "count_distinct"]
        self._distinct = {measure.name: _Pairs(plan, measure) for measure in distinct}

    @property
    def schema(self) -> pa.Schema:
        return self._merged.schema

    def add(self, found: pa.Table, rows: pa.Table | None = None) -> None:
        """Adds a partial result, with the rows it was computed from if it was not computed from the log or the index."""
        with self._lock:
            self._waiting.append(found)
            if sum(part.num_rows for part in self._waiting) > max(_CHUNK_ROWS, self._merged.num_rows):
                self._merge()
            for pairs in self._distinct.values() if rows is not None else ():
                pairs.add(rows)

    def table(self) -> pa.Table:
        self._merge()
        plan, merged = self._plan, self._merged
        if not plan.groups and not merged.num_rows:
            merged = pa.table([pa.nulls(1, field.type) for field in merged.schema], schema=merged.schema)
        columns = [merged.column(key).cast(group.kind) for key, group in zip(plan.keys, plan.groups, strict=bool(plan.groups))]
        columns += [self._distinct[m.name].counts(merged) if m.function == "count_distinct" else m.result(merged) for m in plan.measures]
        names = [*(group.name for group in plan.groups), *(measure.name for measure in plan.measures)]
        found = pa.table(columns, names=names)
        order = pc.sort_indices(merged, sort_keys=[(key, "ascending") for key in plan.keys])
        return found.take(order).combine_chunks()

    def _merge(self) -> None:
        self._merged = _regrouped([self._merged, *self._waiting], self._plan.keys, self._plan.merges)
        self._waiting = []


def _regrouped(parts: Sequence[pa.Table], keys: list[str], merges: Sequence[tuple[str, str]]) -> pa.Table:
    found = pa.concat_tables(parts).group_by(keys, use_threads=False).aggregate(list(merges))
    if found.num_rows > limits.AGGREGATE_GROUPS:
        raise InvalidArgument(f"the aggregation has more than {limits.AGGREGATE_GROUPS} groups or distinct values; narrow it with where")
    return found.rename_columns([*keys, *(name for name, _ in merges)])


class _Pairs:
    """The distinct values of a column in each group."""

    def __init__(self, plan: Plan, measure: Measure) -> None:
        assert measure.column is not None  # only count takes *
        self._plan = plan
        self._value = GroupKey("v", measure.column, measure.kind, measure.kind, lambda values: values)
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        found = pa.table({**_key_columns(self._plan, rows), "v": self._value.values(rows)})
        self._parts.append(_regrouped([found.filter(pc.is_valid(found.column("v")))], [*self._plan.keys, "v"], []))
        if len(self._parts) > 1 and sum(part.num_rows for part in self._parts) > max(_CHUNK_ROWS, 2 * self._parts[0].num_rows):
            self._parts = [_regrouped(self._parts, [*self._plan.keys, "v"], [])]

    def counts(self, groups: pa.Table) -> pa.Array:
        """The number of distinct values in each of these groups."""
        keys = self._plan.keys
        if not self._parts:
            return pa.array(np.zeros(groups.num_rows, np.int64))
        pairs = _regrouped(self._parts, [*keys, "v"], [])
        numbered = groups.select(keys).append_column("n", pa.array(np.full(groups.num_rows, -1, np.int64)))
        counted = pairs.group_by(keys, use_threads=False).aggregate([([], "count_all")]).rename_columns([*keys, "n"])
        # A join would not match null keys, so add one marker row per group and group again.
        unnumbered = counted.append_column("at", pa.nulls(counted.num_rows, pa.int64()))
        both = pa.concat_tables([numbered.append_column("at", pa.array(np.arange(groups.num_rows))), unnumbered])
        joined = both.group_by(keys, use_threads=False).aggregate([("n", "max"), ("at", "max")]).sort_by("at_max")
        return pc.max_element_wise(joined.column("n_max").combine_chunks(), pa.scalar(0, pa.int64()))
