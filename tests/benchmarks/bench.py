"""`make bench`: compares the CPU time of the log with deltalake, and of splits and searches with tantivy. No test relies on a time.

CPU time is that of the process with all threads; each figure is the minimum or the median of several runs. The ratios matter.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction

from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.log.log import ReadSettings, TransactionLog
from indextables.operations import verbs
from indextables.operations.checkpoint.run import checkpoint
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from indextables.table.loading import load, totals
from indextables.table.opening import advance, load_snapshot
from indextables.table.snapshot import Snapshot
from indextables.table.transaction import Draft, transact
from tests.benchmarks.filters import filters
from tests.benchmarks.merges import merges
from tests.benchmarks.purge import purges
from tests.benchmarks.search import searches
from tests.benchmarks.shapes import COLUMNS, PARTITIONS, delta_add, our_add, write_delta, write_ours
from tests.benchmarks.splits import splits
from tests.benchmarks.states import states

QUICK = os.environ.get("QUICK", "") not in ("", "0")
SIZES = (1_000, 10_000, 100_000) if QUICK else (1_000, 100_000, 1_000_000)
REPLAYS = (1_000,) if QUICK else (1_000, 10_000)
CHECKPOINT = 10_000 if QUICK else 100_000
VERSIONS = 100  # of each table of SIZES: a refresh lists the versions, so their number is the same
ROUNDS = 10 if QUICK else 30
UNCACHED = ReadSettings(cache_ms=0)  # otherwise the commit would fill the cache for the refresh

NOTES = """
How the figures are measured
- Both logs contain the same history: paths of 80 to 90 characters, two partition values, bounds of five columns. Delta's log is
  uncompressed, ours is gzip (the default); for the replay with a verdict ours is uncompressed too (transaction.compression.enabled=false).
- Neither log has a checkpoint, except in the row that says so. Our log is read without the cache of this process.
- A replay ends with a handle that can commit, refresh, count and look up a live path. By then, every line and every path of ours has
  been validated; adds of the usual form are decoded on demand. deltalake has its columns by then; the row below includes the columns
  of all files on both sides.
- The two alternate, and the minimum of each counts. Ours learns the form of a table's adds from the first 200, once per process.
- A commit is one add: ours with fsync of file and folder, in the same transaction as every write; Delta's by create_write_transaction.
  Both leave the handle at the new version. Our first commit after opening also builds the index of paths, which has a separate row.
- A refresh follows one commit made by another handle. It lists the names after its version; a local folder still returns all its names,
  so the time grows slightly with the number of version files.
- Splits and searches are compared with raw tantivy-py, see tests/benchmarks/{splits,search}.py. The ratios of bytes and of writing are
  ours to theirs, so less is better; all others are theirs to ours.
