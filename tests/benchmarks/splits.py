"""Splits compared with raw tantivy-py and with DuckDB on Parquet: CPU time of writing, scanning and merging, and bytes per row.

The rows are log lines of about 200 bytes. tantivy's documents have the same fields, are stored, and are built before the measurement;
ours are built from Arrow during it. The promise compares with fields that are also indexed and fast, as tantivy's schema builder creates
them; a further row compares with fields that are indexed as sparingly as ours. CPU time covers the process with all threads, and the child
process of a merge; it is the minimum of several rounds in which the programs alternate. A merge is compared with reading the same rows
from the same splits, and indexing and storing them again. As a script, it prints the rows.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import tantivy

import indextables as it
from indextables.splits import DocMapping, SplitReader, SplitSettings, SplitWriter, merge_splits
from indextables.splits.index.analyzers import analyzer

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("host", pa.string()),
        ("message", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("latency", pa.float64()),
    ]
)
MAPPING = DocMapping.for_table(SCHEMA, [], {"level": "string", "host": "string"})
WRITE_BAR = 1.25  # times the CPU time of raw tantivy
SCAN_BAR = 20.0  # times faster than reading stored documents
MERGE_BAR = 2.0  # times faster than re-indexing
MERGED = 10  # splits that are merged into one
FILTER = "status = 500 AND latency > 300"
_WORDS = (
    *("connection", "refused", "timeout", "reading", "from", "upstream", "server", "while", "sending", "request"),
    *("to", "backend", "retry", "after", "disk", "full", "node", "lost"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; `holds` is None without a promise."""

    what: str
    ours: str
    theirs: str
    ratio: float
    holds: bool | None = None


def log_lines(count: int, seed: int = 7) -> pa.Table:
    choose = random.Random(seed)
    return pa.table(
        {
            "ts": pa.array([1_700_000_000_000_000 + 1000 * n + choose.randrange(1000) for n in range(count)], pa.int64()).cast(
                SCHEMA[0].type
            ),
            "level": choose.choices(["INFO", "WARN", "ERROR"], [90, 8, 2], k=count),
            "host": [f"host-{choose.randrange(200):03d}.example.net" for _ in range(count)],
            "message": [" ".join(choose.choices(_WORDS, k=14)) + f" id={choose.randrange(10**9):x}" for _ in range(count)],
            "status": pa.array(choose.choices([200, 404, 500, 503], k=count), pa.int32()),
            "bytes": [choose.randrange(10**7) for _ in range(count)],
            "latency": [choose.expovariate(0.01) for _ in range(count)],
        },
        schema=SCHEMA,
    )


def measure(folder: Path, count: int = 50_000, rounds: int = 3) -> list[Row]:
    """The rows of the bench. `folder` should be on a memory file system, so that the disk does not affect the result."""
    data = log_lines(count)
    documents = _documents(data)
    ours: list[float] = []
    theirs: list[float] = []
    lean: list[float] = []
    for number in range(rounds):
        theirs.append(_cpu(lambda number=number: _index_and_store(folder / f"raw-{number}", _full_schema(), documents)))
        lean.append(_cpu(lambda number=number: _index_and_store(folder / f"lean-{number}", _lean_schema(), documents)))
        ours.append(_cpu(lambda number=number: _write(folder / f"{number}.split", data, folder)))
    split, raw = folder / "0.split", folder / "raw-0"
    scan = min(_cpu(lambda: _scan(split, count)) for _ in range(rounds))
    stored = min(_cpu(lambda: _read_stored(raw, count)) for _ in range(2))
    slow, fast = min(ours) / min(theirs), stored / scan
    zstd = folder / "zstd.split"
    _write(zstd, data, folder, "zstd")
    pq.write_table(data, folder / "rows.parquet", compression="zstd")
    parquet, tantivy_bytes = (folder / "rows.parquet").stat().st_size / count, _size(raw) / count
    rows = [
        Row(f"write a split of {count:,} rows", _us(min(ours), count), _us(min(theirs), count), slow, slow <= WRITE_BAR),
        Row("  against documents indexed as sparingly as ours", _us(min(ours), count), _us(min(lean), count), min(ours) / min(lean)),
        Row("  of which row store and statistics", _us(_rows_only(folder, data), count), "", 0.0),
        Row("scan all rows", _us(scan, count), _us(stored, count), fast, fast >= SCAN_BAR),
    ]
    for name, file in (("lz4", split), ("zstd", zstd)):
        size = file.stat().st_size / count
        rows.append(
            Row(f"bytes per row, {name}, against tantivy with documents", f"{size:.1f}", f"{tantivy_bytes:.1f}", size / tantivy_bytes)
        )
        rows.append(
            Row(f"bytes per row, {name}, against Parquet (zstd), which has no index", f"{size:.1f}", f"{parquet:.1f}", size / parquet)
        )
    return [*rows, _merging(folder, log_lines(2 * count), rounds), *_filtering(folder, data, rounds)]


