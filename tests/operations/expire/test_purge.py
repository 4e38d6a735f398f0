"""Purge against a model of the folder: live, retained, young and foreign files stay; all other files are deleted (R10)."""

from __future__ import annotations

import argparse
import inspect
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import indextables as it
from indextables import limits
from indextables.api import create_table, open_table
from indextables.clock import iso_ms
from indextables.command_line import add_arguments
from indextables.operations import verbs
from indextables.operations.request import Interface
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.tables import SCHEMA, FakeTime, ids, make, rows, tree, version_file

DAY = 86_400_000


@pytest.fixture(autouse=True)
def json_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests hold for every format, but look for files of JSON checkpoints."""
    monkeypatch.setenv("INDEXTABLES_STATE_FORMAT", "json")


def splits_on_disk(table: Path) -> set[str]:
    return {str(p.relative_to(table)) for p in table.rglob("*.split") if not p.is_symlink()}


def touch(path: Path, ms: int) -> None:
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


class Model:
    """A table on a simulated clock, with a record of every split ever written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.time = FakeTime()
        self.table = create_table(path, SCHEMA, partition_by=["date"], clock=self.time.clock())
        self.created: dict[str, int] = {}
        self.removed: dict[str, int] = {}
        self.orphans: set[str] = set()
        self.next_id = 0
        self.expected: list[int] = []
        self.foreign = [path / "notes.txt", path / "date=2024-01-01" / "splits" / "mine.split", path / "part-0001.split"]

    def live(self) -> set[str]:
        return set(open_table(self.path).files().column("path").to_pylist())

    def step(self, word: str) -> None:
        before = self.live()
        if word == "append":
            self.table.append(rows(self.next_id, 3))
            self.expected += range(self.next_id, self.next_id + 3)
            self.next_id += 3
        elif word == "merge":
            self.table.merge_splits()
        elif word == "overwrite":
            self.table.overwrite(rows(self.next_id, 2))
            self.expected = [self.next_id, self.next_id + 1]
            self.next_id += 2
        elif word == "checkpoint":
            self.table.checkpoint()
        elif word == "orphan" and before:
            source = self.path / sorted(before)[0]
            name = f"split-00000000-0000-4000-8000-{len(self.orphans):012d}.split"
            shutil.copy(source, source.parent / name)
            path = str((source.parent / name).relative_to(self.path))
            self.orphans.add(path)
            self.created[path] = self.time.ms
            touch(self.path / path, self.time.ms)
        elif word == "day":
            self.time.pass_days(1)
        self._note(before)

    def _note(self, before: set[str]) -> None:
        now = self.live()
        for path in now - before:
            self.created[path] = self.time.ms
            touch(self.path / path, self.time.ms)
        for path in before - now:
            self.removed[path] = self.time.ms

    def purge(self, days: int) -> None:
        for file in self.foreign:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x")
            touch(file, DAY)
        disk = splits_on_disk(self.path)
        cutoff = self.time.ms - days * DAY
        dead = {p for p in disk & set(self.removed) if max(self.removed[p], self.created[p]) <= cutoff} - self.live()
        dead |= {p for p in disk & self.orphans if self.created[p] <= cutoff}
        dry = self.table.purge(older_than=f"{days}d", log_retention="30d", dry_run=True)
        assert splits_on_disk(self.path) == disk
        assert {step["path"] for step in dry.to_dict()["plan"] if step["kind"] == "split"} == dead
        report = self.table.purge(older_than=f"{days}d", log_retention="30d")
        assert splits_on_disk(self.path) == disk - dead
        assert report.metrics["files_deleted"] == len(dead)
        assert all(file.exists() for file in self.foreign)


WORDS = st.lists(st.sampled_from(["append", "append", "merge", "overwrite", "checkpoint", "orphan", "day", "day"]), min_size=3, max_size=12)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(WORDS, st.integers(1, 4))
def test_purge_against_the_model(tmp_path_factory: pytest.TempPathFactory, words: list[str], days: int) -> None:
    model = Model(tmp_path_factory.mktemp("purge") / "t")
    for word in words:
        model.step(word)
    model.purge(days)
    assert ids(open_table(model.path)) == model.expected
    model.purge(days)


