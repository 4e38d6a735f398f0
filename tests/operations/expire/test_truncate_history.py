"""Truncation of a log: the newest version is readable at every moment, and only files of older versions are deleted."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from tests.operations.expire.test_purge_log import name, split, state
from tests.support.intercepted_store import Call, Interceptor, Perform, intercepting
from tests.support.states import entry, write_manifest, write_state
from tests.support.tables import SCHEMA, ids, make, rows, tree, version_file, write_version

LOG = "_transaction_log"
ADD = {"size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}
FORMATS = {
    "avro": {"state.format": "avro", "checkpoint.interval": "3"},
    "json": {"state.format": "json", "checkpoint.interval": "3"},
    "json-multipart": {"state.format": "json", "checkpoint.interval": "3", "checkpoint.actionsPerPart": "2"},
    "parquet": {"state.format": "parquet", "checkpoint.interval": "3"},
}


def log_files(table: Path) -> set[str]:
    return {path for path in tree(table) if path.startswith(LOG)}


@pytest.mark.parametrize("form", FORMATS)
def test_the_newest_version_and_version_0_are_kept(tmp_path: Path, form: str) -> None:
    """C-20: the files of version 0 and of the newest version are kept; splits are not touched."""
    table = make(tmp_path / "t", 8, 4, **FORMATS[form])
    table.drop_partitions("date = DATE '2024-01-01'")
    expected, before = ids(table), tree(tmp_path / "t")
    report = table.truncate_history()
    version = table.version
    after = tree(tmp_path / "t")
    versions = {path for path in after if path.endswith(".json") and path.count("/") == 1 and "checkpoint" not in path}
    assert versions == {f"{LOG}/{number:020d}.json" for number in (0, version)}
    assert {p: d for p, d in before.items() if p.endswith(".split")} == {p: d for p, d in after.items() if p.endswith(".split")}
    gone = {path: data for path, data in before.items() if path not in after}
    counts = report.metrics
    assert (report.status, report.base_version, report.operation) == ("success", version, "truncate_history")
    assert counts["bytes_deleted"] == sum(map(len, gone.values()))
    assert counts["versions_deleted"] == version - 1
    assert counts["checkpoints_deleted"] + counts["states_deleted"] >= 2
    assert counts["files_preserved"] == table.files().num_rows
    assert ids(table) == ids(it.open(tmp_path / "t")) == expected
    assert [finding for finding in table.doctor() if finding.severity != "warning"] == []
    with pytest.raises(it.VersionNotFound, match="expired"):
        it.open(tmp_path / "t", version - 1)
    assert it.open(tmp_path / "t", 0).count() == 0
    assert table.truncate_history().status == "no_action"
    table.append(rows(1000, 4))
    assert ids(it.open(tmp_path / "t")) == [*expected, *range(1000, 1004)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_dry_run_writes_nothing(tmp_path: Path, form: str) -> None:
    """Not even a checkpoint, as upstream does. It reports all later deletions except manifests that a compaction replaces."""
    table = make(tmp_path / "t", 8, 4, **FORMATS[form])
    table.drop_partitions("date = DATE '2024-01-01'")
    before, version = tree(tmp_path / "t"), table.version
    dry = table.truncate_history(dry_run=True).to_dict()
    assert tree(tmp_path / "t") == before
    assert (dry["status"], dry["dry_run"], table.version) == ("success", True, version)
    assert {step["kind"] for step in dry["plan"]} <= {"version", "checkpoint", "state", "manifest"}
    assert all(step["bytes"] == len(before[step["path"]]) and step["reason"] for step in dry["plan"])
    assert sum(step["bytes"] for step in dry["plan"]) == dry["metrics"]["bytes_deleted"]
    report = table.truncate_history()
    assert report.base_version == dry["base_version"]
    gone = set(before) - set(tree(tmp_path / "t"))
    assert {path for path in gone if "manifest-" not in path} == {s["path"] for s in dry["plan"] if s["kind"] != "manifest"}
    assert {step["path"] for step in dry["plan"]} <= gone


def test_a_dry_run_includes_the_version_of_a_protocol_upgrade(tmp_path: Path) -> None:
    """PRT-08: the checkpoint of a table of protocol 2 first commits the upgrade, so the version before it is deleted, too."""
    table = make(tmp_path / "t", 3, 4, **{"state.format": "json"})
    handle = it.open(tmp_path / "t", options={"state.format": "avro"})
    before = tree(tmp_path / "t")
    dry = handle.truncate_history(dry_run=True)
    assert tree(tmp_path / "t") == before
    report = handle.truncate_history()
    assert (report.base_version, report.version) == (table.version, table.version + 1)
    assert (dry.base_version, dry.version, dry.metrics["checkpoint_version"]) == (table.version, None, table.version + 1)
    assert report.metrics == dry.metrics


def test_a_state_folder_that_a_newer_state_references_is_kept(tmp_path: Path) -> None:
    """Upstream deletes whole folders of old states, even if a newer state references a manifest in one."""
    path = tmp_path / "t"
    it.create(path, SCHEMA, options={"checkpoint.enabled": "false"})
    splits = [split(path, number) for number in range(1, 5)]
    for number, added in enumerate(splits, start=1):
        write_version(path, number, {"add": {"path": added, **ADD}})
    inside = f"state-v{2:020d}/manifest-00000000000000aa.avro"
    state(path, 2, {inside: splits[:2]})
    state(path, 3, {inside: splits[:2], name(7): splits[2:3]}, written=[name(7)])
    state(path, 4, {inside: splits[:2], name(8): splits[2:]}, written=[name(8)])
    report = it.open(path).truncate_history()
    version = report.metrics["checkpoint_version"]  # 5 if the protocol was upgraded first
    assert version in (4, 5)
    assert report.metrics["versions_deleted"] == version - 1
    assert report.metrics["states_deleted"] == len({3, 4} - {version}), "state 2 is kept for the manifest in its folder"
    assert report.metrics["manifests_deleted"] == 1, "the manifest that only state 3 references"
    assert (path / LOG / inside).exists()
    assert (path / LOG / f"state-v{2:020d}" / "_manifest.avro").exists()
    assert it.open(path).files().column("path").to_pylist() == splits


def test_a_young_unreferenced_manifest_is_kept(tmp_path: Path) -> None:
    """A state that references it may be about to be written."""
    table = make(tmp_path / "t", 5, 4, **FORMATS["avro"])
    write_manifest(tmp_path / "t" / LOG, name(99), [entry("x")])
    table.truncate_history()
    assert (tmp_path / "t" / LOG / name(99)).exists()


def test_a_state_written_meanwhile_keeps_all_manifests(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 8, 4, **FORMATS["avro"])
    table.overwrite(rows(0, 4))
    manifests = {path for path in log_files(tmp_path / "t") if "manifest-" in path}

    def arrive(call: Call, perform: Perform) -> Any:
        result = perform()
        if call.verb == "delete" and "state-v" in call.path and not (tmp_path / "t" / LOG / f"state-v{50:020d}").exists():
            write_state(tmp_path / "t" / LOG, 50, {}, form="avro")
        return result

    with intercepting(tmp_path / "t", arrive):
        report = it.open(tmp_path / "t").truncate_history()
    assert report.metrics["manifests_deleted"] == 0
    assert any("a state was written during this run" in text for text in report.warnings)
    assert manifests <= log_files(tmp_path / "t")


def test_a_young_version_file_of_a_late_writer_is_kept_for_an_hour(tmp_path: Path) -> None:
    """The writer used a version number that was just deleted, and may still withdraw its commit."""
    table = make(tmp_path / "t", 5, 4, **FORMATS["json"])
    table.truncate_history()
    stray = version_file(tmp_path / "t", 2)
    write_version(tmp_path / "t", 2, {"add": {"path": "x.split", **ADD}})
    assert table.truncate_history().status == "no_action"
    assert stray.exists()
    os.utime(stray, (stray.stat().st_mtime - 4000,) * 2)
    assert table.truncate_history().metrics["versions_deleted"] == 1
    assert not stray.exists()
    assert ids(it.open(tmp_path / "t")) == list(range(20))


def test_a_broken_checkpoint_is_replaced_first(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6, 4, **FORMATS["json"])
    (tmp_path / "t" / LOG / f"{6:020d}.checkpoint.json").write_bytes(b"{")
    expected = ids(table)
    assert it.open(tmp_path / "t").truncate_history().status == "success"
    assert ids(it.open(tmp_path / "t")) == expected


def test_a_version_gap_stops_truncation(tmp_path: Path) -> None:
    make(tmp_path / "t", 5, 4, **{"checkpoint.enabled": "false"})
    version_file(tmp_path / "t", 3).unlink()
    before = tree(tmp_path / "t")
    for dry_run in (True, False):
        with pytest.raises(it.VersionGap):
            it.open(tmp_path / "t").truncate_history(dry_run)
    assert tree(tmp_path / "t") == before


class Killed(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("form", FORMATS)
def test_r4_a_crash_at_any_point_leaves_the_table_readable(tmp_path: Path, form: str) -> None:
    """Crashes before and after every change of the store, and then runs the truncation again to its end."""
    newest = make(tmp_path / "t", 7, 4, **FORMATS[form]).version
    expected = ids(it.open(tmp_path / "t"))
    points = 0
    for at in range(1000):
        copy = tmp_path / f"c{at}"
        for path, data in tree(tmp_path / "t").items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(data)
        steps, kill = _killed_at(at)
        with intercepting(copy, kill):
            try:
                it.open(copy).truncate_history()
            except Killed:
                points += 1
            else:
                assert steps[0] <= at
                break
        handle = it.open(copy)
        assert ids(handle) == expected
        assert handle.version == newest
        assert handle.truncate_history().status in ("success", "no_action")
        assert ids(it.open(copy)) == expected
        assert sorted(p.name for p in (copy / LOG).glob("0*.json") if "checkpoint" not in p.name) == [f"{n:020d}.json" for n in (0, newest)]
    assert points >= 16, "before and after the deletion of six versions and two checkpoints, and before and after each write"


def _killed_at(at: int) -> tuple[list[int], Interceptor]:
    steps = [0]
    guard = threading.Lock()

    def point() -> None:
        with guard:
            steps[0] += 1
            if steps[0] > at:  # other threads cannot change anything after the crash either
                raise Killed

    def kill(call: Call, perform: Perform) -> Any:
        if not call.changes:
            return perform()
        point()
        result = perform()
        point()
        return result

    return steps, kill


def test_concurrent_commits_and_checkpoints_lose_nothing(tmp_path: Path) -> None:
    """R6: three writers and one process that writes checkpoints run while the log is truncated repeatedly. Readers see all rows."""
    make(tmp_path / "t", 2, 4, **{"checkpoint.interval": "3"})
    done = threading.Event()
    failures: list[BaseException] = []
    seen: list[int] = []
    unknown: set[int] = set()

    def guarded(work: Any) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def write(number: int) -> None:
        for turn in range(6):
            try:
                it.open(tmp_path / "t").append(rows(1000 * number + 4 * turn, 4))
            except it.CommitUnknown:  # rare: the version was truncated before its writer could verify it
                unknown.update(range(1000 * number + 4 * turn, 1000 * number + 4 * turn + 4))

    def checkpoints() -> None:
        for _ in range(6):
            it.open(tmp_path / "t").checkpoint()

    def truncate() -> None:
        while not done.is_set():
            it.open(tmp_path / "t").truncate_history()

    def read() -> None:
        while not done.is_set():
            seen.append(it.open(tmp_path / "t").count())

    background = [guarded(truncate), guarded(read)]
    writers = [guarded(lambda number=number: write(number)) for number in (1, 2, 3)] + [guarded(checkpoints)]
    for thread in writers:
        thread.join()
    done.set()
    for thread in background:
        thread.join()
    assert failures == []
    assert seen == sorted(seen), "the number of rows never decreases"
    expected = {*range(8), *(1000 * number + turn for number in (1, 2, 3) for turn in range(24))}
    assert len(unknown) <= 8
    found = ids(it.open(tmp_path / "t"))
    assert len(set(found)) == len(found), "no row is duplicated"
    assert expected - unknown <= set(found) <= expected
    assert it.open(tmp_path / "t").truncate_history().status in ("success", "no_action")
    assert ids(it.open(tmp_path / "t")) == found
