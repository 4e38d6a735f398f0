"""Many processes share a table: one winner per version, nothing lost, doubled or torn (CON-06, R1, R2 as far as the road goes)."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.actions import Add
from indextables.clock import Clock
from indextables.config import Config
from indextables.log.log import TransactionLog
from indextables.operations import write
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from indextables.table.snapshot import Snapshot, load_snapshot
from indextables.table.transaction import Draft, transact
from tests.support.tables import SCHEMA, FakeTime, ids, make, rows, write_version

WRITERS = 8
COMMITS = 12


def commit_many(root: str, writer: int, commits: int) -> list[int]:
    """Appends of one small add each, through the real transaction loop."""
    log = TransactionLog(LocalStore(TableRoot(root)))
    config = Config.of(
        {"transaction.retry.maxAttempts": "1000", "transaction.retry.baseDelayMs": "2", "transaction.retry.maxDelayMs": "20"}
    )
    made = []
    base = load_snapshot(log)
    for number in range(commits):
        add = Add(path=f"w{writer}-{number}.split", partition_values={}, size=1, modification_time=0, data_change=True, num_records=1)
        outcome = transact(log, base, "append", lambda _, add=add: Draft([add]), config=config, clock=Clock())
        base = outcome.snapshot
        assert outcome.version is not None
        made.append(outcome.version)
    return made


def test_eight_processes_race_for_versions(tmp_path: Path) -> None:
    make(tmp_path / "t")
    with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
        made = pool.starmap(commit_many, [(str(tmp_path / "t"), writer, COMMITS) for writer in range(WRITERS)])
    assert sorted(version for versions in made for version in versions) == list(range(1, WRITERS * COMMITS + 1))
    table = it.open(tmp_path / "t")
    expected = {f"w{writer}-{number}.split": made[writer][number] for writer in range(WRITERS) for number in range(COMMITS)}
    files = table.files()
    assert dict(zip(files.column("path").to_pylist(), files.column("added_at_version").to_pylist(), strict=True)) == expected
    assert [p.name for p in (tmp_path / "t" / "_transaction_log").iterdir() if p.name.startswith(".tmp-")] == []


def commit_until_killed(root: str, writer: int, acknowledged: str) -> None:
    """Writes down each commit it was told of, after it was told."""
    for number in range(10_000):
        commit_many_one(root, f"w{writer}-{os.getpid()}-{number}", acknowledged)


def commit_many_one(root: str, name: str, acknowledged: str) -> None:
    log = TransactionLog(LocalStore(TableRoot(root)))
    config = Config.of(
        {"transaction.retry.maxAttempts": "1000", "transaction.retry.baseDelayMs": "1", "transaction.retry.maxDelayMs": "10"}
    )
    add = Add(path=f"{name}.split", partition_values={}, size=1, modification_time=0, data_change=True, num_records=1)
    outcome = transact(log, load_snapshot(log), "append", lambda _: Draft([add]), config=config, clock=Clock())
    with open(acknowledged, "a") as file:
        file.write(f"{outcome.version} {name}.split\n")


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    make(tmp_path / "t")
    spawn = multiprocessing.get_context("spawn")
    chance = random.Random(7)
    kills = 0
    notes = [tmp_path / f"acknowledged-{writer}" for writer in range(4)]
    for _round in range(3):
        children = [spawn.Process(target=commit_until_killed, args=(str(tmp_path / "t"), w, str(notes[w]))) for w in range(4)]
        for child in children:
            child.start()
        deadline = time.monotonic() + 30
        while sum(note.stat().st_size for note in notes if note.exists()) < 400 * (_round + 1) and time.monotonic() < deadline:
            time.sleep(0.05)
        for child in chance.sample(children, 4):
            time.sleep(chance.uniform(0, 0.05))
            os.kill(child.pid, signal.SIGKILL)
            kills += 1
            child.join()
    assert kills == 12
    table = it.open(tmp_path / "t")
    assert table.warnings == []
    files = table.files()
    live = dict(zip(files.column("path").to_pylist(), files.column("added_at_version").to_pylist(), strict=True))
    told = [line.split() for note in notes if note.exists() for line in note.read_text().splitlines()]
    assert len(told) > 30
    assert all(live[path] == int(version) for version, path in told)
    assert sorted(live.values()) == list(range(1, table.version + 1))
    commit_many_one(str(tmp_path / "t"), "after", str(notes[0]))
    assert it.open(tmp_path / "t").version == table.version + 1


def racing(path: Path, wins: int) -> tuple[TableContext, FakeTime]:
    """A context whose log lets another writer be faster `wins` times."""
    time = FakeTime()
    context = TableContext.at(path, clock=time.clock())
    write, left = context.log.write, [wins]

    def slower(version: int, actions: object, *, compress: bool = True) -> bool:
        if left[0]:
            left[0] -= 1
            write_version(path, version, {"commitInfo": {"id": "other", "timestamp": 1, "operation": "append"}})
        return write(version, actions, compress=compress)

    context.log.write = slower  # type: ignore[method-assign]
    return context, time


def empty_add(_: Snapshot) -> Draft:
    return Draft([Add(path="mine.split", partition_values={}, size=1, modification_time=0, data_change=True)])


def test_a_loser_retries_on_the_new_base_with_growing_pauses(tmp_path: Path) -> None:
    make(tmp_path / "t")
    context, clock = racing(tmp_path / "t", 5)
    outcome = transact(context.log, context.snapshot(), "append", empty_add, config=context.config, clock=context.clock)
    assert outcome.version == 6
    assert len(clock.slept) == 5
    assert all(0 <= pause <= min(0.1 * 2**n, 5) for n, pause in enumerate(clock.slept))


def test_it_gives_up_after_the_attempts_allowed(tmp_path: Path) -> None:
    make(tmp_path / "t")
    context, clock = racing(tmp_path / "t", 10)
    with pytest.raises(it.ConcurrentConflict, match="10 times") as caught:
        transact(context.log, context.snapshot(), "append", empty_add, config=context.config, clock=context.clock)
    assert caught.value.retryable
    assert caught.value.exit_code == 75
    assert len(context.snapshot().files) == 0
    assert max(clock.slept) <= 5


def test_overwrite_rebuilds_on_the_new_base(tmp_path: Path) -> None:
    """An append that was faster is replaced too: the table holds what the last commit says."""
    stale = make(tmp_path / "t", appends=1)
    it.open(tmp_path / "t").append(rows(10, 10))
    report = stale.overwrite(rows(100, 3))
    assert report.base_version == 2
    assert ids(it.open(tmp_path / "t")) == [100, 101, 102]


def test_a_commit_that_the_store_made_before_it_failed_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the caller, told to try again, would double the rows."""
    table = make(tmp_path / "t")
    real = os.link

    def link(source: object, target: object) -> None:
        real(source, target)
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "link", link)
    report = table.append(rows(0, 3))
    assert (report.status, report.version) == ("success", 1)
    monkeypatch.undo()
    assert ids(it.open(tmp_path / "t")) == [0, 1, 2]


