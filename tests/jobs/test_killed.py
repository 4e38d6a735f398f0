"""R18: a job that is killed at any point and retried leaves one commit, one purge or one checkpoint."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import indextables as it
from tests.support.killable_processes import KillableProcess, command
from tests.support.seeds import random_seed
from tests.support.spark import ROOT, environment, submit
from tests.support.tables import ids, make, rows, version_file

CLI = "indextables"
KILLS = 10
WITHOUT_RETENTION = ("--older-than", "0s", "--option", "purge.retentionCheckEnabled=false")


def source(path: Path, number: int, count: int = 30) -> Path:
    """The rows of one write: ids from `number` times a thousand."""
    file = path / f"{number}.jsonl"
    file.write_text("".join(json.dumps({"id": number * 1000 + n, "message": f"row {n} of {number}"}) + "\n" for n in range(count)))
    return file


def written(number: int, count: int = 30) -> list[int]:
    return list(range(number * 1000, number * 1000 + count))


def splits(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.rglob("*.split")}


def live(table: Path) -> set[str]:
    return set(it.open(table).files().column("path").to_pylist())


def check_one_commit_each(table: Path, numbers: range) -> None:
    """One version per write, with its rows and its txn; no row twice."""
    fresh = it.open(table)
    assert fresh.version == numbers.stop
    for number in numbers:
        txns = [action["txn"]["version"] for action in fresh.log.actions(number + 1) if "txn" in action]
        assert txns == [number]
        assert ids(it.open(table, number + 1)) == [n for earlier in range(number + 1) for n in written(earlier)]


def test_r18_an_append_that_is_killed_and_retried_is_one_commit(tmp_path: Path) -> None:
    """Ten kills: at random moments, once the split is written, and right after the commit, before the process reports it."""
    table, seed = tmp_path / "t", random_seed()
    chance = random.Random(seed)

    def attempt(number: int) -> KillableProcess:
        return command(CLI, "append", table, source(tmp_path, number), "--create", "--txn-app", "nightly", "--txn-version", number)

    first, started = attempt(0), time.monotonic()
    assert first.result() == 0
    span, kills, committed, number = time.monotonic() - started, 0, 0, 0
    while kills < KILLS or splits(table) == live(table):
        number += 1
        assert number <= 3 * KILLS, f"seed {seed}: {kills} kills, and none between split and commit"
        version, before = version_file(table, number + 1), splits(table)
        moments: list[tuple[float, Callable[[], bool]]] = [
            (chance.uniform(0, span), lambda: True),
            (0, lambda before=before: splits(table) != before),
            (0, version.exists),
        ]
        for after, once in moments:
            kills += attempt(number).kill(after, once)
            committed += version.exists()
        assert attempt(number).result() == 0
        assert it.open(table).version == number + 1, f"seed {seed}"
    check_one_commit_each(table, range(number + 1))
    orphans = splits(table) - live(table)
    print(f"seed {seed}: {kills} kills in {number} appends, {committed} attempts died after their commit, {len(orphans)} splits were left")
    assert committed >= number, "the last attempt of each was killed after its commit"
    assert it.open(table, options={"purge.retentionCheckEnabled": "false"}).purge("0s").metrics["files_deleted"] == len(orphans)
    assert splits(table) == live(table)
    check_one_commit_each(table, range(number + 1))


def test_r18_a_checkpoint_and_a_purge_that_are_killed_and_retried_are_done_once(tmp_path: Path) -> None:
    """Ten kills: the rows can be read at any moment, and the final state is that of jobs that were not killed."""
    table, seed = tmp_path / "t", random_seed()
    chance = random.Random(seed)
    make(table, 4, **{"checkpoint.enabled": "false", "state.format": "json", "checkpoint.actionsPerPart": "3"})
    it.open(table).overwrite(rows(100, 40))
    newest, kills = 5, 0
    for job, options in (("checkpoint", ()), ("purge", WITHOUT_RETENTION)):
        started = time.monotonic()
        for _ in range(KILLS // 2):
            kills += command(job, "--table", table, *options).kill(chance.uniform(0, 0.05))
            assert ids(it.open(table)) == list(range(100, 140)), f"seed {seed}"
        assert command(job, "--table", table, *options).result() == 0
        print(f"seed {seed}: {job}, {kills} kills, {time.monotonic() - started:.1f} s")
    fresh = it.open(table)
    assert fresh.version - newest in (0, 1), "at most the protocol was raised, once"
    assert (ids(fresh), splits(table)) == (list(range(100, 140)), live(table))
    assert json.loads((table / "_transaction_log" / "_last_checkpoint").read_text())["version"] == fresh.version
    assert [finding.code for finding in fresh.doctor()] == []
    assert kills >= KILLS // 2


@pytest.mark.spark
@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_r18_a_write_job_on_spark_that_is_killed_and_retried_is_one_commit(tmp_path: Path, kills: int) -> None:
    """With real Spark: killed at some time between its first split and shortly after its commit."""
    table, seed = tmp_path / "t", random_seed()
    chance, killed = random.Random(seed), 0
    for number in range(kills):
        arguments = ["--table", table, "--source", source(tmp_path, number), "--txn-app", "nightly", "--txn-version", number]
        before = splits(table)
        command = ["spark-submit", "--master", "local[2,4]", str(ROOT / "jobs" / "write.py"), *map(str, arguments)]
        with subprocess.Popen(
            command, env=environment(), cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as job:
            while splits(table) == before and job.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.3))
            killed += job.poll() is None
            os.killpg(job.pid, signal.SIGKILL)
        done = submit("write.py", *arguments, cwd=tmp_path)
        assert done.code == 0, done.stderr
        assert done.report["status"] in ("success", "no_action")
    check_one_commit_each(table, range(kills))
    print(f"seed {seed}: {killed} kills of {kills} write jobs on Spark, {len(splits(table) - live(table))} splits were left")
    assert killed == kills
