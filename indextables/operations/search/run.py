"""Search: finds the best rows over the pruned live splits of a snapshot, scored as if they were one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import limits
from indextables.errors import InvalidArgument
from indextables.operations.executor import in_threads
from indextables.operations.search.rows import SCORE, bind, bound_query, requested_columns
from indextables.operations.verbs import Search
from indextables.predicates import Predicate, typed_array
from indextables.rows import LiveView, open_live_view
from indextables.splits import DocMapping, Group, Highlighter, Hits, ParsedQuery, best_snippet, parallel
from indextables.table import Snapshot, TableContext, fully_matching_files, live_files

SNIPPET = "_snippet"
_FEW_ROWS = 32
_FIRST_PAGE = 1000  # minimum number of hits on the first page that `where` filters


@dataclass(frozen=True, slots=True)
class BoundSearch:
    """A search checked against the table."""

    query: ParsedQuery
    mapping: DocMapping
    schema: pa.Schema  # of the result, without `_score` and `_snippet`
    predicate: Predicate | None
    offset: int
    top: int  # the number of hits to find: limit and offset
    order_by: tuple[str, bool] | None  # column, descending
    snippets: list[str]


def search(request: Search, context: TableContext, snapshot: Snapshot) -> pa.Table:
    """The best `limit` rows after `offset`, with `_score`, and with `_snippet` if snippets are requested.

    Scores are BM25 with the statistics of all searched splits (splits/view.py), as if all rows were in one split, so a merge does not
    change them. Equal scores are ordered by the log, then by row. With `order_by` nulls come last, and equal values are ordered by score.
    """
    bound = _bound(request, context, snapshot)
    files = live_files(context.load(snapshot, bound.predicate), bound.predicate)
    view = open_live_view(context, snapshot, files)
    whole = fully_matching_files(bound.predicate, files, snapshot)
    undecided = {number for number, add in enumerate(files) if add.path not in whole}  # splits with rows that may not match `where`
    hits = _best_hits(view, bound, undecided)
    return _result(view, bound, hits.take(np.arange(bound.offset, len(hits))))


def _matching(view: LiveView, request: BoundSearch, undecided: set[int], hits: Hits) -> Hits:
    """The hits that match the predicate. Reads only the splits that are undecided."""
    predicate = request.predicate
    if predicate is None or not undecided:
        return hits
    keep = np.ones(len(hits), bool)

    def select(number: int) -> None:
        places = np.flatnonzero(hits.splits == number)
        keep[places] = view.rows(number).matching(hits.rows[places], predicate)

    in_threads(select, [int(number) for number in np.unique(hits.splits) if number in undecided])
    return hits.take(keep)


def _best_hits(view: LiveView, request: BoundSearch, undecided: set[int]) -> Hits:
    """The best `top` hits that match, in order."""
    if request.order_by is None and not undecided:
        return view.search(request.query, request.top)
    best = _best_scored if request.order_by is None else _best_ordered
    joined = Hits.joined(in_threads(lambda group: best(view, group, request, undecided), view.groups))
    if request.order_by is None:
        return joined.take(np.arange(min(request.top, len(joined))))
    return _ordered(view, joined, request)


def _best_scored(view: LiveView, group: Group, request: BoundSearch, undecided: set[int]) -> Hits:
    parts: list[Hits] = []
    for page in group.pages(request.query, max(_FIRST_PAGE, 4 * request.top)):
        parts.append(_matching(view, request, undecided, page))
        if sum(map(len, parts)) >= request.top:
            break
    return Hits.joined(parts)


def _best_ordered(view: LiveView, group: Group, request: BoundSearch, undecided: set[int]) -> Hits:
    best = Hits.joined([])
    for page in group.pages(request.query, limits.SEARCH_PAGE):
        best = _ordered(view, Hits.joined([best, _matching(view, request, undecided, page)]), request)
    return best


def _ordered(view: LiveView, hits: Hits, request: BoundSearch) -> Hits:
    """The first `top` hits by the column of `order_by`; nulls last, NaN above all numbers, equal values by score."""
    assert request.order_by is not None  # checked by the caller
    name, descending = request.order_by
    direction = "descending" if descending else "ascending"
    keys = {"key": _fetched(view, hits, [name]).column(name), "place": pa.array(np.arange(len(hits)))}
    sort_keys = [("key", direction), ("place", "ascending")]
    if pa.types.is_floating(keys["key"].type):
        keys["nan"] = pc.is_nan(keys["key"])
        sort_keys.insert(0, ("nan", direction))
    order = pc.sort_indices(pa.table(keys), sort_keys=sort_keys)
    return hits.take(order.to_numpy()[: request.top])


def _result(view: LiveView, request: BoundSearch, hits: Hits) -> pa.Table:
    names = [*request.schema.names, *(name for name in request.snippets if name not in request.schema.names)]
    fetched = _fetched(view, hits, names)
    found = fetched.select(request.schema.names) if len(hits) else request.schema.empty_table()
    # append_column would fail without other columns, because a table without columns has no rows.
    scores = typed_array(hits.scores.tolist(), pa.float64())
    found = pa.table([*found.columns, scores], schema=request.schema.append(pa.field(SCORE, pa.float64())))
    if request.snippets:
        found = found.append_column(SNIPPET, _snippets(request, fetched))
    return found.combine_chunks()


def _fetched(view: LiveView, hits: Hits, columns: Sequence[str]) -> pa.Table:
    """The rows of the hits, in the order of the hits."""
    if not len(hits):
        return pa.table({name: pa.nulls(0) for name in columns})
    numbers = np.unique(hits.splits)
    places = [np.flatnonzero(hits.splits == number) for number in numbers]
    parts_of_splits = [(view.rows(number), hits.rows[at]) for number, at in zip(numbers.tolist(), places, strict=True)]
    back = np.empty(len(hits), np.int64)
    back[np.concatenate(places)] = np.arange(len(hits))
    waits = any(split.is_partial for split, _ in parts_of_splits)
    if waits or len(hits) > _FEW_ROWS:
        parts = parallel(lambda part: part[0].take(part[1], columns), parts_of_splits, waits)
        return pa.concat_tables(parts).take(pa.array(back))
    # For few rows, threads and Arrow's take cost more than they save.
    rows = [
        part.slice(at, 1) for split, numbers in parts_of_splits for part in [split.take(numbers, columns)] for at in range(part.num_rows)
    ]
    return pa.concat_tables([rows[at] for at in back])


def _snippets(request: BoundSearch, rows: pa.Table) -> pa.Array:
    highlighters = [Highlighter(request.query, name, request.mapping) for name in request.snippets]
    texts_of_rows = zip(*(rows.column(name).to_pylist() for name in request.snippets), strict=True)
    return pa.array([best_snippet(highlighters, texts) for texts in texts_of_rows], pa.string())


# --- the request


def _bound(request: Search, context: TableContext, snapshot: Snapshot) -> BoundSearch:
    """The request checked against the table. Raises InvalidArgument, InvalidQuery or InvalidPredicate."""
    top = request.limit + request.offset
    if top > limits.SEARCH_LIMIT:
        raise InvalidArgument(f"limit and offset together are {top}, more than {limits.SEARCH_LIMIT}; use `scan` with `where` instead")
    parsed, mapping = bound_query(context, snapshot, request.query)
    names = _result_columns(snapshot.schema, request.columns)
    return BoundSearch(
        query=parsed,
        mapping=mapping,
        schema=pa.schema([snapshot.schema.field(name) for name in names]),
        predicate=bind(snapshot, request.where),
        offset=request.offset,
        top=top,
        order_by=_parse_order(snapshot.schema, request.order_by),
        snippets=_snippet_columns(snapshot.schema, request.snippets),
    )


def _result_columns(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The columns of the table to return. `_score` may be requested and is always returned."""
    if columns is None or isinstance(columns, str) or SCORE in schema.names or SCORE not in columns:
        return requested_columns(schema, columns)
    others = [name for name in columns if name != SCORE]
    return requested_columns(schema, others) if others else []


