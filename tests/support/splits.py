"""Small splits for tests."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from indextables.splits import DocMapping, SplitInfo, SplitReader, SplitSettings, SplitWriter, parse_query

LOGS = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("date", pa.string()),
        pa.field("level", pa.string()),
        pa.field("message", pa.string()),
        pa.field("status", pa.int32()),
        pa.field("latency", pa.float64()),
        pa.field("ok", pa.bool_()),
    ]
)
LOGS_MAPPING = DocMapping.for_table(LOGS, ["date"], {"level": "string"})
_LEVELS = ("INFO", "WARN", "ERROR")
_WORDS = ("timeout", "refused", "connection", "disk", "full", "retry", "Database", "node-7")


def log_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Distinct rows, different for each seed, with some nulls."""
    return [
        {
            "ts": None if n % 11 == 3 else 1_700_000_000_000_000 + seed * 1_000_000 + n,
            "date": "2024-01-31",
            "level": _LEVELS[(n + seed) % 3],
            "message": None if n % 7 == 5 else f"{_WORDS[n % 8]} {_WORDS[(n * 3 + seed) % 8]} row{seed}x{n}",
            "status": None if n % 13 == 1 else (n * 7 + seed) % 600,
            "latency": n / 4 - seed,
            "ok": n % 2 == 0,
        }
        for n in range(count)
    ]


def log_batch(count: int, seed: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(log_rows(count, seed), schema=LOGS)


def write_split(path: Path, data: pa.RecordBatch, mapping: DocMapping | None = None, **options: Any) -> SplitInfo:
    chosen = mapping if mapping is not None else DocMapping.for_table(data.schema, [])
    writer = SplitWriter(SplitSettings(data.schema, chosen, **options), path.parent / "work")
    writer.write(data)
    return writer.finish(path)


def write_logs(path: Path, count: int, seed: int = 0) -> SplitInfo:
    return write_split(path, log_batch(count, seed), LOGS_MAPPING, partition_columns=("date",))


def read_all(path: Path) -> pa.Table:
    with SplitReader(path) as reader:
        return pa.Table.from_batches(reader.batches(), reader.schema)


def multiset(tables: Sequence[pa.Table]) -> Counter[str]:
    return Counter(repr(row) for table in tables for row in table.to_pylist())


def matches(reader: SplitReader, text: str) -> set[int]:
    """The numbers of the rows that match a query."""
    rows, scores = reader.search(parse_query(text, reader.schema, reader.mapping))
    assert len(rows) == len(scores) == len(set(rows.tolist()))
    return set(rows.tolist())


def found_rows(reader: SplitReader, text: str) -> Counter[str]:
    return multiset([reader.take(sorted(matches(reader, text)))])


def batch_of(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@contextmanager
def reindexings() -> Iterator[list[int]]:
    """A list with one entry per merge, made inside, that fell back to re-indexing the rows. The log reports each."""
    found: list[int] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if getattr(record, "event", "") == "rows_reindexed":
                found.append(1)

    logger, handler = logging.getLogger("indextables"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
