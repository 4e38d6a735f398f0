"""Planning a merge of many files, and a complete merge compared with re-indexing the same rows: the bench calls `merges(folder, board)`.

CPU time includes the child processes that merge segments.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables as it
from indextables.log.log import ReadSettings, TransactionLog
from indextables.operations import verbs
from indextables.operations.merge.plan import MergeOptions, plan_merge
from indextables.operations.write import run as write
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from tests.benchmarks.shapes import write_ours
from tests.support.loading import read_all

QUICK = os.environ.get("QUICK", "") not in ("", "0")
FILES = 140_000
SPLITS = 40 if QUICK else 200
ROWS = 7_000  # per split, which gives about a megabyte
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("level", pa.string()), ("message", pa.string())])
WORDS = [f"word{number}" for number in range(20_000)]


def merges(folder: Path, board: Any) -> None:
    _planning(folder, board)
    _end_to_end(folder, board)


def _planning(folder: Path, board: Any) -> None:
    table = write_ours(folder / "planned", 100, FILES // 100)
    snapshot = read_all(TransactionLog(LocalStore(TableRoot(str(table))), ReadSettings(cache_ms=0)))
    snapshot.files_table()
    took = min(_cpu(lambda: plan_merge(snapshot, MergeOptions(5 * 2**30))) for _ in range(3))
    groups = plan_merge(snapshot, MergeOptions(5 * 2**30)).groups
    assert sum(len(group.paths) for group in groups) == FILES
    board.add(f"plan a merge of {FILES:,} files into {len(groups)}", took)
    board.judge(took < 1, f"a merge of {FILES:,} files is planned in less than a second ({took:.2f} s)")


def _end_to_end(folder: Path, board: Any) -> None:
    table = _filled(folder / "merged")
    size = table.describe()["size_bytes"]
    context = TableContext.at(table.path)
    again = _cpu(lambda: write.prepare_write(verbs.Write(), context).task.write(table.scan()))
    reports = []
    merged = _cpu(lambda: reports.append(table.merge_splits()))
    assert (reports[0].metrics["files_removed"], reports[0].metrics["files_added"]) == (SPLITS, 1)
    assert table.count() == SPLITS * ROWS
    board.add(f"merge {SPLITS} splits of {size / SPLITS / 1e6:.1f} MB end to end; read and index their rows anew", merged, again)
    board.judge(merged < again, f"a merge of {SPLITS} splits takes less CPU than indexing their rows anew ({again / merged:.1f}x)")


def _filled(path: Path) -> it.Table:
    choose = random.Random(7)
    table = it.create(path, SCHEMA)
    for number in range(SPLITS):
        first = number * ROWS
        columns = {
            "id": range(first, first + ROWS),
            "ts": [1_700_000_000_000_000 + row for row in range(first, first + ROWS)],
            "level": choose.choices(("INFO", "WARN", "ERROR"), k=ROWS),
            "message": [" ".join(choose.choices(WORDS, k=12)) for _ in range(ROWS)],
        }
        table.append(pa.table(columns, schema=SCHEMA))
    return table


def _cpu(work: Callable[[], Any]) -> float:
    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    before = used()
    work()
    return used() - before
