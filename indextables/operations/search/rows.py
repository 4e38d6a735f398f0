"""Scan and count: read the rows of the pruned live splits of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.errors import InvalidArgument
from indextables.operations.executor import in_threads
from indextables.operations.verbs import Count, Scan
from indextables.operations.verbs import Explain as ExplainRequest
from indextables.predicates import Predicate, parse_predicate
from indextables.rows import LiveSplit
from indextables.schema import canonical_type
from indextables.splits import DocMapping, ParsedQuery, parse_query, without_invalid_column_options
from indextables.table import Explain, Snapshot, TableContext, explain, fully_matching_files, live_files

SCORE = "_score"


def bind(snapshot: Snapshot, where: str | None) -> Predicate | None:
    return None if where is None else parse_predicate(where, snapshot.schema)


def scan(request: Scan, context: TableContext, snapshot: Snapshot) -> pa.RecordBatchReader:
    """Streams the matching rows with one split open at a time. Arguments are checked before the first batch."""
    predicate = bind(snapshot, request.where)
    names = requested_columns(snapshot.schema, request.columns)
    files = live_files(context.load(snapshot, predicate), predicate)
    schema = pa.schema([snapshot.schema.field(name) for name in names])
    batches = (batch for add in files for batch in LiveSplit.of(snapshot, add).open(context).batches(names, predicate))
    return pa.RecordBatchReader.from_batches(schema, batches)


def explain_filter(request: ExplainRequest, context: TableContext, snapshot: Snapshot) -> Explain:
    """How many splits a scan or search would open after pruning. Checks both arguments like scan and search."""
    if request.query is not None:
        bound_query(context, snapshot, request.query)
    return explain(context.log, snapshot, bind(snapshot, request.where), request.query)


def count(request: Count, context: TableContext, snapshot: Snapshot) -> int:
    """Counts from the log where it is exact; otherwise reads only the predicate's columns of splits that may match partially."""
    predicate = bind(snapshot, request.where)
    files = live_files(context.load(snapshot, predicate), predicate)
    whole = fully_matching_files(predicate, files, snapshot)
    splits = [LiveSplit.of(snapshot, add) for add in files]
    known = [split.known_rows if split.add.path in whole else None for split in splits]

    def matching(split: LiveSplit) -> int:
        rows = split.open(context)
        return rows.num_rows if predicate is None or split.add.path in whole else rows.count(predicate)

    opened = in_threads(matching, [split for split, rows in zip(splits, known, strict=True) if rows is None])
    return sum(opened) + sum(rows for rows in known if rows is not None)


def bound_query(context: TableContext, snapshot: Snapshot, query: str) -> tuple[ParsedQuery, DocMapping]:
    """Parses the query against the table; also returns the table's doc mapping."""
    config = without_invalid_column_options(
        context.config.with_table(snapshot.metadata.configuration), snapshot.schema, snapshot.partition_columns
    )
    mapping = DocMapping.of_config(config, snapshot.schema, snapshot.partition_columns)
    return parse_query(query, snapshot.schema, mapping), mapping


def requested_columns(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The requested columns without duplicates, by default all. Raises for an unknown column or an unsupported type."""
    if columns is not None and (isinstance(columns, str) or not columns):
        raise InvalidArgument(f"columns {columns!r} is not a list of column names")
    for name in columns or ():
        if name not in schema.names:
            raise InvalidArgument(f"unknown column {name!r}; the table has {', '.join(schema.names)}")
    names = list(dict.fromkeys(schema.names if columns is None else columns))
    for name in names:
        canonical_type(name, schema.field(name).type)
    return names
