"""The tantivy index of a split: how columns map to fields, and how rows are added. docs/protocol.md lists the fields.

Numbers and dates are fast fields only: a range query on the column answers `=` as well. Dates are integers because tantivy's own date does
not cover every value. After a merge, `_row` identifies where a document came from.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tantivy

from indextables import limits
from indextables.errors import IndexTablesError, InvalidQuery, SplitCorrupted, StorageError
from indextables.splits.index import mapping as kinds
from indextables.splits.index.analyzers import analyzer, analyzer_name
from indextables.splits.index.documents import prepare_column
from indextables.splits.index.mapping import DocMapping

ROW = "_row"
NULLS = "_null"
_HEAP_PER_BYTE = 4  # of Arrow data, on top of INDEX_HEAP_MIN; without it, splits of 15,000 to 25,000 log lines had two segments
_CHUNK = 65_536
_DAMAGE = ("An IO error occurred", "Data corrupted", "File corrupted")  # prefixes of tantivy errors that the query did not cause
_TYPES = {kinds.DATE: kinds.INTEGER, kinds.DECIMAL: kinds.INTEGER, kinds.IP: "ip_addr"}


@contextmanager
def tantivy_errors_as(error: type[IndexTablesError], message: str) -> Iterator[None]:
    """Converts tantivy's exceptions to `error`, including panics, which derive from BaseException and bypass `except Exception`."""
    try:
        yield
    except IndexTablesError:
        raise
    except BaseException as cause:
        if isinstance(cause, (ValueError, OSError, RuntimeError)) or type(cause).__name__ == "PanicException":
            raise error(f"{message}: {cause}") from cause
        raise


@lru_cache(maxsize=64)
def index_schema(mapping: DocMapping) -> Any:
    """The tantivy schema for a mapping, built from JSON because the schema builder does not cover all options."""
    return tantivy.Schema._internal_from_pythonized({"inner": _fields(mapping)})


@lru_cache(maxsize=64)
def index_fields(mapping: DocMapping) -> tuple[tuple[str, str], ...]:
    """Name and tantivy type of each field, in order: a query refers to a field by its number."""
    return tuple((field["name"], field["type"]) for field in _fields(mapping))


def _fields(mapping: DocMapping) -> list[dict[str, Any]]:
    fields = [_field(name, kind, mapping.tokenizer(name)) for name, kind in mapping.fields if kind != kinds.STORED]
    return [*fields, _field(NULLS, kinds.STRING), _field(ROW, kinds.INTEGER)]


def _field(name: str, kind: str, tokenizer: str = kinds.DEFAULT) -> dict[str, Any]:
    if kind in (kinds.TEXT, kinds.JSON):
        indexing = {"record": "position", "fieldnorms": True, "tokenizer": analyzer_name(tokenizer)}
        options = {"indexing": indexing, "stored": False, "fast": False}
        if kind == kinds.JSON:
            return {"name": name, "type": "json_object", "options": {**options, "expand_dots_enabled": True}}
        return {"name": name, "type": "text", "options": options}
    if kind == kinds.STRING:
        indexing = {"record": "basic", "fieldnorms": False, "tokenizer": "raw"}
        return {"name": name, "type": "text", "options": {"indexing": indexing, "stored": False, "fast": False}}
    options = {"indexed": kind in (kinds.BOOLEAN, kinds.IP), "fieldnorms": False, "fast": kind != kinds.BOOLEAN, "stored": False}
    return {"name": name, "type": _TYPES.get(kind, kind), "options": options}


def build_index(folder: Path, mapping: DocMapping, batches: Iterable[pa.RecordBatch], data_bytes: int) -> int:
    """Indexes rows into an empty folder with one commit and waits for merges; returns the `_row` of the first document.

    Usually there is one segment and document n is row n. If the data exceeds the heap there are several segments, and `_row` gives the row.
    """
    first_row = secrets.randbelow(1 << 62)
    heap = min(_HEAP_PER_BYTE * data_bytes + limits.INDEX_HEAP_MIN, limits.INDEX_HEAP_MAX)
    folder.mkdir(parents=True)
    with tantivy_errors_as(StorageError, f"the index in {folder} could not be built"):
        index = tantivy.Index(index_schema(mapping), str(folder), reuse=False)
        for tokenizer in {kinds.DEFAULT, *(tokenizer for _, tokenizer in mapping.tokenizers)} - {kinds.RAW}:
            index.register_tokenizer(analyzer_name(tokenizer), analyzer(tokenizer))
        # Each thread would create a segment, so there is one. Not used in a `with` statement, which would swallow a failed commit.
        writer = index.writer(heap_size=heap, num_threads=1)
        row = first_row
        for batch in batches:
            row = _add_batch(writer, mapping, batch, row)
        writer.commit()
        writer.wait_merging_threads()
    return first_row