def aged(tmp_path: Path) -> tuple[it.Table, FakeTime]:
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, clock=time.clock())
    for number in range(6):
        table.append(rows(number, 1))
        time.pass_days(10)
    return table, time


def versions(table: Path) -> list[int]:
    return sorted(int(p.name[:20]) for p in (table / "_transaction_log").iterdir() if len(p.name) == 25)


def test_versions_expire_only_before_a_checkpoint(tmp_path: Path) -> None:
    table, time = aged(tmp_path)
    assert table.purge(log_retention="1d").metrics["versions_deleted"] == 0
    table.checkpoint()
    time.pass_days(40)
    report = table.purge(log_retention="30d")
    assert report.metrics["versions_deleted"] == 5
    assert versions(tmp_path / "t") == [0, 6]
    assert ids(it.open(tmp_path / "t")) == list(range(6))
    assert [entry["version"] for entry in table.history().to_pylist()] == [6, 0]
    with pytest.raises(it.VersionNotFound, match="expired"):
        it.open(tmp_path / "t", 3)
    table.append(rows(6, 1))
    assert ids(it.open(tmp_path / "t")) == list(range(7))
    assert [entry["version"] for entry in table.history().to_pylist()] == [7, 6, 0]


def test_a_retained_version_keeps_its_base_and_tail(tmp_path: Path) -> None:
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, clock=time.clock(), options={"cleanup.enabled": "false"})
    for number in range(8):
        time.pass_days(10)
        table.append(rows(number, 1))
        if number in (1, 3, 7):
            table.checkpoint()
            touch(tmp_path / "t" / "_transaction_log" / f"{number + 1:020d}.checkpoint.json", time.ms)
    table.purge(log_retention="35d")  # versions 5 … 8 are younger; their base is checkpoint 4
    assert versions(tmp_path / "t") == [0, 4, 5, 6, 7, 8]
    assert sorted(p.name[:20] for p in (tmp_path / "t" / "_transaction_log").glob("*.checkpoint.json")) == [f"{4:020d}", f"{8:020d}"]
    for version in (4, 5, 6, 7, 8):
        assert ids(it.open(tmp_path / "t", version)) == list(range(version))


def test_a_broken_checkpoint_is_no_base(tmp_path: Path) -> None:
    table, time = aged(tmp_path)
    table.checkpoint()
    (tmp_path / "t" / "_transaction_log" / f"{6:020d}.checkpoint.json").write_bytes(b"broken")
    time.pass_days(100)
    assert table.purge(log_retention="1d").metrics["versions_deleted"] == 0
    assert ids(it.open(tmp_path / "t")) == list(range(6))


def test_a_recently_removed_split_is_kept(tmp_path: Path) -> None:
    """A split that was written long ago and merged a minute ago is still needed."""
    table, time = aged(tmp_path)
    table.merge_splits()
    for path in splits_on_disk(tmp_path / "t"):
        touch(tmp_path / "t" / path, DAY)
    assert table.purge(older_than="7d").status == "no_action"
    time.pass_days(8)
    assert table.purge(older_than="7d").metrics["files_deleted"] == 6


def test_young_orphans_are_kept_unless_the_check_is_disabled(tmp_path: Path) -> None:
    """A writer that has not committed yet must not lose its split."""
    table = make(tmp_path / "t", appends=1, partition_by=[])
    (live,) = splits_on_disk(tmp_path / "t")
    orphan = tmp_path / "t" / "splits" / "split-00000000-0000-4000-8000-000000000000.split"
    shutil.copy(tmp_path / "t" / live, orphan)
    assert table.purge(older_than="1d").status == "no_action"
    report = it.open(tmp_path / "t", options={"purge.retentionCheckEnabled": "false"}).purge(older_than="0s")
    assert report.metrics["files_deleted"] == 1
    assert not orphan.exists()
    assert ids(table) == list(range(10))