def test_a_commit_whose_fate_cannot_be_read_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")

    def link(source: object, target: object) -> None:
        Path(str(target)).write_bytes(b"half")
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(it.CommitUnknown, match="version 1 may have been written"):
        table.append(rows(0, 3))


def test_what_others_commit_next_neither_fails_nor_shows_in_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after the commit would make callers repeat it; and a handle is left at what it committed."""
    table = make(tmp_path / "t")
    real = TransactionLog.write

    def write(self: TransactionLog, version: int, actions: Any, *, compress: bool = True) -> bool:
        made = real(self, version, actions, compress=compress)
        write_version(tmp_path / "t", version + 1, {"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}})
        return made

    monkeypatch.setattr(TransactionLog, "write", write)
    report = table.append(rows(0, 3))
    assert (report.status, report.version, table.version) == ("success", 1, 1)


@pytest.mark.parametrize("missed", [1, 4])
def test_a_number_that_has_expired_is_not_used_again(tmp_path: Path, missed: int) -> None:
    """A writer on an old base finds its version's name free, since purge deleted that file: what it wrote there no one would see."""
    table = make(tmp_path / "t")
    context = TableContext.at(tmp_path / "t")
    late = write.prepare(context)
    adds = late.task.write(iter([pa.RecordBatch.from_pylist(rows(100, 3), schema=SCHEMA)]))
    for number in range(missed + 1):
        table.append(rows(number, 1))
    table.checkpoint()
    time.sleep(0.002)
    assert table.purge(log_retention="0s").metrics["versions_deleted"] == missed
    report, snapshot = write.commit(late, adds)
    assert report.version == snapshot.version == missed + 2
    assert ids(it.open(tmp_path / "t")) == [*range(missed + 1), 100, 101, 102]
    assert sorted(os.listdir(tmp_path / "t" / "_transaction_log"))[1:] == [
        f"{missed + 1:020d}.checkpoint.json",
        f"{missed + 1:020d}.json",
        f"{missed + 2:020d}.json",
        "_last_checkpoint",
    ]


def test_a_commit_behind_which_a_checkpoint_came_at_once_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sight as above, but the number was ours: the rows must not be written twice."""
    table = make(tmp_path / "t", appends=1)
    real = TransactionLog.write

    def write_and_be_overtaken(self: TransactionLog, version: int, actions: Any, *, compress: bool = True) -> bool:
        made = real(self, version, actions, compress=compress)
        monkeypatch.undo()
        other = it.open(tmp_path / "t")
        other.append(rows(50, 1))
        other.merge_splits()
        other.checkpoint()
        return made

    monkeypatch.setattr(TransactionLog, "write", write_and_be_overtaken)
    assert table.append(rows(10, 3)).version == 2
    assert ids(it.open(tmp_path / "t")) == [*range(13), 50]


def test_a_commit_without_splits_is_never_taken_back_on_a_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", appends=1)
    real = TransactionLog.write

    def write_and_be_overtaken(self: TransactionLog, version: int, actions: Any, *, compress: bool = True) -> bool:
        made = real(self, version, actions, compress=compress)
        monkeypatch.undo()
        other = it.open(tmp_path / "t")
        other.append(rows(50, 1))
        other.checkpoint()
        return made

    monkeypatch.setattr(TransactionLog, "write", write_and_be_overtaken)
    with pytest.raises(it.CommitUnknown, match="version 2"):
        table.overwrite([])
    assert ids(it.open(tmp_path / "t")) == [50]
    assert it.open(tmp_path / "t", 2).count() == 0
