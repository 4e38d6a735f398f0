"""Search compared with raw tantivy-py: the same rows in 50 splits of a table, and in one tantivy index that also stores them.

Both fetch the ten rows and cache decoded blocks: tantivy reads its doc store; a table reads a block of 1,024 rows from each of about seven
splits, which takes 1 to 2 ms the first time, regardless of the size of the table. Run it with `python -m tests.benchmarks.search`, or as
part of the bench.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import tantivy

import indextables as it

QUICK = os.environ.get("QUICK", "") not in ("", "0")
SPLITS = 50
ROWS = 2_000 if QUICK else 20_000  # per split
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("host", pa.string()),
        ("message", pa.string()),
        ("latency_ms", pa.int64()),
    ]
)
_WORDS = [
    f"{first}{second}"
    for first in ["connection", "request", "upstream", "worker", "payment", "cache", "disk", "user"]
    for second in ("", "s", "ed", "ing")
]
_RARE = [f"trace{number}" for number in range(20_000)]
QUERIES = [
    *("connection", "requests", "trace77", "userings"),
    *("connection AND cached", "payment AND NOT disk", "worker AND disks AND user", "trace5 OR trace6 OR trace7"),
    *("connection OR request OR upstream", "cached worker paymenting", "+disk user cache", "disk OR trace123"),
    *('"connection requests"', '"disk users"', "level:error AND upstream", "host:h7 AND payment"),
]


class Board(Protocol):
    def add(self, what: str, ours: float, theirs: float | None = None) -> None: ...
    def judge(self, holds: bool, promise: str) -> None: ...


def log_rows(start: int, count: int) -> pa.Table:
    """Lines of about 100 characters: common words by Zipf's law, and one nearly unique word."""
    choose = random.Random(start)
    weights = [1 / (rank + 2) for rank in range(len(_WORDS))]
    first = datetime(2026, 1, 1, tzinfo=UTC)
    numbers = range(start, start + count)
    columns = {
        "ts": [first + timedelta(milliseconds=37 * number) for number in numbers],
        "level": choose.choices(["info", "warn", "error"], [80, 15, 5], k=count),
        "host": [f"h{number % 40}" for number in numbers],
        "message": [" ".join([*choose.choices(_WORDS, weights, k=12), choose.choice(_RARE)]) for _ in numbers],
        "latency_ms": [choose.randrange(5000) for _ in numbers],
    }
    return pa.table(columns, SCHEMA)


def make_table(folder: Path, parts: list[pa.Table]) -> it.Table:
    table = it.create(folder, SCHEMA)
    for part in parts:
        table.append(part)
    return table


def make_index(folder: Path, parts: list[pa.Table]) -> Any:
    """All rows in one segment, stored and indexed with the defaults of tantivy's schema builder."""
    builder = tantivy.SchemaBuilder()
    builder.add_date_field("ts", stored=True)
    for name in ("level", "host", "message"):
        builder.add_text_field(name, stored=True)
    builder.add_integer_field("latency_ms", stored=True, indexed=True)
    folder.mkdir()
    index = tantivy.Index(builder.build(), str(folder))
    writer = index.writer(heap_size=1_000_000_000, num_threads=1)
    for part in parts:
        for row in part.to_pylist():
            writer.add_document(tantivy.Document(**row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def tantivy_search(index: Any, query: str) -> list[dict[str, Any]]:
    """The ten best rows, searched as in tantivy-py's documentation."""
    searcher = index.searcher()
    parsed = index.parse_query(query.replace("AND NOT ", "AND -"), ["level", "host", "message"])
    return [searcher.doc(address).to_dict() for _, address in searcher.search(parsed, 10).hits]


def _cpu(work: Callable[[], Any], times: int) -> float:
    found = []
    for _ in range(times):
        gc.collect()
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def searches(folder: Path, board: Board) -> None:
    parts = [log_rows(number * ROWS, ROWS) for number in range(SPLITS)]
    table, index = make_table(folder / "table", parts), make_index(folder / "index", parts)
    assert table.files().num_rows == SPLITS
    assert index.searcher().num_docs == SPLITS * ROWS
    for query in QUERIES:
        assert table.search(query).num_rows == min(10, len(tantivy_search(index, query)) or table.search(query).num_rows), query
    # Alternating, so that both run under the same conditions.
    rounds = [
        (_cpu(lambda: [table.search(query) for query in QUERIES], 1), _cpu(lambda: [tantivy_search(index, query) for query in QUERIES], 1))
        for _ in range(7)
    ]
    ours, theirs = (min(times) for times in zip(*rounds, strict=True))
    board.add(f"top-10 of {SPLITS * ROWS:,} rows in {SPLITS} splits, {len(QUERIES)} queries (tantivy: one index)", ours, theirs)
    if not QUICK:  # in a small table, fetching ten rows costs more than searching
        board.judge(ours <= 1.5 * theirs, f"top-10 over {SPLITS} splits within 1.5x of one tantivy index ({ours / theirs:.2f}x)")
    board.add(
        "  with where and order_by", _cpu(lambda: [table.search(q, where="latency_ms < 2500", order_by="ts desc") for q in QUERIES], 3)
    )
    board.add(f"aggregate {SPLITS * ROWS:,} rows: count, max, avg by level", _cpu(lambda: _aggregated(table), 3))
    cold_search(folder, parts[0], board)


def _aggregated(table: it.Table) -> pa.Table:
    return table.aggregate({"n": ("count", "*"), "slow": ("max", "latency_ms"), "mean": ("avg", "latency_ms")}, ["level"])


def cold_search(folder: Path, rows: pa.Table, board: Board) -> None:
    """The time from the start of a process to its hits."""
    make_table(folder / "cold", [rows])
    command = [sys.executable, "-m", "indextables", "search", str(folder / "cold"), "connection OR cached", "--json"]
    times, walls = [], []
    for _ in range(3):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        assert subprocess.run(command, capture_output=True, check=True).stdout.count(b"_score") == 10
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        walls.append(time.perf_counter() - started)
    board.add("cold `indextables search` of one split, process start to hits", min(times))
    board.add("  wall time of it", min(walls))


class _PrintingBoard:
    def add(self, what: str, ours: float, theirs: float | None = None) -> None:
        print(f"{what}: {ours * 1000:,.2f} ms" + ("" if theirs is None else f", tantivy {theirs * 1000:,.2f} ms"))

    def judge(self, holds: bool, promise: str) -> None:
        print("PASS" if holds else "FAIL", promise)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="indextables-bench-") as name:
        searches(Path(name), _PrintingBoard())