def _add_batch(writer: Any, mapping: DocMapping, batch: pa.RecordBatch, row: int) -> int:
    """Adds the rows of a batch and returns the next `_row`. Goes row by row, which is twice as fast as column by column (CPU cache)."""
    fields = [(name, *prepare_column(batch.column(name), kind, mapping.tokenizer(name))) for name, kind in mapping.fields]
    used = [(name, add, values) for name, add, values in fields if values]
    adders = [(add or _ignore, name) for name, add, _ in used]
    new, add_text, add_integer = tantivy.Document, tantivy.Document.add_text, tantivy.Document.add_integer
    rows = zip(*(values for _, _, values in used), strict=True) if used else repeat((), batch.num_rows)
    for values in rows:
        document = new()
        for (add, name), value in zip(adders, values):  # noqa: B905  # equal lengths; a check would cost time per row
            if value is None:
                add_text(document, NULLS, name)
            else:
                add(document, name, value)
        add_integer(document, ROW, row)
        writer.add_document(document)
        row += 1
    return row


def _ignore(document: Any, name: str, value: Any) -> None:
    """Adds nothing: the column has no field, only its nulls are indexed."""


def open_searcher(folder: Path) -> Any:
    """A searcher on the latest commit of the index in a folder. Raises tantivy's errors."""
    return tantivy.Index.open(str(folder)).searcher()


def top_hits(searcher: Any, compiled: Any, text: str, limit: int, offset: int = 0) -> list[tuple[float, Any]]:
    """Scores and addresses of the best `limit` hits after `offset`, best first, ties by address. Raises InvalidQuery or SplitCorrupted.

    tantivy allocates memory for `limit + offset` hits per segment: the caller must bound both by the number of documents.
    """
    with _searching(text):
        hits: list[tuple[float, Any]] = searcher.search(compiled, limit=limit, count=False, offset=offset).hits
    return hits


@dataclass(frozen=True, slots=True)
class ColumnNumbers:
    """tantivy's statistics of a numeric column over the matching rows, computed in doubles: exact as long as all values stay below 2^53."""

    count: int  # of non-null values
    total: float = 0.0
    low: float = math.nan
    high: float = math.nan


def numbers_of_hits(searcher: Any, compiled: Any, text: str, columns: Sequence[str]) -> tuple[int, dict[str, ColumnNumbers]]:
    """The number of hits, and the statistics of these fast columns over the hits. Raises InvalidQuery or SplitCorrupted."""
    request = {"hits": {"value_count": {"field": ROW}}, **{f"c{n}": {"stats": {"field": name}} for n, name in enumerate(columns)}}
    with _searching(text):
        answer = searcher.aggregate(compiled, request)
    stats = [answer[f"c{n}"] for n in range(len(columns))]
    numbers = [ColumnNumbers(int(n["count"]), n["sum"], n["min"], n["max"]) if n["count"] else ColumnNumbers(0) for n in stats]
    return int(answer["hits"]["value"]), dict(zip(columns, numbers, strict=True))


@contextmanager
def _searching(text: str) -> Iterator[None]:
    with tantivy_errors_as(SplitCorrupted, "a split is damaged: its index cannot be searched"):
        try:
            yield
        except ValueError as cause:
            if str(cause).startswith(_DAMAGE):
                raise
            raise InvalidQuery(f"the query cannot be searched: {cause}", text) from cause


def numbers_at(searcher: Any, column: str, documents: Iterable[int]) -> list[Any]:
    """The values of a fast column in these documents of a one-segment index."""
    return list(searcher.fast_field_values(column, [tantivy.DocAddress(0, document) for document in documents]))


def all_rows(searcher: Any) -> np.ndarray:
    """`_row` of all documents of a one-segment index, in document order."""
    total = searcher.num_docs
    parts = [numbers_at(searcher, ROW, range(start, min(start + _CHUNK, total))) for start in range(0, total, _CHUNK)]
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
