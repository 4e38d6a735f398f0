"""Reading: scan, count, search over the live splits of a snapshot, pruned first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import limits
from indextables.actions import Add
from indextables.errors import InvalidArgument, SplitCorrupted, VersionNotFound
from indextables.operations.executor import in_threads
from indextables.predicates import Predicate, parse_predicate
from indextables.schema import canonical_type
from indextables.splits import DocMapping, ParsedQuery, SplitReader, open_split, parse_query
from indextables.table.context import TableContext
from indextables.table.files import live_files
from indextables.table.pruning import decided_by_partition
from indextables.table.snapshot import Snapshot

SCORE = "_score"


def bind(snapshot: Snapshot, where: str | None) -> Predicate | None:
    return None if where is None else parse_predicate(where, snapshot.schema)


def scan(context: TableContext, snapshot: Snapshot, where: str | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Streams the rows, one split open at a time; arguments are checked before the first batch."""
    predicate = bind(snapshot, where)
    wanted = check_columns(snapshot.schema, columns)
    files = live_files(snapshot, predicate)
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


def count(context: TableContext, snapshot: Snapshot, where: str | None = None) -> int:
    """From the log alone where that is exact, else by reading only the predicate's columns."""
    predicate = bind(snapshot, where)
    files = live_files(snapshot, predicate)
    if predicate is None or decided_by_partition(predicate, snapshot.partition_columns):
        return sum(_num_records(context, snapshot.version, add) for add in files)

    def matching(add: Add) -> int:
        batches = reader(context, snapshot.version, add).batches(sorted(predicate.columns))
        return sum(pc.sum(predicate.mask(batch)).as_py() or 0 for batch in batches)

    return sum(in_threads(matching, files))


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A checked search: what every split is asked."""

    query: ParsedQuery
    columns: tuple[str, ...]
    predicate: Predicate | None
    top: int  # limit + offset
    offset: int
    order_by: tuple[str, bool] | None  # column, descending

    @property
    def needs_every_hit(self) -> bool:
        return self.predicate is not None or self.order_by is not None


def search(
    context: TableContext,
    snapshot: Snapshot,
    query: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int = 10,
    order_by: str | None = None,
    offset: int = 0,
) -> pa.Table:
    """The best `limit` rows after `offset`, with `_score`: splits are searched in parallel.

    Scores are BM25 with each split's own statistics, which differ little between splits of similar rows.
    """
    request = _search_request(context, snapshot, query, columns, where, limit, order_by, offset)
    files = live_files(snapshot, request.predicate)
    parts = in_threads(lambda add: _search_split(reader(context, snapshot.version, add), request), files)
    empty = pa.schema([*(snapshot.schema.field(c) for c in request.columns), pa.field(SCORE, pa.float64())])
    hits = pa.concat_tables([empty.empty_table(), *(part.select(empty.names).cast(empty) for part in parts)])
    ordering = _ordering(request)
    if request.order_by is not None and request.order_by[0] not in empty.names:
        full = pa.concat_tables(parts) if parts else empty.empty_table()
        hits = hits.take(_stable_order(full, ordering)) if parts else hits
    else:
        hits = hits.take(_stable_order(hits, ordering))
    return hits.slice(offset, limit).combine_chunks()


def _search_request(
    context: TableContext,
    snapshot: Snapshot,
    query: str,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int,
    order_by: str | None,
    offset: int,
) -> SearchRequest:
    for name, value, low in (("limit", limit, 1), ("offset", offset, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise InvalidArgument(f"{name} {value!r} is not a whole number from {low} on")
    if limit + offset > limits.SEARCH_LIMIT:
        raise InvalidArgument(f"limit and offset together are {limit + offset}, more than {limits.SEARCH_LIMIT}; scan with where instead")
    config = context.config.with_table(snapshot.metadata.configuration)
    mapping = DocMapping.for_table(snapshot.schema, snapshot.partition_columns, config.typemap())
    parsed = parse_query(query, snapshot.schema, mapping)
    wanted = tuple(check_columns(snapshot.schema, columns))
    return SearchRequest(parsed, wanted, bind(snapshot, where), limit + offset, offset, _parse_order(snapshot.schema, order_by))


def _parse_order(schema: pa.Schema, order_by: str | None) -> tuple[str, bool] | None:
    """`column`, `-column`, `column desc`, `column asc`."""
    if order_by is None:
        return None
    if order_by in schema.names:  # also one with a space in its name
        return order_by, False
    name, _, direction = order_by.strip().rpartition(" ")
    if direction.lower() not in ("asc", "desc"):
        name, direction = order_by.strip(), "desc" if order_by.strip().startswith("-") else "asc"
        name = name.removeprefix("-")
    if name.strip() not in schema.names:
        raise InvalidArgument(f"order_by {order_by!r} is not a column, optionally followed by asc or desc")
    return name.strip(), direction.lower() == "desc"


def _search_split(split: SplitReader, request: SearchRequest) -> pa.Table:
    """The split's best rows with their scores, and what the final order needs."""
    rows, scores = split.search(request.query, None if request.needs_every_hit else request.top)
    needed = [
        *request.columns,
        *([request.order_by[0]] if request.order_by else []),
        *(request.predicate.columns if request.predicate else ()),
    ]
    found = split.take(rows, list(dict.fromkeys(needed))).append_column(SCORE, pa.array(np.asarray(scores, dtype=np.float64)))
    if request.predicate is not None:
        found = found.filter(request.predicate.mask(found))
    return found.take(_stable_order(found, _ordering(request))).slice(0, request.top)


def _ordering(request: SearchRequest) -> tuple[str, bool]:
    return request.order_by or (SCORE, True)


def _stable_order(table: pa.Table, ordering: tuple[str, bool]) -> pa.Array:
    """Row numbers in order; equal rows keep theirs, nulls come last."""
    name, descending = ordering
    numbered = pa.table({"key": table.column(name), "row": pa.array(np.arange(table.num_rows))})
    return pc.sort_indices(numbered, sort_keys=[("key", "descending" if descending else "ascending"), ("row", "ascending")])


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
        path = context.store.local_path(add.path, add.size)
    except FileNotFoundError:
        raise _missing(context, version, add) from None
    split = open_split(path)
    if add.num_records is not None and split.num_records != add.num_records:
        raise SplitCorrupted(f"split {add.path!r} has {split.num_records} rows and the log says {add.num_records}")
    return split


def _missing(context: TableContext, version: int, add: Add) -> SplitCorrupted | VersionNotFound:
    newest = context.snapshot()
    if add.path in newest.files:
        return SplitCorrupted(f"split {add.path!r} is missing from the table")
    return VersionNotFound(f"version {version} can no longer be read in full: split {add.path!r} was removed since and purged")


def _num_records(context: TableContext, version: int, add: Add) -> int:
    return add.num_records if add.num_records is not None else reader(context, version, add).num_records
