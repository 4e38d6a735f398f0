"""Purge of large tables: `purges(folder, board)` is called by the bench.

Planning is measured in a process of its own, whose memory is shown too: the listing is made up, the log is real. The listing itself is
of real files on this disk, beside what deltalake's vacuum takes for as many; wall time, since it is the disk that is waited for.
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

from deltalake import DeltaTable

from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.log.log import Reading, TransactionLog
from indextables.operations.checkpoint import checkpoint
from indextables.operations.purge import purge
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from tests.benchmarks.shapes import write_delta, write_ours

QUICK = os.environ.get("QUICK", "") not in ("", "0")
FILES = 100_000 if QUICK else 1_000_000
OBJECTS = 10_000 if QUICK else 100_000
LONG_AGO = 1_600_000_000  # s

PLANNING = """
import json, sys, time
from pathlib import Path
from indextables.operations import purge, purge_facts
from indextables.storage import Entry, LocalStore
from tests.benchmarks.purge import LONG_AGO, bound
context = bound(Path(sys.argv[1]))
names = open(sys.argv[2]).read().split()
dead = [f"splits/split-00000000-0000-4000-8000-{number:012x}.split" for number in range(len(names) // 10)]
real = LocalStore.list
def listed(self, folder, after=None):
    if folder == "":
        for name in (*names, *dead):
            yield Entry(name, 123456, LONG_AGO * 1000)
    yield from real(self, folder, after)
LocalStore.list = listed
def peak():
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM:"))
before, started = peak(), time.process_time()
facts = purge_facts.gather(context)
gathered = time.process_time()
planned = purge.plan(facts, purge.options_of(context, "7d", None), context.clock.now_ms())
ended = time.process_time()
splits = sum(deletion.kind == "split" for deletion in planned.deletions)
assert splits == len(dead), (splits, len(dead))
print(json.dumps({"gather": gathered - started, "plan": ended - gathered, "mib": peak() - before}))
"""


def bound(table: Path) -> TableContext:
    return TableContext(TransactionLog(LocalStore(TableRoot(str(table))), Reading(cache_ms=0)), Config.of(), SYSTEM_CLOCK)


def purges(folder: Path, board: Any) -> None:
    _planning(folder, board)
    _listing(folder, board)


def _planning(folder: Path, board: Any) -> None:
    table, names = write_ours(folder / "purged", 100, FILES // 100), folder / "names"
    checkpoint(bound(table))
    names.write_text("\n".join(bound(table).snapshot().files.paths()))
    done = subprocess.run(
        [sys.executable, "-c", PLANNING, str(table), str(names)], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    told = json.loads(done.stdout)
    board.add(f"purge, {FILES:,} live and {FILES // 10:,} dead files: read the log with all versions", told["gather"])
    board.add("  and plan", told["plan"])
    board.show_row("  memory at its highest, beyond what was there", f"{told['mib']:,} MiB", "", "")
    seconds = told["gather"] + told["plan"]
    bar = 5 + FILES // 100_000
    board.judge(seconds <= bar, f"a purge of {FILES:,} files is planned within {bar} s of CPU ({seconds:.1f} s)")


def _listing(folder: Path, board: Any) -> None:
    ours, theirs = write_ours(folder / "listed", 3, 10), write_delta(folder / "vacuumed", 3, 10)
    name = "split-00000000-0000-4000-8000-{:012x}.split"
    _fill(ours, lambda number: f"date=2024-01-{number % 28 + 1:02d}/splits/{name.format(number)}")
    _fill(theirs, lambda number: f"date=2024-01-{number % 28 + 1:02d}/part-{number:08d}.parquet")
    delta = DeltaTable(theirs)

    def vacuum(*, dry_run: bool) -> None:
        assert len(delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=dry_run, full=True)) == OBJECTS

    def purged(*, dry_run: bool) -> None:
        assert purge(bound(ours), dry_run=dry_run).metrics["files_deleted"] == OBJECTS

    for what, dry_run in (("listed, compared and planned", True), ("and deleted", False)):
        our_time, their_time = _wall(lambda dry=dry_run: purged(dry_run=dry)), _wall(lambda dry=dry_run: vacuum(dry_run=dry))
        board.add(f"purge of {OBJECTS:,} objects on disk, {what} (wall; vacuum)", our_time, their_time)


def _fill(table: Path, path_of: Callable[[int], str]) -> None:
    for number in range(OBJECTS):
        path = table / path_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (LONG_AGO, LONG_AGO))


def _wall(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
