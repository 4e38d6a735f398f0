"""Reading by tasks: the plan is made once, on the driver's side; a task gets its splits and gives record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from indextables import limits
from indextables.actions import Add
from indextables.errors import SchemaMismatch
from indextables.operations.search import SCORE, check_columns
from indextables.predicates import Predicate
from indextables.rows import LiveRows, LiveSplit
from indextables.spark.options import SourceOptions
from indextables.splits import DocMapping, ParsedQuery, fitting, parse_query
from indextables.storage import StoreSpec
from indextables.table import Snapshot, TableContext

BATCH_ROWS = 10_000  # of Spark's own batches; a split's are smaller
BATCH_BYTES = 16 * limits.MIB
# As Spark plans files: a task reads up to 128 MiB, less where that gives many tasks, and opening a file counts like 1 MiB of it.
TASK_BYTES = 128 * limits.MIB
OPEN_BYTES = 1 * limits.MIB
MANY_TASKS = 64

_SCORE_FIELD = pa.field(SCORE, pa.float64())


@dataclass(frozen=True, slots=True)
class Scan:
    """What a task needs to know besides its splits; picklable."""

    store: StoreSpec
    version: int
    table_schema: pa.Schema  # of that version
    schema: pa.Schema  # of the batches, exactly; `_score` only where there is a query
    predicate: Predicate | None
    query: ParsedQuery | None

    def batches(self, adds: Iterable[Add]) -> Iterator[pa.RecordBatch]:
        """The matching rows of these splits."""
        context = TableContext.of(self.store)
        for add in adds:
            rows = LiveSplit(add, self.version, self.table_schema).open(context)
            yield from _coalesced(self._scan(rows) if self.query is None else self._search(rows, self.query), self.schema)

    def _scan(self, rows: LiveRows) -> Iterator[pa.RecordBatch]:
        for batch in rows.batches(self.schema.names, self.predicate):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _search(self, rows: LiveRows, query: ParsedQuery) -> Iterator[pa.RecordBatch]:
        """All hits of a split, in the order of its rows."""
        wanted = [name for name in self.schema.names if name != SCORE]
        for hits, scores in rows.hits(query, wanted, self.predicate, BATCH_ROWS):
            # Not appended: a table without columns has no rows, and the score may be all that is asked for.
            columns = {**dict(zip(wanted, hits.columns, strict=True)), SCORE: pa.array(scores, pa.float64())}
            found = pa.table([columns[name] for name in self.schema.names], self.schema.names)
            yield from found.cast(self.schema).combine_chunks().to_batches()


def open_snapshot(options: SourceOptions) -> tuple[TableContext, Snapshot]:
    """The table as a query reads it: the version asked for, else the newest when the query is planned."""
    context = TableContext.at(options.path, options.config)
    snapshot = context.snapshot(options.version)
    return TableContext.at(options.path, options.config_for(snapshot.schema)).for_table(snapshot), snapshot


def output_schema(snapshot: Snapshot, options: SourceOptions) -> pa.Schema:
    """The columns a query gets where it does not give a schema itself; a search adds `_score`."""
    names = check_columns(snapshot.schema, options.columns)
    return pa.schema([*(snapshot.schema.field(name) for name in names), *([_SCORE_FIELD] if options.query is not None else [])])


def bound_query(context: TableContext, snapshot: Snapshot, query: str | None) -> ParsedQuery | None:
    if query is None:
        return None
    config = fitting(context.config, snapshot.schema, snapshot.partition_columns)
    mapping = DocMapping.for_table(snapshot.schema, snapshot.partition_columns, config.typemap(), config.tokenizers())
    return parse_query(query, snapshot.schema, mapping)


def check_given_schema(given: pa.Schema, snapshot: Snapshot, *, scored: bool) -> None:
    """A schema that the user gave is a choice of columns: names and types are the table's. SchemaMismatch names what is not."""
    known = pa.schema([*snapshot.schema, *([_SCORE_FIELD] if scored else [])])
    for field in given:
        if field.name not in known.names:
            raise SchemaMismatch(f"the schema has a column {field.name!r}, which the table does not have; it has {', '.join(known.names)}")
        there = known.field(field.name)
        if field.type != there.type:
            raise SchemaMismatch(f"column {field.name!r} is {field.type} in the schema and {there.type} in the table")
        if there.nullable and not field.nullable:
            raise SchemaMismatch(f"column {field.name!r} is not null in the schema, and may be null in the table")


def grouped(adds: Sequence[Add]) -> list[tuple[Add, ...]]:
    """The splits of each task, in their order; a split is never cut, and no task is empty."""
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


def _coalesced(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows in batches worth their way to the JVM."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _joined(waiting, schema)
            waiting, rows, size = [], 0, 0
    if rows:
        yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
