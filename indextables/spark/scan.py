"""Reads by Spark tasks: the driver plans once; each task gets its splits and returns record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from indextables import limits
from indextables.actions import Add
from indextables.errors import SchemaMismatch
from indextables.operations.search import SCORE, requested_columns
from indextables.predicates import Predicate
from indextables.rows import LiveRows, LiveSplit, batch_groups
from indextables.spark.options import SourceOptions
from indextables.splits import ParsedQuery
from indextables.storage import StoreSpec
from indextables.table import Snapshot, TableContext

BATCH_ROWS = 10_000  # as in Spark's own batches; those of a split are smaller
BATCH_BYTES = 16 * limits.MIB
# As Spark plans files: a task reads up to 128 MiB, less if the table is small, and opening a file counts as 1 MiB.
TASK_BYTES = 128 * limits.MIB
OPEN_BYTES = 1 * limits.MIB
MANY_TASKS = 64

_SCORE_FIELD = pa.field(SCORE, pa.float64())


@dataclass(frozen=True, slots=True)
class Scan:
    """What a task needs besides its splits; picklable."""

    store: StoreSpec
    version: int
    table_schema: pa.Schema  # schema of that version
    schema: pa.Schema  # exact schema of the batches; has `_score` only with a query
    predicate: Predicate | None
    query: ParsedQuery | None

    def batches(self, adds: Iterable[Add]) -> Iterator[pa.RecordBatch]:
        """The matching rows of these splits."""
        context = TableContext.of(self.store)
        for add in adds:
            rows = LiveSplit(add, self.version, self.table_schema).open(context)
            batches = self._scan(rows) if self.query is None else self._search(rows, self.query)
            for group in batch_groups(batches, BATCH_ROWS, BATCH_BYTES):  # sending a batch to the JVM has a fixed cost
                yield pa.concat_batches(group)

    def _scan(self, rows: LiveRows) -> Iterator[pa.RecordBatch]:
        for batch in rows.batches(self.schema.names, self.predicate):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _search(self, rows: LiveRows, query: ParsedQuery) -> Iterator[pa.RecordBatch]:
        """All matches of a split, in the order of its rows."""
        names = [name for name in self.schema.names if name != SCORE]
        for hits, scores in rows.hits(query, names, self.predicate, BATCH_ROWS):
            # Built anew, not appended to `hits`: if only the score is requested, `hits` has no columns and so no rows.
            columns = {**dict(zip(names, hits.columns, strict=True)), SCORE: pa.array(scores, pa.float64())}
            matches = pa.table([columns[name] for name in self.schema.names], self.schema.names)
            yield from matches.cast(self.schema).combine_chunks().to_batches()


def open_snapshot(options: SourceOptions) -> tuple[TableContext, Snapshot]:
    """The snapshot that a query reads: the requested version, else the newest at planning time."""
    context = TableContext.at(options.path, options.config)
    snapshot = context.snapshot(options.version)
    return TableContext.at(options.path, options.config_for(snapshot.schema)).for_table(snapshot), snapshot


def output_schema(snapshot: Snapshot, options: SourceOptions) -> pa.Schema:
    """The schema of a query that does not set one itself; a search adds `_score`."""
    names = requested_columns(snapshot.schema, options.columns)
    return pa.schema([*(snapshot.schema.field(name) for name in names), *([_SCORE_FIELD] if options.query is not None else [])])


def check_given_schema(given: pa.Schema, snapshot: Snapshot, *, scored: bool) -> None:
    """SchemaMismatch if a schema given by the user is not a selection of the table's columns, with their types."""
    known = pa.schema([*snapshot.schema, *([_SCORE_FIELD] if scored else [])])
    for field in given:
        if field.name not in known.names:
            raise SchemaMismatch(f"the schema has a column {field.name!r}, which the table does not have; it has {', '.join(known.names)}")
        actual = known.field(field.name)
        if field.type != actual.type:
            raise SchemaMismatch(f"column {field.name!r} is {field.type} in the schema and {actual.type} in the table")
        if actual.nullable and not field.nullable:
            raise SchemaMismatch(f"column {field.name!r} is not nullable in the schema but nullable in the table")


def grouped(adds: Sequence[Add]) -> list[tuple[Add, ...]]:
    """The splits of each task, in order; a split is never divided, and no task is empty."""
    weights = {add.path: add.size + OPEN_BYTES for add in adds}
    total = sum(weights.values())
    target = max(4 * OPEN_BYTES, min(TASK_BYTES, total // MANY_TASKS))
    groups: list[list[Add]] = []
    filled = 0
    for add in adds:
        if not groups or filled + weights[add.path] > target:
            groups.append([])
            filled = 0
        groups[-1].append(add)
        filled += weights[add.path]
    return [tuple(group) for group in groups]
