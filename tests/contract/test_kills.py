"""R2: eight writer processes are killed at random and restarted: no commit is lost, duplicated, skipped or torn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import indextables as it
from indextables.storage import StoreSpec
from tests.contract.conftest import spec_of
from tests.support.killed_writers import KilledWriters, committed_adds
from tests.support.s3 import Server
from tests.support.seeds import random_seed
from tests.support.tables import SCHEMA


def kill_and_check(spec: StoreSpec, folder: Path, commits: int, kills: int) -> tuple[int, int]:
    """Runs the writers, checks every commit, and returns the numbers of commits and kills."""
    options = {"s3.endpoint": spec.endpoint, "s3.region": spec.region}
    it.create(str(spec.root), SCHEMA, options=options)
    writers = KilledWriters(spec, folder, seed=random_seed())
    writers.run(commits, kills, seconds=240)
    told, made = writers.notes(), committed_adds(spec)
    print(f"R2: {len(made)} commits in {spec.root.scheme}, {len(told)} told, {writers.kills} kills, seed {writers.seed}")
    assert told.items() <= made.items(), "an acknowledged commit is missing or has another version"
    assert len(made) - len(told) <= writers.kills, "more commits than writers can have died between a commit and its note"
    assert writers.versions_seen == sorted(writers.versions_seen), "a reader saw the table go back"
    assert len(told) >= commits
    assert writers.kills >= kills
    table = it.open(str(spec.root), options=options)
    files = table.files()
    assert dict(zip(files.column("path").to_pylist(), files.column("added_at_version").to_pylist(), strict=True)) == made
    assert table.warnings == []
    assert table.log.commit([{"remove": {"path": next(iter(made)), "dataChange": True, "deletionTimestamp": 1}}]) == len(made) + 1
    return len(made), writers.kills


def in_tables(specs: Iterable[StoreSpec], folder: Path, commits: int, kills: int) -> tuple[int, int]:
    """Uses several tables: writers list and replay the log, which would dominate the time with a single long log."""
    sums = (0, 0)
    for number, spec in enumerate(specs):
        notes = folder / f"notes-{number}"
        notes.mkdir()
        made, killed = kill_and_check(spec, notes, commits, kills)
        sums = sums[0] + made, sums[1] + killed
        if spec.root.scheme == "file":
            left = [file for file in (folder / f"t{number}" / "_transaction_log").iterdir() if file.name.startswith(".tmp-")]
            assert len(left) <= killed  # unfinished files of killed writers, which readers ignored
    return sums


def on_disk(folder: Path, tables: int) -> Iterator[StoreSpec]:
    return (spec_of(str(folder / f"t{number}")) for number in range(tables))


def on_server(server: Server, tables: int) -> Iterator[StoreSpec]:
    return (spec_of(server.with_bucket().place(), **server.options) for _ in range(tables))


def test_writers_killed_on_local_disk(tmp_path: Path) -> None:
    commits, kills = in_tables(on_disk(tmp_path, 4), tmp_path, commits=250, kills=13)
    assert commits >= 1000
    assert kills >= 50


@pytest.mark.timeout(900)
def test_writers_killed_on_ministack(mini: Server, tmp_path: Path) -> None:
    """Most of the time is CPU of the writers: an S3 client takes 0.1 s to start, and each version that it reads is a request."""
    commits, kills = in_tables(on_server(mini, 4), tmp_path, commits=250, kills=13)
    assert commits >= 1000
    assert kills >= 50


def test_writers_killed_on_seaweedfs(weed: Server, tmp_path: Path) -> None:
    """A shorter run: writers that lose a race wait for a lock that is polled once a second."""
    commits, kills = in_tables(on_server(weed, 1), tmp_path, commits=24, kills=10)
    assert commits >= 24
    assert kills >= 10


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_commits(tmp_path: Path) -> None:
    commits, kills = in_tables(on_disk(tmp_path, 200), tmp_path, commits=500, kills=25)
    assert commits >= 100_000
    assert kills >= 5_000
