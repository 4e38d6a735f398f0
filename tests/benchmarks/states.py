"""Avro checkpoints compared with deltalake's checkpoints and pyiceberg's manifests in one run: the bench calls `states(folder, board)`.

Manifests decoded as columns serve the uncached bars, bounds that exclude manifests before they are read serve the single partition, and
the local cache of decoded manifests serves the warm bars and a table of many transactions.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from indextables.actions import CommitInfo
from indextables.actions.codec import encode_actions
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.log import names, packing
from indextables.log.log import ReadSettings, TransactionLog
from indextables.operations import verbs
from indextables.operations.checkpoint import run as checkpoint
from indextables.paths import TableRoot
from indextables.predicates import parse_predicate
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from indextables.table.files import public_table
from indextables.table.loading import load, totals
from indextables.table.opening import load_snapshot
from tests.benchmarks.shapes import our_add, write_delta, write_ours
from tests.support.loading import read_all

QUICK = os.environ.get("QUICK", "") not in ("", "0")
SIZES = (10_000, 100_000) if QUICK else (10_000, 100_000, 1_000_000)
ICEBERG_MOST = 100_000  # pyiceberg takes 90 s for a million files
TRANSACTIONS = (1_000,) if QUICK else (1_000, 10_000)
RECENT = 40  # transactions after the last checkpoint but one, more than the 30 that a checkpoint keeps
WHERE = "date = '2024-01-05' AND host = 'h4'"
UNCACHED = ReadSettings(cache_ms=0)

MEMORY = """
import gc, pyarrow as pa, sys
from pathlib import Path
from tests.benchmarks.states import our_log
from tests.support.loading import read_all
def anonymous():
    gc.collect(); pa.default_memory_pool().release_unused()
    return sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Anonymous:")) * 1024
log = our_log(Path(sys.argv[1])); pa.array([1]); read_all(our_log(Path(sys.argv[2]))).files_table()
before = anonymous()
snapshot = read_all(log); rows = snapshot.files_table().num_rows
print((anonymous() - before) / rows)
"""


INCREMENTAL = """
import pyarrow as pa, sys
from pathlib import Path
from indextables.operations import verbs
from tests.benchmarks.states import checkpoint, context, cpu, ten_more
pa.array([1])
for number, table in enumerate(map(Path, sys.argv[1:])):
    ten_more(table)
    took = cpu(lambda: checkpoint.checkpoint(verbs.Checkpoint(), context(table)))
print(took)
"""


def our_log(table: Path) -> TransactionLog:
    return TransactionLog(LocalStore(TableRoot(str(table))), UNCACHED)


def context(table: Path) -> TableContext:
    return TableContext(our_log(table), Config.of(), SYSTEM_CLOCK)


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def states(folder: Path, board: Any) -> None:
    """Rows and verdicts for the figures that are promised for checkpoints. The bench uses its own cache folder."""
    os.environ["INDEXTABLES_CACHE_DIR"] = str(folder / "cache")
    pa.array([1])
    incremental = []
    for size in SIZES:
        ours, theirs = write_ours(folder / f"so{size}", 100, size // 100), write_delta(folder / f"sd{size}", 100, size // 100)
        _full(board, size, ours, theirs)
        _opened(board, size, ours, theirs)
        if size <= ICEBERG_MOST:
            _iceberg(board, folder / f"si{size}", size)
        incremental.append(_incremental(ours, write_ours(folder / f"sw{size}", 2, 10)))
        board.add(f"checkpoint of {size:,} files with 10 new ones, by a new process", incremental[-1])
        _memory(board, size, ours, folder / f"so{SIZES[0]}")
    spread = max(incremental) / min(incremental)
    board.judge(spread <= 2, f"an incremental checkpoint costs the same from {SIZES[0]:,} to {SIZES[-1]:,} files within 2x ({spread:.2f}x)")
    for count in TRANSACTIONS:
        _against_replay(board, folder, count)


def _full(board: Any, size: int, ours: Path, theirs: Path) -> None:
    """A full checkpoint of an open table whose file columns are loaded, so that only the writing is timed."""
    bound = context(ours)
    checkpoint.checkpoint(verbs.Checkpoint(), bound)  # commits the protocol that Avro checkpoints need
    for state in (ours / "_transaction_log").glob("state-v*/_manifest.json"):
        state.unlink()
    shutil.rmtree(ours / "_transaction_log" / "manifests")
    snapshot = load_snapshot(bound.log)
    bound.load(snapshot).files_table()
    our_time = cpu(lambda: checkpoint.run(bound, snapshot))
    opened = DeltaTable(theirs)
    their_time = cpu(opened.create_checkpoint)
    board.add(f"full checkpoint of {size:,} files of an open table", our_time, their_time)
    board.judge(our_time <= their_time, f"a full checkpoint of {size:,} files no slower than deltalake's ({their_time / our_time:.2f}x)")


def _opened(board: Any, size: int, ours: Path, theirs: Path) -> None:
    cache = Path(os.environ["INDEXTABLES_CACHE_DIR"])

    def everything() -> None:
        assert read_all(our_log(ours)).files_table().num_rows == size

    def partition() -> None:
        snapshot = load_snapshot(our_log(ours))
        predicate = parse_predicate(WHERE, snapshot.schema)
        assert 0 < public_table(load(our_log(ours), snapshot, predicate), predicate).num_rows < size

    def uncached(work: Callable[[], None]) -> float:
        shutil.rmtree(cache, ignore_errors=True)
        return cpu(work)

    cold_one = min(uncached(partition) for _ in range(3))
    cold = min(uncached(everything) for _ in range(3))
    warm = min(cpu(everything) for _ in range(3))
    counts = min(cpu(lambda: totals(our_log(ours), load_snapshot(our_log(ours)))) for _ in range(3))
    delta = min(cpu(lambda: DeltaTable(theirs).get_add_actions()) for _ in range(3))
    board.add(f"cold open + all of {size:,} files, nothing cached", cold, delta)
    board.add("  with the local manifest cache warm", warm, delta)
    board.add("  only numbers of files, bytes and records", counts, delta)
    board.add(f"cold open + one partition of {size:,} files, nothing cached", cold_one, delta)
    if size == SIZES[-1]:
        board.judge(delta / cold >= 1.5, f"cold open of {size:,} files at least 1.5x faster than deltalake, uncached ({delta / cold:.2f}x)")
        board.judge(delta / warm >= 20, f"  at least 20x with the manifest cache warm ({delta / warm:.0f}x)")
        board.judge(delta / cold_one >= 10, f"one partition of {size:,} files at least 10x faster, uncached ({delta / cold_one:.1f}x)")


def _incremental(ours: Path, warm_up: Path) -> float:
    """Minimum of three, each with 10 new files in a new process, which first writes a checkpoint of another table."""
    code = [sys.executable, "-c", INCREMENTAL, str(warm_up), str(ours)]
    done = [subprocess.run(code, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]) for _ in range(3)]
    return min(float(one.stdout) for one in done)


def ten_more(table: Path) -> None:
    """Commit ten adds like any program; unlike our append, without recording that the paths are new."""
    version = load_snapshot(our_log(table)).version + 1
    info = CommitInfo(id=str(version), timestamp=1_700_000_000_000, operation="append", read_version=version - 1)
    actions = [info, *(our_add(10_000_000 + 10 * version + number) for number in range(10))]
    (table / names.version_path(version)).write_bytes(packing.pack(encode_actions(actions), compress=True))


def _iceberg(board: Any, folder: Path, size: int) -> None:
    """A table of as many files in pyiceberg's catalog; the data files are registered, not written."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("b")
    table = catalog.create_table("b.t", schema=pa.schema([("a", pa.string()), ("b", pa.string())]))
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number in range(size):
            add = our_add(number)
            bound = {1: f"{number:08d}".encode(), 2: f"{number:08d}".encode()}
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{folder}/{add.path}",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1000,
                file_size_in_bytes=add.size,
                lower_bounds=bound,
                upper_bounds=bound,
            )
            file.spec_id = 0
            append.append_data_file(file)
    took = cpu(lambda: len(list(catalog.load_table("b.t").scan().plan_files())))
    board.add(f"  pyiceberg: plan of {size:,} files, two columns", took)


