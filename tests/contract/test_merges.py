"""Merges by several processes at once, with concurrent overwrites, and killed: no row is lost or duplicated.

On local disk and on an S3 server.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

import indextables as it
from indextables.storage.file_cache import FileCache
from tests.support.killable_processes import merger
from tests.support.racing import light_processes
from tests.support.s3 import Server
from tests.support.seeds import random_seed
from tests.support.tables import SCHEMA, ids, rows

PLACES = ["local", "ministack"]
DAYS = 3


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A location for a new table, and the options to reach it."""
    if request.param == "local":
        return str(tmp_path / "t"), {}
    server: Server = request.getfixturevalue("mini")
    return server.place(), server.options


def filled(place: str, options: dict[str, str], appends: int = 2, each: int = 40) -> it.Table:
    table = it.create(place, SCHEMA, partition_by=["date"], options=options)
    for number in range(appends):
        table.append(rows(number * each, each, days=DAYS))
    return table


def test_concurrent_mergers_never_duplicate_rows(place: tuple[str, dict[str, str]]) -> None:
    """If two merges have the same sources, one is committed and the other one's result is dropped."""
    path, options = place
    outcomes = []
    for number in range(2):
        here = f"{path}-{number}"
        filled(here, options)
        start = light_processes().Barrier(2)
        mergers = [merger(here, options, start) for _ in range(2)]
        for process in mergers:
            process.begin()
        found = [process.result() for process in mergers]
        table = it.open(here, options=options)
        assert ids(table) == list(range(80))
        assert table.files().num_rows == DAYS
        statuses = sorted(status for status, _, _ in found)
        assert "success" in statuses
        outcomes.append(statuses)
        for status, _, texts in found:
            if status == "ConcurrentConflict":
                assert "not referenced by any version; purge will delete" in texts[0], "the loser says what it leaves behind"
    print("two mergers at once:", outcomes)
    assert ["ConcurrentConflict", "success"] in outcomes, "they met at least once"


def test_an_overwrite_during_a_merge_never_restores_rows(place: tuple[str, dict[str, str]]) -> None:
    """Whenever the overwrite happens, the table contains what it wrote."""
    path, options = place
    seed = random_seed()
    chance = random.Random(seed)
    lost = 0
    for number in range(3):
        here = f"{path}-{number}"
        table = filled(here, options)
        process = merger(here, options)
        process.begin()
        time.sleep(chance.uniform(0, 0.2))
        table.overwrite(rows(1000, 7))
        status, _, _ = process.result()
        lost += status == "ConcurrentConflict"
        assert ids(it.open(here, options=options)) == list(range(1000, 1007)), f"seed {seed}"
    print(f"seed {seed}: 3 overwrites during merges, {lost} of which the merge lost to")
    assert lost >= 1


def test_appends_during_merges_are_kept(place: tuple[str, dict[str, str]]) -> None:
    """A retried commit is based on the newer version, so another writer's files are kept."""
    path, options = place
    table = filled(path, {**options, "checkpoint.interval": "3"})
    process = merger(path, {**options, "merge.batchSize": "1"})
    process.begin()
    for number in range(6):
        table.append(rows(500 + number, 1))
    status, version, _ = process.result()
    fresh = it.open(path, options=options)
    assert (status, ids(fresh)) == ("success", [*range(80), *range(500, 506)])
    assert version is not None
    assert fresh.version >= 2 + 6 + DAYS


def test_a_killed_merger_does_not_change_rows(place: tuple[str, dict[str, str]]) -> None:
    """SIGKILL at random moments of a merge of three batches: rows and answers stay, and the next merge goes on with what is left.

    The last is killed right after its first commit.
    """
    path, options = place
    table = filled(path, options)
    before = table.scan().read_all().sort_by("id")
    found = sorted(table.search("refused", limit=1000).column("id").to_pylist())
    seed = random_seed()
    chance = random.Random(seed)
    kills = 0
    for last in (False, False, False, True):
        process = merger(path, {**options, "merge.batchSize": "1"})
        process.begin()
        table = it.open(path, options=options)
        while last and table.refresh().version == 2:
            time.sleep(0.002)
        kills += process.kill(chance.uniform(0, 0.02 if last else 0.6))
        table = it.open(path, options=options)
        assert table.scan().read_all().sort_by("id").equals(before), f"seed {seed}"
        assert sorted(table.search("refused", limit=1000).column("id").to_pylist()) == found, f"seed {seed}"
    print(f"seed {seed}: {kills} kills, the last at version {table.version} with {table.files().num_rows} splits")
    assert table.version >= 3
    assert table.files().num_rows < 2 * DAYS
    assert it.open(path, options=options).merge_splits().status in ("success", "no_action")
    table = it.open(path, options=options)
    assert kills >= 3
    assert table.files().num_rows == DAYS
    assert table.scan().read_all().sort_by("id").equals(before)
    assert table.verify(deep=True) == []


def test_sources_evicted_from_the_cache_are_still_merged(mini: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may be larger than the cache of splits: each fetched split evicts others, which the merge holds under another name."""
    path, options = mini.place(), mini.options
    filled(path, options, appends=4)
    driven_out = []

    def evict(self: FileCache, keep: Path) -> None:
        for file in self.folder.glob("??/*.split"):
            with suppress(FileNotFoundError):  # a merge beside this one was faster
                if file.stat().st_nlink > 1:
                    file.unlink()
                    driven_out.append(file)

    monkeypatch.setattr(FileCache, "_evict", evict)
    report = it.open(path, options=options).merge_splits()
    monkeypatch.undo()
    assert (report.status, report.metrics["files_removed"]) == ("success", 4 * DAYS)
    assert len(driven_out) >= DAYS
    assert ids(it.open(path, options=options)) == list(range(160))
