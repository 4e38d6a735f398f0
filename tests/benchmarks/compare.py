"""`make bench BASE=COMMIT`: compares this tree with an older commit. Both do the same work on copies of the same tables.

Only public names are called, so that any commit with these names can be compared. Each side has its own pins. Each round starts one process
per side, one after the other, and each figure is the minimum of all rounds: CPU time of the process with all threads, without its start.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables as it  # that of the side: its tree is the first entry of PYTHONPATH

ROUNDS = 5 if os.environ.get("QUICK", "") not in ("", "0") else 15
LIMIT = 1.05
VERSIONS = 2_000  # of the table with a long log
ADDS = 20_000  # in one commit of the wide table
ROWS = 20_000  # in each of the splits that are searched
SPLITS = 12
UNCACHED = {"transaction.cache.enabled": "false"}
COMMANDS = {"start": ["-c", "pass"], "import": ["-c", "import indextables"], "terminal --help": ["-m", "indextables", "--help"]}


def rows(count: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "level": [("INFO", "WARN", "ERROR")[n % 3] for n in numbers],
            "day": [f"2026-01-{n % 5 + 1:02d}" for n in numbers],
            "latency": [(n * 7919) % 10_007 / 10 for n in numbers],
            "message": [f"request {n} of user{n % 997} to host{n % 89} took {n % 1013} ms and was answered" for n in numbers],
        }
    )


def add(number: int) -> dict[str, Any]:
    day = f"2026-01-{number % 5 + 1:02d}"
    return {
        "add": {
            "path": f"day={day}/splits/split-{number:032x}.split",
            "partitionValues": {"day": day},
            "size": 100_000 + number,
            "modificationTime": 1_700_000_000_000 + number,
            "dataChange": True,
            "minValues": {"id": str(number), "level": "ERROR", "latency": "0.0"},
            "maxValues": {"id": str(number + 9), "level": "WARN", "latency": "999.9"},
            "numRecords": 10,
        }
    }


def make_tables(folder: Path) -> None:
    schema = rows(1).schema
    long = it.create(folder / "long", schema, partition_by=["day"], options={"checkpoint.enabled": "false"})
    for number in range(VERSIONS):
        long.log.commit([add(number)])
    wide = it.create(folder / "wide", schema, partition_by=["day"], options={"checkpoint.enabled": "false"})
    wide.log.commit([add(number) for number in range(ADDS)])
    shutil.copytree(folder / "wide", folder / "state")
    it.open(folder / "state").checkpoint()
    searched = it.create(folder / "searched", schema)
    small = it.create(folder / "small", schema, options={"checkpoint.enabled": "false"})
    for number in range(SPLITS):
        searched.append(rows(ROWS, number * ROWS))
        small.append(rows(2_000, number * 2_000))


class Side:
    """The figures of one process."""

    def __init__(self, tables: Path, scratch: Path) -> None:
        self.tables, self.scratch = tables, scratch
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[name] = min(self.seconds.get(name, float("inf")), time.process_time() - started)

    def copy(self, name: str) -> Path:
        target = Path(tempfile.mkdtemp(dir=self.scratch)) / name
        return Path(shutil.copytree(self.tables / name, target))

    def run(self) -> None:
        for work in (self.log, self.checkpoints, self.rows, self.maintenance):
            work()

    def log(self) -> None:
        for _ in range(2):
            with self.timed(f"open and count the files of {VERSIONS:,} versions"):
                table = it.open(self.tables / "long", options=UNCACHED)
                assert table.files().num_rows == VERSIONS
            with self.timed(f"open and count the files of one commit of {ADDS:,} adds"):
                table = it.open(self.tables / "wide", options=UNCACHED)
                assert table.files().num_rows == ADDS
            with self.timed(f"open and count the files of a state of {ADDS:,} files"):
                table = it.open(self.tables / "state", options=UNCACHED)
                assert table.files().num_rows == ADDS
            with self.timed("open with the cache"):
                it.open(self.tables / "state").files("day = '2026-01-01'")
            with self.timed("history"):
                assert table.history().num_rows
        writer, reader = it.open(self.copy("wide")), None
        reader = it.open(writer.path)
        writer.log.commit([add(ADDS)])
        reader.refresh()
        for number in range(10):
            with self.timed(f"commit one add to {ADDS:,} files"):
                writer.log.commit([add(ADDS + 1 + number)])
            with self.timed("refresh after one commit"):
                reader.refresh()
        fresh = it.create(self.copy("small").parent / "new", rows(1).schema, partition_by=["day"], options={"checkpoint.enabled": "false"})
        with self.timed("commit 5,000 adds at once"):
            fresh.log.commit([add(number) for number in range(5_000)])

    def checkpoints(self) -> None:
        table = it.open(self.copy("wide"))
        with self.timed(f"first checkpoint of {ADDS:,} files"):
            table.checkpoint()
        table.log.commit([add(ADDS)])
        with self.timed("next checkpoint, one file more"):
            table.checkpoint()

    def rows(self) -> None:
        table = it.open(self.tables / "searched")
        table.search("message:user5", limit=10)  # opens the splits
        works: dict[str, Callable[[], object]] = {
            "search, one word, 10 rows": lambda: table.search("message:user5", limit=10),
            "search with a filter": lambda: table.search("message:user5", where="level = 'ERROR' AND id > 1000", limit=10),
            "search ordered by a column": lambda: table.search("message:host7", order_by="latency", limit=10),
            "count with a range filter": lambda: table.count("latency >= 12.5 AND latency < 200"),
            "count one value": lambda: table.count("level = 'ERROR'"),
            "scan with a selective filter": lambda: table.scan("id = 54321").read_all(),
            "scan a range of one column": lambda: table.scan("latency < 100", ["id"]).read_all(),
            "scan all rows": lambda: table.scan().read_all(),
            "aggregate per value": lambda: table.aggregate({"n": ("count", "*"), "most": ("max", "latency")}, group_by=["level"]),
            "list the files that match": lambda: table.files("id > 100000"),
        }
        for name, work in works.items():
            for _ in range(3):
                with self.timed(name):
                    work()

    def maintenance(self) -> None:
        table = it.open(self.copy("small"))
        batch = rows(10_000, 1_000_000)
        for _ in range(2):
            with self.timed("append 10,000 rows"):
                table.append(batch)
        few = rows(10)
        for _ in range(3):
            with self.timed("append 10 rows"):
                table.append(few)
        with self.timed("plan a merge"):
            table.merge_splits("100M", dry_run=True)
        with self.timed(f"merge {SPLITS + 5} splits"):
            assert table.merge_splits("100M").status == "success"
        with self.timed("plan a purge"):
            table.purge("7d", dry_run=True)
        with self.timed("doctor"):
            table.doctor()


def commands() -> dict[str, float]:
    """The whole process counts here."""
    seconds = {}
    for name, arguments in COMMANDS.items():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-P", *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds[name] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds


def measure(tree: Path, tables: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"PYTHONPATH": str(tree)}
        line = [str(tree / ".venv/bin/python"), "-P", __file__, "--side", str(tree), str(tables), scratch]
        output = subprocess.run(line, env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd=tree).stdout
    return dict(json.loads(output))


def compare(base: str) -> bool:
    here = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        tree, tables = Path(folder) / "base", Path(folder) / "tables"
        subprocess.run(["git", "-C", str(here), "worktree", "add", "--quiet", "--detach", str(tree), base], check=True)
        try:
            subprocess.run(["make", "-C", str(tree), "install"], check=True, stdout=sys.stderr)  # its own pins
            make_tables(tables)
            best: list[dict[str, float]] = [{}, {}]
            for number in range(ROUNDS):
                for which, side in enumerate((tree, here)):
                    for name, seconds in measure(side, tables).items():
                        best[which][name] = min(seconds, best[which].get(name, float("inf")))
                print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
        finally:
            subprocess.run(["git", "-C", str(here), "worktree", "remove", "--force", str(tree)], check=True)
    print(f"{'CPU time in ms':<55}{base[:12]:>14}{'this tree':>12}{'ratio':>8}")
    slower = []
    for name, before in best[0].items():
        ratio = best[1][name] / before
        slower += [name] if ratio > LIMIT else []
        print(f"{name:<55}{before * 1000:>14.2f}{best[1][name] * 1000:>12.2f}{ratio:>8.2f}{'  slower' if ratio > LIMIT else ''}")
    print(f"{len(slower)} of {len(best[0])} figures are worse by more than {LIMIT - 1:.0%}")
    return not slower


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--side"]:
        tree, tables, scratch = map(Path, arguments[1:])
        assert Path(it.__file__).is_relative_to(tree), f"{it.__file__} is not of {tree}"
        side = Side(tables, scratch)
        side.run()
        print(json.dumps(side.seconds | commands()))
        return 0
    if len(arguments) != 1:
        print("usage: make bench BASE=COMMIT", file=sys.stderr)
        return 2
    return 0 if compare(arguments[0]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