def _merging(folder: Path, data: pa.Table, rounds: int) -> Row:
    """A merge of MERGED splits, including the row store."""
    size = -(-data.num_rows // MERGED)
    parts = [folder / f"part-{number}.split" for number in range(MERGED)]
    for number, part in enumerate(parts):
        _write(part, data.slice(number * size, size), folder)

    def again(target: Path) -> None:
        writer = SplitWriter(SplitSettings(SCHEMA, MAPPING), folder / "work")
        for part in parts:
            with SplitReader(part) as reader:
                reader.verify()
                for batch in reader.batches():
                    writer.write(batch)
        assert writer.finish(target).num_records == data.num_rows

    merges, indexings = [], []
    for number in range(rounds):
        merges.append(_cpu(lambda number=number: merge_splits(parts, folder / f"merged-{number}.split", folder / "work")))
        indexings.append(_cpu(lambda number=number: again(folder / f"again-{number}.split")))
    fast = min(indexings) / min(merges)
    count = data.num_rows
    what = f"merge {MERGED} splits of {size:,} rows, against indexing them again"
    # With few rows, the start of the child process dominates.
    return Row(what, _us(min(merges), count), _us(min(indexings), count), fast, fast >= MERGE_BAR if count >= 100_000 else None)


def _filtering(folder: Path, data: pa.Table, rounds: int) -> list[Row]:
    """A filter with two columns, and a count, compared with DuckDB on Parquet files of the same rows."""
    table = it.create(folder / "table", SCHEMA, options={"indexing.typemap.level": "string", "indexing.typemap.host": "string"})
    table.append(data)
    pq.write_table(data, folder / "duck.parquet", compression="zstd")
    with duckdb.connect() as connection:
        source = f"from '{folder / 'duck.parquet'}' where {FILTER}"
        ours = _best(lambda: table.scan(FILTER, ["ts", "host"]).read_all(), rounds)
        theirs = _best(lambda: connection.sql(f"select ts, host {source}").to_arrow_table(), rounds)
        counted = _best(lambda: table.count(FILTER), rounds)
        their_count = _best(lambda: connection.sql(f"select count(*) {source}").fetchall(), rounds)
        assert connection.sql(f"select count(*) {source}").fetchall() == [(table.count(FILTER),)]
    count = data.num_rows
    return [
        Row("filter and two columns, against DuckDB on Parquet", _us(ours, count), _us(theirs, count), theirs / ours),
        Row("count with the same filter, against DuckDB on Parquet", _us(counted, count), _us(their_count, count), their_count / counted),
    ]


def _best(work: Callable[[], Any], rounds: int) -> float:
    return min(_cpu(work) for _ in range(rounds))


def _cpu(work: Callable[[], Any]) -> float:
    started = _used()
    work()
    return _used() - started


def _used() -> float:
    """CPU time of this process and its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _us(seconds: float, count: int) -> str:
    return f"{seconds / count * 1e6:.2f} us/row"


def _write(target: Path, data: pa.Table, folder: Path, compression: str = "lz4") -> None:
    writer = SplitWriter(SplitSettings(SCHEMA, MAPPING, compression=compression), folder / "work")
    for batch in data.to_batches(10_000):
        writer.write(batch)
    assert writer.finish(target).num_records == data.num_rows


def _rows_only(folder: Path, data: pa.Table) -> float:
    unindexed = DocMapping(tuple((name, "stored") for name in SCHEMA.names))

    def write() -> None:
        writer = SplitWriter(SplitSettings(SCHEMA, unindexed), folder / "work")
        for batch in data.to_batches(10_000):
            writer.write(batch)
        writer._store.finish()
        writer.discard()

    return min(_cpu(write) for _ in range(2))


def _full_schema() -> Any:
    """A schema whose fields are stored, indexed and fast."""
    builder = tantivy.SchemaBuilder()
    for field in SCHEMA:
        if pa.types.is_string(field.type):
            text = field.name == "message"
            builder.add_text_field(field.name, stored=True, fast=not text, tokenizer_name="words" if text else "raw")
        else:
            add = builder.add_float_field if field.name == "latency" else builder.add_integer_field
            add(field.name, stored=True, indexed=True, fast=True)
    return builder.build()


def _lean_schema() -> Any:
    """A schema with the fields of our index, also stored."""
    text = {"indexing": {"record": "position", "fieldnorms": True, "tokenizer": "words"}, "stored": True, "fast": False}
    exact = {"indexing": {"record": "basic", "fieldnorms": False, "tokenizer": "raw"}, "stored": True, "fast": False}
    number = {"indexed": False, "fieldnorms": False, "fast": True, "stored": True}
    kinds = {"message": ("text", text), "level": ("text", exact), "host": ("text", exact), "latency": ("f64", number)}
    fields = [(name, *kinds.get(name, ("i64", number))) for name in SCHEMA.names]
    inner = [{"name": name, "type": kind, "options": options} for name, kind, options in fields]
    return tantivy.Schema._internal_from_pythonized({"inner": inner})


def _documents(data: pa.Table) -> list[Any]:
    plain = data.set_column(0, "ts", data.column("ts").cast(pa.int64()))
    schema = _lean_schema()
    return [tantivy.Document.from_dict(row, schema) for row in plain.to_pylist()]


def _index_and_store(folder: Path, schema: Any, documents: list[Any]) -> None:
    folder.mkdir()
    index = tantivy.Index(schema, str(folder))
    index.register_tokenizer("words", analyzer())
    writer = index.writer(heap_size=200_000_000, num_threads=1)
    for document in documents:
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


def _scan(split: Path, count: int) -> None:
    with SplitReader(split) as reader:
        assert sum(batch.num_rows for batch in reader.batches()) == count


def _read_stored(folder: Path, count: int) -> None:
    """Read the stored documents as Arrow rows, like a scan."""
    searcher = tantivy.Index.open(str(folder)).searcher()
    rows = 0
    for start in range(0, count, 10_000):
        found = [searcher.doc(tantivy.DocAddress(0, n)).to_dict() for n in range(start, min(start + 10_000, count))]
        columns = {name: [document[name][0] for document in found] for name in SCHEMA.names}
        rows += pa.table({name: pa.array(values) for name, values in columns.items()}).num_rows
    assert rows == count


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if not file.name.startswith("."))


class Board(Protocol):
    def show_row(self, what: str, ours: str, theirs: str, ratio: str) -> None: ...
    def judge(self, holds: bool, promise: str) -> None: ...


def splits(board: Board) -> None:
    """Run the benchmark in a temporary folder, on a memory file system if there is one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() and os.access(memory, os.W_OK) else None))
    try:
        rows = measure(folder, 20_000 if os.environ.get("QUICK", "") not in ("", "0") else 50_000)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for row in rows:
        board.show_row(row.what, row.ours, row.theirs, f"{row.ratio:.2f}x" if row.theirs else "")
        if row.holds is not None:
            board.judge(row.holds, f"{row.what.strip()}: {row.ours} and {row.theirs} ({row.ratio:.2f}x)")


class _PrintingBoard:
    def show_row(self, what: str, ours: str, theirs: str, ratio: str) -> None:
        print(f"{what:70} {ours:>14} {theirs:>14} {ratio:>8}")

    def judge(self, holds: bool, promise: str) -> None:
        print("PASS" if holds else "FAIL", promise)


if __name__ == "__main__":
    splits(_PrintingBoard())