def test_an_orphan_may_have_been_removed_by_an_expired_version(tmp_path: Path) -> None:
    """The removal counts from the oldest retained version."""
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, clock=time.clock())
    for number in range(3):
        table.append(rows(number, 1))
        time.pass_days(1)
    table.merge_splits()
    table.checkpoint()
    for path in splits_on_disk(tmp_path / "t"):
        touch(tmp_path / "t" / path, DAY)
    for version in (1, 2, 3):
        version_file(tmp_path / "t", version).unlink()
    removal = version_file(tmp_path / "t", 4)
    removal.rename(tmp_path / "kept")
    time.pass_days(3)
    table = open_table(tmp_path / "t", clock=time.clock())
    table.append(rows(9, 1))
    for path in splits_on_disk(tmp_path / "t"):
        touch(tmp_path / "t" / path, DAY)
    time.pass_days(5)
    assert table.purge(older_than="7d").status == "no_action"
    time.pass_days(3)
    assert table.purge(older_than="7d").metrics["files_deleted"] == 3
    assert ids(table) == [0, 1, 2, 9]


def test_a_removal_in_deleted_versions_may_be_recent(tmp_path: Path) -> None:
    """Other programs delete every version file up to a checkpoint. Then the age is unknown and the file is kept."""
    table = make(tmp_path / "t", appends=3, partition_by=[])
    table.merge_splits()
    table.checkpoint()
    for path in splits_on_disk(tmp_path / "t"):
        touch(tmp_path / "t" / path, DAY)
    for version in (1, 2, 3, 4):
        version_file(tmp_path / "t", version).unlink()
    assert table.purge(older_than="7d").status == "no_action"


def test_a_nested_table_is_foreign(tmp_path: Path) -> None:
    outer = make(tmp_path / "t", appends=1, partition_by=[])
    inner = make(tmp_path / "t" / "env=prod", appends=2, partition_by=[])
    for path in splits_on_disk(tmp_path / "t"):
        touch(tmp_path / "t" / path, DAY)
    before = tree(tmp_path)
    assert outer.purge(older_than="1d").status == "no_action"
    assert tree(tmp_path) == before
    assert ids(inner) == list(range(20))