- A merge of many splits is compared with reading and re-indexing their rows, both through the table's methods.
- A purge is planned from a synthetic listing with a real log; rows marked "wall" use real files and are compared with deltalake's vacuum.
- Import time is excluded, except in the rows about the start.
"""


@dataclass
class Board:
    """The rows of the printed table, and the verdict on each promise."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    verdicts: list[tuple[bool, str]] = field(default_factory=list)

    def add(self, what: str, ours: float, theirs: float | None = None) -> None:
        ratio = "" if theirs is None else f"{theirs / ours:.1f}x"
        self.rows.append((what, f"{ours * 1000:,.2f} ms", "" if theirs is None else f"{theirs * 1000:,.2f} ms", ratio))
        print(f"  {what}: {self.rows[-1][1]}", file=sys.stderr, flush=True)

    def show_row(self, what: str, ours: str, theirs: str, ratio: str) -> None:
        """Add a row with its own units; the label explains the ratio."""
        self.rows.append((what, ours, theirs, ratio))
        print(f"  {what}: {ours}", file=sys.stderr, flush=True)

    def judge(self, holds: bool, promise: str) -> None:
        self.verdicts.append((holds, promise))

    def show(self) -> int:
        rows = [("CPU", "IndexTables", "deltalake, tantivy …", "times faster"), *self.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for number, row in enumerate(rows):
            cells = [cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
            print("  ".join(cells))
            if number == 0:
                print("  ".join("-" * width for width in widths))
        print(NOTES)
        for holds, promise in self.verdicts:
            print(f"{'PASS' if holds else 'FAIL'}  {promise}")
        return 0 if all(holds for holds, _ in self.verdicts) else 1


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def best(work: Callable[[], Any], times: int) -> float:
    return min(cpu(work) for _ in range(times))


def our_log(table: Path, reading: ReadSettings = UNCACHED) -> TransactionLog:
    return TransactionLog(LocalStore(TableRoot(str(table))), reading)


def replays(folder: Path, board: Board) -> None:
    for versions in REPLAYS:
        ours, theirs = write_ours(folder / f"o{versions}", versions, 10, compress=False), write_delta(folder / f"d{versions}", versions, 10)
        packed = write_ours(folder / f"z{versions}", versions, 10)

        def read(table: Path = ours, expected: int = 10 * versions) -> Snapshot:
            snapshot = load_snapshot(our_log(table))
            assert totals(our_log(table), snapshot).num_files == expected
            return snapshot

        def delta(table: Path = theirs) -> DeltaTable:
            return DeltaTable(table)

        our_time, their_time = map(min, zip(*((cpu(read), cpu(delta)) for _ in range(5)), strict=True))
        ratio = their_time / our_time
        board.add(f"replay {versions:,} versions of 10 adds, plain on both sides", our_time, their_time)
        board.add("  ours gzip, as by default", best(lambda read=read, table=packed: read(table), 5), their_time)
        board.judge(ratio >= 5, f"replay of {versions:,} versions at least 5x faster than deltalake ({ratio:.1f}x)")
        columns = best(lambda read=read, ours=ours: load(our_log(ours), read()).files_table(), 3)
        board.add("  and all columns of all files", columns, best(lambda delta=delta: delta().get_add_actions(), 2))


class OpenTables:
    """An open table of ours and the equivalent Delta table."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self.ours = write_ours(folder / f"c{size}", VERSIONS, size // VERSIONS)
        self.theirs = write_delta(folder / f"e{size}", VERSIONS, size // VERSIONS)
        self.log = our_log(self.ours)
        self.snapshot = load_snapshot(self.log)
        self.delta = DeltaTable(self.theirs)
        self.schema = DeltaSchema.from_arrow(pa.schema([(name, pa.string()) for name in COLUMNS]))
        self.number = size

    def commit(self) -> None:
        self.number += 1
        draft = Draft([our_add(self.number)])
        outcome = transact(self.log, self.snapshot, "append", lambda _: draft, config=Config.of(), clock=SYSTEM_CLOCK)
        self.snapshot = outcome.snapshot

    def delta_commit(self) -> None:
        self.number += 1
        add = delta_add(self.number)
        action = AddAction(add["path"], add["size"], add["partitionValues"], add["modificationTime"], True, add["stats"])
        self.delta.create_write_transaction([action], "append", self.schema, PARTITIONS)

    def refresh_time(self) -> float:
        follower: Snapshot = advance(self.log, self.snapshot)
        other = our_log(self.ours)
        times = []
        for _ in range(ROUNDS):
            self.commit()
            started = time.process_time()
            follower = advance(other, follower)
            times.append(time.process_time() - started)
            assert follower.version == self.snapshot.version
        return statistics.median(times)

    def delta_refresh_time(self, rounds: int) -> float:
        follower = DeltaTable(self.theirs)
        times = []
        for _ in range(rounds):
            self.delta_commit()
            started = time.process_time()
            follower.update_incremental()
            times.append(time.process_time() - started)
        return statistics.median(times)


def commits(folder: Path, board: Board) -> None:
    our_commits, our_refreshes = [], []
    for size in SIZES:
        tables = OpenTables(folder, size)
        first = cpu(tables.commit)
        rounds = 3 if size > 500_000 else 10
        our_commits.append(statistics.median(cpu(tables.commit) for _ in range(ROUNDS)))
        board.add(
            f"commit one add, {size:,} live files", our_commits[-1], statistics.median(cpu(tables.delta_commit) for _ in range(rounds))
        )
        board.add("  our first one after opening", first)
        our_refreshes.append(tables.refresh_time())
        board.add(f"refresh after one commit, {size:,} live files", our_refreshes[-1], tables.delta_refresh_time(rounds))
        assert totals(tables.log, tables.snapshot).num_files == size + 1 + 2 * ROUNDS
    for what, times in (("commit", our_commits), ("refresh", our_refreshes)):
        spread = max(times) / min(times)
        board.judge(spread <= 1.5, f"a {what} costs the same from {SIZES[0]:,} to {SIZES[-1]:,} live files within 1.5x ({spread:.2f}x)")


def checkpoints(folder: Path, board: Board) -> None:
    ours, theirs = write_ours(folder / "oc", 10, CHECKPOINT // 10), write_delta(folder / "dc", 10, CHECKPOINT // 10)
    checkpoint(verbs.Checkpoint(), TableContext(our_log(ours), Config.of(), SYSTEM_CLOCK))
    DeltaTable(theirs).create_checkpoint()
    opened = best(lambda: load_snapshot(our_log(ours)), 3)
    board.add(f"open from a checkpoint, {CHECKPOINT:,} files (JSON; Parquet)", opened, best(lambda: DeltaTable(theirs), 3))
    cached = our_log(ours, ReadSettings())
    load_snapshot(cached)
    board.add("  ours again in the same process", best(lambda: load_snapshot(cached), 5))


def starts(board: Board) -> None:
    def child(code: str) -> float:
        def usage() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        before = usage()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False)
        return usage() - before

    bare = min(child("pass") for _ in range(5))
    board.add("start: python alone", bare)
    board.add("start: import indextables", min(child("import indextables") for _ in range(5)))
    board.add("start: indextables --help", min(child("from indextables.cli.main import main; main(['--help'])") for _ in range(5)))


def main() -> int:
    board = Board()
    pa.array([1])  # triggers the imports of Arrow's first conversion
    with tempfile.TemporaryDirectory(prefix="indextables-bench-") as name:
        for part in (replays, commits, checkpoints, states, purges):
            part(Path(name), board)
        filters(SIZES[-1], board)
        searches(Path(name, "searches"), board)
        merges(Path(name, "merges"), board)
    splits(board)
    starts(board)
    return board.show()


if __name__ == "__main__":
    sys.exit(main())
