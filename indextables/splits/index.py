"""The tantivy index of a split: how column values become fields, and how rows are fed to it.

=========  ==================================================================================================================
mapping    field
=========  ==================================================================================================================
text       indexed with positions; words are runs of letters and digits, lowercased (the analyzer `words`; unlike tantivy's default
           it keeps words of 40 bytes and more, such as hashes)
string     indexed whole
i64, f64   fast only, -0.0 as 0.0; a range query on the column answers `=` as well
bool       indexed
date       fast i64: days for dates, microseconds for timestamps, which unlike tantivy's date has room for every value
=========  ==================================================================================================================

Words and strings are cut to one character more than a query may have. `_null` holds the names of the columns that are null in a
document. `_row` is a fast i64: a random number at the first document, one more at each following, which tells after a merge where a
document came from.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables import limits
from indextables.errors import IndexTablesError, StorageError
from indextables.splits import mapping as kinds
from indextables.splits.mapping import DocMapping

ROW = "_row"
NULLS = "_null"
WORDS = "words"
_HEAP_PER_BYTE = 4  # of Arrow data; 3.5 kept 200-byte rows in one segment
_CHUNK = 65_536
# tantivy leaves out words of more than 65,530 bytes. Cut above the length of any query they are found by every prefix, and equal none.
_CUT = limits.QUERY_CHARACTERS + 1
_SHORT = 20_000  # bytes that cannot be too long, also when lowercase takes more of them

_Add = Callable[[Any, str, Any], None]
_ADD: dict[str, _Add] = {
    kinds.TEXT: tantivy.Document.add_text,
    kinds.STRING: tantivy.Document.add_text,
    kinds.INTEGER: tantivy.Document.add_integer,
    kinds.FLOAT: tantivy.Document.add_float,
    kinds.BOOLEAN: tantivy.Document.add_boolean,
    kinds.DATE: tantivy.Document.add_integer,
}


@contextmanager
def translated(error: type[IndexTablesError], message: str) -> Iterator[None]:
    """Turn what tantivy raises into `error`. Its panics derive from BaseException, so that `except Exception` misses them."""
    try:
        yield
    except IndexTablesError:
        raise
    except BaseException as cause:
        if isinstance(cause, (ValueError, OSError, RuntimeError)) or type(cause).__name__ == "PanicException":
            raise error(f"{message}: {cause}") from cause
        raise


def words_analyzer() -> Any:
    """A new one for each user: two threads must not share it."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()


@lru_cache(maxsize=64)
def index_schema(mapping: DocMapping) -> Any:
    """tantivy's schema for a mapping; the builder cannot express it all, its JSON form can."""
    fields = [_field(name, kind) for name, kind in mapping.fields]
    hidden = [_field(NULLS, kinds.STRING), _field(ROW, kinds.INTEGER)]
    return tantivy.Schema._internal_from_pythonized({"inner": fields + hidden})


def _field(name: str, kind: str) -> dict[str, Any]:
    if kind in (kinds.TEXT, kinds.STRING):
        text = kind == kinds.TEXT
        indexing = {"record": "position" if text else "basic", "fieldnorms": text, "tokenizer": WORDS if text else "raw"}
        return {"name": name, "type": "text", "options": {"indexing": indexing, "stored": False, "fast": False}}
    boolean = kind == kinds.BOOLEAN
    options = {"indexed": boolean, "fieldnorms": False, "fast": not boolean, "stored": False}
    return {"name": name, "type": kinds.INTEGER if kind == kinds.DATE else kind, "options": options}


def build_index(folder: Path, mapping: DocMapping, batches: Iterable[pa.RecordBatch], data_bytes: int) -> int:
    """Index rows into an empty folder, one commit, merges done; returns the `_row` of the first document.

    Usually there is one segment and document n is row n; where the data outgrew the heap there are several, and `_row` tells.
    """
    first_row = secrets.randbelow(1 << 62)
    heap = min(max(_HEAP_PER_BYTE * data_bytes, limits.INDEX_HEAP_MIN), limits.INDEX_HEAP_MAX)
    folder.mkdir(parents=True)
    with translated(StorageError, f"the index in {folder} could not be built"):
        index = tantivy.Index(index_schema(mapping), str(folder), reuse=False)
        index.register_tokenizer(WORDS, words_analyzer())
        # More threads would each make a segment. Used without `with`, which would swallow a failed commit.
        writer = index.writer(heap_size=heap, num_threads=1)
        row = first_row
        for batch in batches:
            row = _feed(writer, mapping, batch, row)
        writer.commit()
        writer.wait_merging_threads()
    return first_row


def _feed(writer: Any, mapping: DocMapping, batch: pa.RecordBatch, row: int) -> int:
    columns = [(name, *_prepared(batch.column(name), kind)) for name, kind in mapping.fields]
    adders = [(add, name) for name, add, _ in columns]
    new, add_text, add_integer, add_document = (
        tantivy.Document,
        tantivy.Document.add_text,
        tantivy.Document.add_integer,
        writer.add_document,
    )
    for values in zip(*(values for _, _, values in columns), strict=True):
        document = new()
        for (add, name), value in zip(adders, values, strict=True):
            if value is None:
                add_text(document, NULLS, name)
            else:
                add(document, name, value)
        add_integer(document, ROW, row)
        add_document(document)
        row += 1
    return row


def _prepared(column: pa.Array, kind: str) -> tuple[_Add, list[Any]]:
    """The values of a column as the index takes them, and the way they get into a document."""
    if kind in (kinds.TEXT, kinds.STRING):
        short = (pc.max(pc.binary_length(column)).as_py() or 0) <= _SHORT
        return (_ADD[kind] if short else _add_long_text if kind == kinds.TEXT else _add_long_string), column.to_pylist()
    if kind == kinds.INTEGER:
        column = column.cast(pa.int64())
    elif kind == kinds.FLOAT:
        column = column.cast(pa.float64())
        # One spelling each of zero (Spark: -0.0 = 0.0) and NaN (above all numbers, as in Spark).
        column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan")), pc.add(column, pa.scalar(0.0)))
    elif kind == kinds.DATE:
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return _ADD[kind], column.to_pylist()


def _add_long_string(document: Any, name: str, value: str) -> None:
    document.add_text(name, value[:_CUT])


def _add_long_text(document: Any, name: str, value: str) -> None:
    analyzer = words_analyzer()
    if all(len(word) <= _CUT for word in analyzer.analyze(value)):
        document.add_text(name, value)
        return
    words = [
        tantivy.Token(word.text[:_CUT], word.position, word.char_offset_from, word.char_offset_to)
        for word in analyzer.pre_tokenize(value).tokens
    ]
    document.add_pre_tokenized_text(name, tantivy.PreTokenizedString(value, words))


def open_searcher(folder: Path) -> Any:
    """A searcher on the index in a folder, at its newest commit. tantivy's errors pass."""
    return tantivy.Index.open(str(folder)).searcher()


def row_at(searcher: Any, document: int) -> int:
    """`_row` of a document of a one-segment index."""
    value = searcher.fast_field_values(ROW, [tantivy.DocAddress(0, document)])[0]
    return -1 if value is None else int(value)


def all_rows(searcher: Any) -> np.ndarray:
    """`_row` of all documents of a one-segment index, in document order."""
    total = searcher.num_docs
    parts = [
        searcher.fast_field_values(ROW, [tantivy.DocAddress(0, n) for n in range(start, min(start + _CHUNK, total))])
        for start in range(0, total, _CHUNK)
    ]
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