def test_splits_with_foreign_names_are_deleted_only_if_the_log_removed_them(tmp_path: Path) -> None:
    """LOG-13: a table written by another program has splits with other names. Files that are no splits are never deleted."""
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, partition_by=["date"], clock=time.clock())
    number = "00000000-0000-4000-8000-000000000000"
    splits = ["part-00000-{}.split", "date=a/part-{}.split", "date=a/{}.split", "date=a/b.split", "date=a/splits/split-{}.split"]
    named = [name.format(number) for name in splits]
    others = ["notes.txt", "other/a.split", ".a.split", "date=a/_a.split", "_transaction_log/a.split", "date=a/a.split.bak"]
    unknown = [name.replace("0000.split", "0001.split").replace("b.split", "c.split") for name in named[:-1]]
    for path in (*named, *others, *unknown):
        (tmp_path / "t" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / path).write_text("x")
        touch(tmp_path / "t" / path, time.ms)
    adds = [{"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True} for path in (*named, *others)]
    table.log.commit([{"add": add} for add in adds])
    table.log.commit([{"remove": {"path": add["path"], "deletionTimestamp": time.ms, "dataChange": True}} for add in adds])
    time.pass_days(6)
    assert table.purge().status == "no_action"
    time.pass_days(2)
    assert table.health()["num_purgeable_files"] == len(named)
    assert table.purge().metrics["files_deleted"] == len(named)
    assert not any((tmp_path / "t" / path).exists() for path in named)
    assert all((tmp_path / "t" / path).exists() for path in (*others, *unknown))


def test_the_time_of_an_expired_version_is_not_that_of_version_0(tmp_path: Path) -> None:
    table, time = aged(tmp_path)
    then = time.ms - 25 * DAY
    assert open_table(tmp_path / "t", timestamp=then).version == 4
    table.checkpoint()
    time.pass_days(40)
    table.purge(log_retention="30d")
    with pytest.raises(it.VersionNotFound, match="expired"):
        open_table(tmp_path / "t", timestamp=then)
    assert open_table(tmp_path / "t", timestamp=time.ms).version == 6


def test_the_error_for_a_purged_version_says_when_its_splits_were_removed(tmp_path: Path) -> None:
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, clock=time.clock())
    for number in range(3):
        table.append(rows(number, 1))
        time.pass_days(1)
    moment = iso_ms(time.ms)
    table.overwrite(rows(10, 1))
    for path in splits_on_disk(tmp_path / "t"):
        touch(tmp_path / "t" / path, time.ms)
    time.pass_days(8)
    old = open_table(tmp_path / "t", version=2)
    table.purge()
    with pytest.raises(it.VersionNotFound, match=f"version 2 can no longer be read in full: .* was removed by version 4 of {moment}, and"):
        old.scan().read_all()
    table.append(rows(20, 1))
    table.checkpoint()
    later = iso_ms(time.ms)
    time.pass_days(40)
    assert table.purge().metrics["versions_deleted"] == 4
    with pytest.raises(it.VersionNotFound, match=f"was removed before version 5 of {later}, and purged"):
        old.scan().read_all()


def test_symbolic_links_and_their_targets_are_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    outside = tmp_path / "outside"
    outside.mkdir()
    name = "split-00000000-0000-4000-8000-000000000000.split"
    (outside / name).write_text("precious")
    touch(outside / name, DAY)
    (tmp_path / "t" / "splits").symlink_to(outside)
    (tmp_path / "t" / "date=2024-01-01" / "splits" / name).symlink_to(outside / name)
    before = tree(tmp_path)
    table.purge(older_than="1d")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("text", ["7", "-1d", "soon", 7])
def test_an_invalid_duration_is_named(tmp_path: Path, text: object) -> None:
    table = make(tmp_path / "t", appends=1)
    for arguments in ({"older_than": text}, {"log_retention": text}):
        with pytest.raises(it.InvalidArgument, match=str(text)):
            table.purge(**arguments)


def test_a_file_that_cannot_be_deleted_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, time = aged(tmp_path)
    table.merge_splits()
    time.pass_days(10**5)
    stubborn = min(splits_on_disk(tmp_path / "t") - set(table.files().column("path").to_pylist()))
    real = os.unlink

    def unlink(path: object, **kwargs: object) -> None:
        if str(path).endswith(stubborn):
            raise PermissionError(1, "not permitted", str(path))
        real(path, **kwargs)

    monkeypatch.setattr(os, "unlink", unlink)
    report = table.purge()
    assert report.status == "partial"
    assert stubborn in report.warnings[0]
    assert report.metrics["files_deleted"] == 5


def test_versions_that_another_purge_deletes_meanwhile_are_passed_over(tmp_path: Path) -> None:
    table, time = aged(tmp_path)
    table.checkpoint()
    time.pass_days(40)
    expiring = version_file(tmp_path / "t", 1)

    def expire(call: Call, perform: Perform) -> Any:
        if call.verb == "read" and call.path.endswith(expiring.name):
            expiring.unlink(missing_ok=True)
        return perform()

    with intercepting(tmp_path / "t", expire):
        history = open_table(tmp_path / "t", clock=time.clock()).history()
        assert [entry["version"] for entry in history.to_pylist()] == [6, 5, 4, 3, 2, 0]
        expiring.write_bytes(version_file(tmp_path / "t", 2).read_bytes())
        table = open_table(tmp_path / "t", clock=time.clock())
        assert table.purge(log_retention="30d").metrics["versions_deleted"] == 4
    assert ids(it.open(tmp_path / "t")) == list(range(6))


def test_without_older_than_every_interface_keeps_what_was_live_for_7_days(tmp_path: Path) -> None:
    """A caller that passes nothing, such as Airflow without a setting in its file, gets the same default."""
    from indextables.commands.parse import parse_command
    from indextables.operations.expire.purge_files import purge_options

    table = it.create(tmp_path / "t", SCHEMA)
    parser = argparse.ArgumentParser()
    add_arguments(parser, verbs.Purge, Interface.JOB)
    assert limits.OLDER_THAN == "7d"
    assert parser.parse_args([]).older_than == inspect.signature(it.Table.purge).parameters["older_than"].default == "7d"
    assert parse_command("PURGE INDEXTABLES t").request == verbs.Purge()
    assert purge_options(verbs.Purge(), table._context.config).older_than_ms == 7 * 24 * 3_600_000
