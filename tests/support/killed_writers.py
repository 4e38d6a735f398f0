"""R2: writer processes that commit until they are killed, and a check of the log that they leave.

It imports only what a commit needs, so that processes start fast.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indextables.actions import Add, CommitInfo
from indextables.clock import Clock
from indextables.config import Config
from indextables.log.log import TransactionLog
from indextables.storage import StoreSpec, open_store
from indextables.table.opening import load_snapshot
from indextables.table.transaction import Draft, transact
from tests.support.racing import light_processes

WRITERS = 8
EAGER = {"transaction.retry.maxAttempts": "1000", "transaction.retry.baseDelayMs": "10", "transaction.retry.maxDelayMs": "200"}
LINE = 48  # bytes of a line in the notes


def note(version: int, path: str) -> bytes:
    return f"{version:08d} {path}".ljust(LINE - 1).encode() + b"\n"


def commits(spec: StoreSpec, name: str) -> Iterator[tuple[int, str]]:
    """Appends one small add after the other through the real transaction loop. Yields version and path of each commit."""
    log = TransactionLog(open_store(spec))
    config = Config.of(EAGER)
    base = load_snapshot(log)
    for number in itertools.count():
        add = Add(path=f"{name}-{number}.split", partition_values={}, size=1, modification_time=0, data_change=True, num_records=1)
        outcome = transact(log, base, "append", lambda _, add=add: Draft([add]), config=config, clock=Clock())
        assert outcome.version is not None
        base = outcome.snapshot
        yield outcome.version, add.path


def commit_many(spec: StoreSpec, writer: int, count: int) -> list[int]:
    return [version for version, _ in itertools.islice(commits(spec, f"w{writer}"), count)]


def commit_until_killed(spec: StoreSpec, name: str, notes: Path, environment: dict[str, str]) -> None:
    """Commits, and appends one line to `notes` after each acknowledged commit."""
    os.environ.update(environment)
    with open(notes, "ab", buffering=0) as file:
        for version, path in commits(spec, name):
            file.write(note(version, path))


@dataclass
class KilledWriters:
    """Eight processes write to one table. One after the other is killed at a random moment and replaced."""

    spec: StoreSpec
    folder: Path  # for the notes
    seed: int
    kills: int = 0
    versions_seen: list[int] = field(default_factory=list)
    _processes: list[Any] = field(default_factory=list)

    def run(self, commits: int, kills: int, seconds: float) -> None:
        """Runs until there are this many commits and kills, counting the final kill of all writers.

        Between two kills there is a random number of commits and a random pause.
        """
        chance = random.Random(self.seed)
        until = time.monotonic() + seconds
        self._processes = [self._start(writer) for writer in range(WRITERS)]
        try:
            while self.acknowledged() < commits or self.kills + WRITERS < kills:
                self._wait(min(commits, self.acknowledged() + chance.randint(0, 2 * commits // kills)), until)
                time.sleep(chance.uniform(0, 0.02))
                victim = chance.randrange(WRITERS)
                self._kill(victim)
                self.versions_seen.append(load_snapshot(TransactionLog(open_store(self.spec))).version)
                self._processes[victim] = self._start(victim)
        finally:
            for writer in range(WRITERS):
                self._kill(writer)

    def acknowledged(self) -> int:
        return sum(file.stat().st_size for file in self.folder.iterdir()) // LINE

    def notes(self) -> dict[str, int]:
        """Path and version of every acknowledged commit."""
        lines = [line.split() for file in self.folder.iterdir() for line in file.read_text().splitlines()]
        found = {path: int(version) for version, path in lines}
        assert len(found) == len(lines)
        return found

    def _start(self, writer: int) -> Any:
        name = f"w{writer}-{self.kills}"
        arguments = (self.spec, name, self.folder / f"notes-{writer}", dict(os.environ))
        process = light_processes().Process(target=commit_until_killed, args=arguments, name=name, daemon=True)
        process.start()
        return process

    def _kill(self, writer: int) -> None:
        process = self._processes[writer]
        assert process.exitcode is None, f"{process.name} ended by itself with {process.exitcode}"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        self.kills += 1

    def _wait(self, count: int, until: float) -> None:
        while self.acknowledged() < count:
            assert time.monotonic() < until, f"{self.acknowledged()} commits and {self.kills} kills are too few, seed {self.seed}"
            time.sleep(0.005)


def committed_adds(spec: StoreSpec) -> dict[str, int]:
    """Path and version of every add in the log. Fails if a version is missing, damaged or empty, or an add occurs twice."""
    log = TransactionLog(open_store(spec))
    listing = log.listing()
    assert list(listing.versions) == list(range(len(listing.versions)))
    found: dict[str, int] = {}
    commit_ids: set[str | None] = set()
    for file in log.read_many(listing.versions[1:]):
        (info,) = [action for action in file.actions if isinstance(action, CommitInfo)]
        (add,) = [action for action in file.actions if isinstance(action, Add)]
        assert add.path not in found, f"{add.path} is in versions {found[add.path]} and {file.version}"
        assert info.id not in commit_ids
        found[add.path] = file.version
        commit_ids.add(info.id)
    return found