def _snippet_columns(schema: pa.Schema, snippets: Sequence[str] | None) -> list[str]:
    names = [] if snippets is None else requested_columns(schema, snippets)
    for name in names:
        if not pa.types.is_string(schema.field(name).type):
            raise InvalidArgument(f"snippets require string columns, but {name!r} has type {schema.field(name).type}")
    return names


def _parse_order(schema: pa.Schema, order_by: str | None) -> tuple[str, bool] | None:
    """`column`, `-column`, `column desc`, `column asc`."""
    if order_by is None:
        return None
    if not isinstance(order_by, str):
        raise InvalidArgument(f"order_by {order_by!r} is not a column name")
    name, descending = _ordered_column(schema, order_by)
    if pa.types.is_nested(schema.field(name).type):
        raise InvalidArgument(f"order_by {order_by!r} requires a sortable column, but {name!r} has type {schema.field(name).type}")
    return name, descending


def _ordered_column(schema: pa.Schema, order_by: str) -> tuple[str, bool]:
    if order_by in schema.names:  # a column name may contain a space
        return order_by, False
    name, _, direction = order_by.strip().rpartition(" ")
    if direction.lower() not in ("asc", "desc"):
        name, direction = order_by.strip(), "desc" if order_by.strip().startswith("-") else "asc"
        name = name.removeprefix("-")
    if name.strip() not in schema.names:
        raise InvalidArgument(
            f"order_by {order_by!r} is not a column, optionally followed by asc or desc; the table has {', '.join(schema.names)}"
        )
    return name.strip(), direction.lower() == "desc"
