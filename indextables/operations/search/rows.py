"""Reading: scan and count over the live splits of a snapshot, pruned first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import Add
from indextables.errors import InvalidArgument, SplitCorrupted, VersionNotFound
from indextables.operations.executor import in_threads
from indextables.predicates import Predicate, parse_predicate
from indextables.rows import in_our_form, is_upstream
from indextables.schema import canonical_type
from indextables.splits import DocMapping, ParsedQuery, SplitPlace, SplitReader, open_split, parse_query
from indextables.table import (
    Explain,
    Snapshot,
    TableContext,
    describe_removal,
    explain,
    explain_all,
    fully_matching_files,
    live_files,
    manifest_counts,
)

SCORE = "_score"


def bind(snapshot: Snapshot, where: str | None) -> Predicate | None:
    return None if where is None else parse_predicate(where, snapshot.schema)


def scan(context: TableContext, snapshot: Snapshot, where: str | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Streams the rows, one split open at a time; arguments are checked before the first batch."""
    predicate = bind(snapshot, where)
    wanted = check_columns(snapshot.schema, columns)
    files = live_files(context.load(snapshot, predicate), predicate)
    schema = pa.schema([snapshot.schema.field(name) for name in wanted])
    batches = (batch for add in files for batch in scan_split(context, snapshot.version, add, predicate, schema))
    return pa.RecordBatchReader.from_batches(schema, batches)


def scan_split(context: TableContext, version: int, add: Add, predicate: Predicate | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The matching rows of one split with the columns of `schema`."""
    needed = list(dict.fromkeys([*schema.names, *(sorted(predicate.columns) if predicate else ())]))
    for batch in reader(context, version, add).batches(needed):
        rows = predicate.filter(batch) if predicate else batch
        if rows.num_rows:
            yield pa.RecordBatch.from_arrays([rows.column(name) for name in schema.names], schema=schema)


def explain_filter(context: TableContext, snapshot: Snapshot, where: str | None = None, query: str | None = None) -> Explain:
    """What is left for a scan or a search before it opens a split; both arguments are checked as those do."""
    if query is not None:
        bound_query(context, snapshot, query)
    predicate = bind(snapshot, where)
    manifests = manifest_counts(snapshot, predicate)
    if predicate is None:
        return explain_all(snapshot.version, context.totals(snapshot), query, manifests)
    return explain(context.load(snapshot, predicate), predicate, query, manifests)


def count(context: TableContext, snapshot: Snapshot, where: str | None = None) -> int:
    """From the log alone where that is exact, else by reading only the predicate's columns of the splits it does not decide."""
    predicate = bind(snapshot, where)
    if predicate is None:
        return sum(num_records(context, snapshot.version, add) for add in live_files(context.load(snapshot), None))

    files = live_files(context.load(snapshot, predicate), predicate)
    whole = fully_matching_files(predicate, files, snapshot)

    def matching(add: Add) -> int:
        if add.path in whole:
            return num_records(context, snapshot.version, add)
        batches = reader(context, snapshot.version, add).batches(sorted(predicate.columns))
        return sum(pc.sum(predicate.mask(batch)).as_py() or 0 for batch in batches)

    return sum(in_threads(matching, files))


def bound_query(context: TableContext, snapshot: Snapshot, query: str) -> tuple[ParsedQuery, DocMapping]:
    """The query checked against the table, and how the table's columns are indexed."""
    config = context.config.with_table(snapshot.metadata.configuration)
    mapping = DocMapping.for_table(snapshot.schema, snapshot.partition_columns, config.typemap(), config.tokenizers())
    return parse_query(query, snapshot.schema, mapping), mapping


def check_columns(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, each once, known, and of a type that can be read; all of them by default."""
    wanted = _known_columns(schema, columns)
    for name in wanted:
        canonical_type(name, schema.field(name).type)
    return wanted


def _known_columns(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str) or not columns:
        raise InvalidArgument(f"columns {columns!r} is not a list of column names")
    for name in columns:
        if name not in schema.names:
            raise InvalidArgument(f"unknown column {name!r}; the table has {', '.join(schema.names)}")
    return list(dict.fromkeys(columns))


def reader(context: TableContext, version: int, add: Add) -> SplitReader:
    """The open split, checked against what the log says of it."""
    try:
        split = open_split(split_place(context, version, add))
    except FileNotFoundError:
        raise missing(context, version, add) from None
    check_rows(add, split)
    return split


def split_place(context: TableContext, version: int, add: Add, partly: bool = True) -> SplitPlace:
    """Where the split is on this machine, in our form; it is fetched, or made, if need be, or only its bytes that are used will be."""
    if partly and add.footer_start_offset is not None and add.footer_end_offset == add.size and not is_upstream(add):
        file = context.store.partial_file(add.path, add.size, add.footer_start_offset)
        if file is not None:
            return file
    try:
        path = context.store.local_path(add.path, add.size)
    except FileNotFoundError:
        raise missing(context, version, add) from None
    return in_our_form(context, version, add, path)


def check_rows(add: Add, split: SplitReader) -> None:
    if add.num_records is not None and split.num_records != add.num_records:
        raise SplitCorrupted(f"split {add.path!r} has {split.num_records} rows and the log says {add.num_records}")


def missing(context: TableContext, version: int, add: Add) -> SplitCorrupted | VersionNotFound:
    newest = context.load(context.snapshot())
    if add.path in newest.files:
        return SplitCorrupted(f"split {add.path!r} is missing from the table")
    since = describe_removal(context.log, add.path, version)
    return VersionNotFound(f"version {version} can no longer be read in full: split {add.path!r} was removed {since}, and purged")


def num_records(context: TableContext, version: int, add: Add) -> int:
    return add.num_records if add.num_records is not None else reader(context, version, add).num_records
