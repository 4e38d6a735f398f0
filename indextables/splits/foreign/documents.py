"""Converts stored documents to rows: the program of the child process in worker.py."""

from __future__ import annotations

import os
import pickle
import resource
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import tantivy

from indextables import limits
from indextables.errors import IndexTablesError, SplitCorrupted
from indextables.splits.foreign.worker import Answer, Job
from indextables.splits.format import map_split, scratch_folder
from indextables.splits.index import Segment, tantivy_errors_as
from indextables.splits.writer import SplitWriter
from indextables.values import decode_value

_ARRAY = "_values"  # upstream wraps an array in an object with this one key, since tantivy's JSON fields take objects only
_CHUNK = limits.ROW_BATCH
_EXACT = Context(prec=76)  # the default context has 28 digits and fails for more


def work(job: Job) -> Answer:
    """Translates one split; all failures are reported in the answer."""
    try:
        # In proportion to the split: enough to decompress and index it, too little for a decompression bomb.
        limit = min(limits.UPSTREAM_MEMORY_FLOOR + limits.UPSTREAM_MEMORY_RATIO * job.source.stat().st_size, limits.UPSTREAM_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        with scratch_folder("indextables-upstream-") as folder:
            _rewrite(job, folder)
    except (SplitCorrupted, MemoryError) as error:
        return Answer(str(error) or "its documents need more memory than the limit", damaged=True)
    except (OSError, IndexTablesError) as error:
        return Answer(str(error))
    return Answer()


def _rewrite(job: Job, folder: Path) -> None:
    index = folder / "index"
    index.mkdir()
    data = memoryview(map_split(job.source))
    for name, span in job.files.items():
        (index / name).write_bytes(data[span.start : span.end])
    writer = SplitWriter(job.settings, folder)
    with tantivy_errors_as(SplitCorrupted, "its documents cannot be decoded"):
        searcher = tantivy.Index.open(str(index)).searcher()
        for documents in _documents(searcher, job, index):
            writer.write(_batch(documents, job))
    if writer.num_rows == 0:
        raise SplitCorrupted("it has no documents")
    writer.finish(job.target)


def _documents(searcher: Any, job: Job, folder: Path) -> Iterator[list[dict[str, Any]]]:
    """All documents that are not deleted, segment by segment, in chunks."""
    expected = sum(segment.max_doc for segment in job.segments)
    if searcher.num_segments != len(job.segments) or searcher.num_docs > expected:
        raise SplitCorrupted(f"its index has {searcher.num_docs} documents, not {expected}")
    for number, segment in enumerate(job.segments):
        alive = _alive(segment, folder)
        for start in range(0, len(alive), _CHUNK):
            addresses = [tantivy.DocAddress(number, int(document)) for document in alive[start : start + _CHUNK]]
            yield [searcher.doc(address).to_dict() for address in addresses]


def _alive(segment: Segment, folder: Path) -> np.ndarray:
    """The documents that are not deleted: tantivy's deletion file holds their number (u32), then a bit per document."""
    if segment.deletes is None:
        return np.arange(segment.max_doc)
    data = (folder / f"{segment.stem}.{segment.deletes.opstamp}.del").read_bytes()
    bits = np.unpackbits(np.frombuffer(data, np.uint8, (segment.max_doc + 7) // 8, 4), bitorder="little")
    return np.flatnonzero(bits[: segment.max_doc])


# --- values


def _batch(documents: list[dict[str, Any]], job: Job) -> pa.RecordBatch:
    columns = []
    for field in job.settings.schema:
        if field.name in job.settings.partition_columns:
            text = job.partition_values.get(field.name)
            values = [None if text is None else decode_value(text, field.type)] * len(documents)
        else:
            convert = _converter(field.type, outermost=True)
            values = [_stored(document.get(field.name), convert) for document in documents]
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as cause:
            raise SplitCorrupted(f"a document has a value in column {field.name!r} that is not of type {field.type}: {cause}") from cause
    return pa.RecordBatch.from_arrays(columns, schema=job.settings.schema)


def _stored(values: list[Any] | None, convert: Callable[[Any], Any]) -> Any:
    if values and len(values) > 1:
        raise SplitCorrupted(f"a document has {len(values)} values for one column")
    return convert(values[0]) if values else None


def _converter(kind: pa.DataType, outermost: bool = False) -> Callable[[Any], Any]:
    """A function that converts tantivy's values to what Arrow accepts. Values inside JSON lost their type, which it restores."""
    convert = _nested(kind, outermost) if pa.types.is_nested(kind) else _scalar(kind)
    return lambda value: None if value is None else convert(value)


def _nested(kind: pa.DataType, outermost: bool) -> Callable[[Any], Any]:
    if pa.types.is_struct(kind):
        fields = {field.name: _converter(field.type) for field in kind}
        return lambda value: {name: convert(value.get(name)) for name, convert in fields.items()}
    if pa.types.is_map(kind):
        key, item = _converter(kind.key_type), _converter(kind.item_type)
        return lambda value: [(key(name), item(found)) for name, found in value.items()]
    element = _converter(kind.value_type)
    return lambda value: [element(item) for item in (value[_ARRAY] if outermost else value)]


def _scalar(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else decode_value(_text(value), kind)
    if pa.types.is_integer(kind):
        return lambda value: value if isinstance(value, int) else int(value)
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    if pa.types.is_binary(kind):
        return lambda value: value if isinstance(value, bytes) else str(value).encode()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return lambda value: _temporal(value, kind)
    return lambda value: value


def _text(value: Any) -> str:
    """The string of a value. Inside JSON, tantivy stores strings that look like a time as times: they are formatted again."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str) else str(value)


def _temporal(value: Any, kind: pa.DataType) -> Any:
    parsed = value if isinstance(value, datetime) else decode_value(str(value), kind)
    if isinstance(parsed, datetime):
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        if pa.types.is_date(kind):
            return aware.astimezone(UTC).date()
        return aware if kind.tz else aware.astimezone(UTC).replace(tzinfo=None)
    assert isinstance(parsed, date)  # decode_value returns a date for a date column
    return parsed


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep other output off the answer pipe
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:  # the parent has ended
            return
        answers.write(msgspec.json.encode(work(job)) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