def _memory(board: Any, size: int, ours: Path, warm_up: Path) -> None:
    """Memory not backed by a file, of a process that opened the table with a warm cache."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(ours), str(warm_up)], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    each = float(done.stdout)
    print(f"  memory outside mapped files, {size:,} files: {each:.0f} bytes a file", file=sys.stderr)
    if size == SIZES[-1]:
        board.judge(each <= 300, f"at most 300 bytes of memory a live file outside mapped files ({each:.0f} of {size:,})")


def _against_replay(board: Any, folder: Path, count: int) -> None:
    """A table of many transactions: append-only, ten files each. An open table has its version, counts and schema, and can commit.

    As in the seed, a checkpoint removes the transactions before it except the last 30; the verdict is on opening after that. With all
    version files still in the folder, the listing takes most of the time, which has a separate row.
    """
    table = write_ours(folder / f"seed{count}", count - RECENT, 10)
    checkpoint.checkpoint(verbs.Checkpoint(), context(table))
    for _ in range(RECENT):
        ten_more(table)
    checkpoint.checkpoint(verbs.Checkpoint(), context(table))
    read_all(our_log(table)).files_table()

    def replay() -> None:
        live: dict[str, Any] = {}
        for path in sorted((table / "_transaction_log").glob("0*.json")):
            for line in packing.unpack(path.read_bytes(), path.name).splitlines():
                action = json.loads(line)
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]
        assert len(live) == 10 * count

    replayed = min(cpu(replay) for _ in range(2))
    uncleaned = min(cpu(lambda: load_snapshot(our_log(table))) for _ in range(5))
    _clean_up(table, count)
    opened = min(cpu(lambda: load_snapshot(our_log(table))) for _ in range(5))
    listed = min(cpu(lambda: read_all(our_log(table)).files_table()) for _ in range(5))
    board.add(f"open {count:,} transactions from the state (beside: plain replay by the standard library)", opened, replayed)
    board.add(f"  while all {count:,} version files are still there", uncleaned, replayed)
    board.add(f"  with all {10 * count:,} live files as columns, manifest cache warm", listed, replayed)
    least = 90 if count == 1_000 else 800
    board.judge(
        replayed / opened >= least, f"{count:,} transactions with checkpoint open at least {least}x faster ({replayed / opened:.0f}x)"
    )


def _clean_up(table: Path, count: int) -> None:
    """Simulate the passing of time: make the files older than `logRetention.duration`."""
    for path in (table / "_transaction_log").glob("0*.json"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    checkpoint.checkpoint(verbs.Checkpoint(), context(table))
    assert len(list((table / "_transaction_log").glob("0*.json"))) < 2 * RECENT
    assert len(read_all(our_log(table)).files) == 10 * count
