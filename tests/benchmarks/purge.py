"""Purge of large tables: the bench calls `purges(folder, board)`.

Planning is measured in a separate process, with its memory; the listing is synthetic, the log is real. The listing is measured with real
files on this disk and with objects of an S3 server on loopback, compared with deltalake's vacuum of as many files; in wall time, because
the store dominates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.log.log import ReadSettings, TransactionLog
from indextables.operations import verbs
from indextables.operations.checkpoint.run import checkpoint
from indextables.operations.expire.purge_files import purge
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from tests.benchmarks.shapes import write_delta, write_ours
from tests.support.s3 import CREDENTIALS, ministack

QUICK = os.environ.get("QUICK", "") not in ("", "0")
FILES = 100_000 if QUICK else 1_000_000
OBJECTS = 10_000 if QUICK else 100_000
LONG_AGO = 1_600_000_000  # s
MONTH_MS = 31 * 24 * 3_600_000

PLANNING = """
import json, sys, time
from pathlib import Path
from indextables.operations.expire import purge_files as purge
from indextables.operations import verbs
from indextables.storage import Entry, LocalStore
from tests.benchmarks.purge import LONG_AGO, bound
context = bound(Path(sys.argv[1]))
names = open(sys.argv[2]).read().split()
dead = [f"splits/split-00000000-0000-4000-8000-{number:012x}.split" for number in range(len(names) // 10)]
real = LocalStore.list
def synthetic_list(self, folder, after=None):
    if folder == "":
        for name in (*names, *dead):
            yield Entry(name, 123456, LONG_AGO * 1000)
    yield from real(self, folder, after)
LocalStore.list = synthetic_list
def peak():
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM:"))
before, started = peak(), time.process_time()
facts = purge.gather_purge_facts(context)
gathered = time.process_time()
options, now = purge.purge_options(verbs.Purge(), context.config), context.clock.now_ms()
planned = purge.plan_purge(purge.complete_purge_facts(context, facts, options, now), options, now)
ended = time.process_time()
splits = sum(deletion.kind == "split" for deletion in planned.deletions)
assert splits == len(dead), (splits, len(dead))
print(json.dumps({"gather": gathered - started, "plan": ended - gathered, "mib": peak() - before}))
"""


def bound(table: Path) -> TableContext:
    return TableContext(TransactionLog(LocalStore(TableRoot(str(table))), ReadSettings(cache_ms=0)), Config.of(), SYSTEM_CLOCK)


def purges(folder: Path, board: Any) -> None:
    _planning(folder, board)
    _listing(folder, board)


def _planning(folder: Path, board: Any) -> None:
    table, names = write_ours(folder / "purged", 100, FILES // 100), folder / "names"
    context = bound(table)
    checkpoint(verbs.Checkpoint(), context)
    names.write_text("\n".join(context.load(context.snapshot()).files.paths()))
    done = subprocess.run(
        [sys.executable, "-c", PLANNING, str(table), str(names)], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    result = json.loads(done.stdout)
    board.add(f"purge, {FILES:,} live and {FILES // 10:,} dead files: read the log with all versions", result["gather"])
    board.add("  and plan", result["plan"])
    board.show_row("  memory at its highest, beyond what was there", f"{result['mib']:,} MiB", "", "")
    seconds = result["gather"] + result["plan"]
    bar = 5 + FILES // 100_000
    board.judge(seconds <= bar, f"a purge of {FILES:,} files is planned within {bar} s of CPU ({seconds:.1f} s)")


def _listing(folder: Path, board: Any) -> None:
    """Dead objects, listed on disk and by an S3 server that serves the same files."""
    ours, theirs = (
        write_ours(folder / "s3/000000000000/tables/listed", 3, 10),
        write_delta(folder / "s3/000000000000/tables/vacuumed", 3, 10),
    )
    name = "split-00000000-0000-4000-8000-{:012x}.split"
    _fill(ours, lambda number: f"date=2024-01-{number % 28 + 1:02d}/splits/{name.format(number)}")
    _fill(theirs, lambda number: f"date=2024-01-{number % 28 + 1:02d}/part-{number:08d}.parquet")

    def compare(what: str, our_time: float, their_time: float) -> None:
        board.add(f"purge of {OBJECTS:,} objects {what} (wall; vacuum)", our_time, their_time)

    compare("on disk, listed, compared and planned", _purge(bound(ours), dry_run=True), _vacuum(DeltaTable(theirs), dry_run=True))
    with ministack(folder / "s3") as server, pytest.MonkeyPatch.context() as patch:
        for variable, value in CREDENTIALS.items():
            patch.setenv(variable, value)
        later = Clock(now_ms=lambda: SYSTEM_CLOCK.now_ms() + MONTH_MS)  # no object is older than the server
        remote = TableContext.at(f"s3://{server.bucket}/listed", server.options, later)
        delta = DeltaTable(
            f"s3://{server.bucket}/vacuumed",
            storage_options={"AWS_ENDPOINT_URL": server.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"},
        )
        compare("on S3, listed, compared and planned", _purge(remote, dry_run=True), _vacuum(delta, dry_run=True))
    compare("on disk, and deleted", _purge(bound(ours), dry_run=False), _vacuum(DeltaTable(theirs), dry_run=False))


def _purge(context: TableContext, *, dry_run: bool) -> float:
    started = time.perf_counter()
    assert purge(verbs.Purge(dry_run=dry_run), context).metrics["files_deleted"] == OBJECTS
    return time.perf_counter() - started


def _vacuum(table: DeltaTable, *, dry_run: bool) -> float:
    started = time.perf_counter()
    assert len(table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=dry_run, full=True)) == OBJECTS
    return time.perf_counter() - started


def _fill(table: Path, path_of: Callable[[int], str]) -> None:
    for number in range(OBJECTS):
        path = table / path_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (LONG_AGO, LONG_AGO))
