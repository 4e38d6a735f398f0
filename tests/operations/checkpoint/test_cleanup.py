"""Clean-up after a checkpoint: what it deletes, what it costs, and what happens when it fails."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.states import write_table_state
from tests.support.tables import SCHEMA, tree, version_file, write_version

DAY = 86_400_000
ADD = {"size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}


@pytest.fixture(autouse=True)
def json_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests look for files of JSON checkpoints."""
    monkeypatch.setenv("INDEXTABLES_STATE_FORMAT", "json")


def log_of(table: Path) -> Path:
    return table / "_transaction_log"


def age(path: Path, days: float) -> None:
    then = path.stat().st_mtime_ns - int(days * DAY * 1_000_000)
    os.utime(path, ns=(then, then))


def build(path: Path, versions: int, **options: Any) -> it.Table:
    """A table whose versions from 1 on add one file each, written without the product."""
    table = it.create(path, SCHEMA, options={"checkpoint.enabled": "false", **options})
    for number in range(1, versions + 1):
        write_version(path, number, {"add": {"path": f"f{number}.split", **ADD}})
    return table


def versions(path: Path) -> list[int]:
    return sorted(int(p.name[:20]) for p in log_of(path).iterdir() if len(p.name) == 25)


def checkpoints(path: Path) -> list[int]:
    return sorted(int(p.name[:20]) for p in log_of(path).glob("*.checkpoint.json"))


def paths_at(path: Path, version: int) -> set[str]:
    return set(it.open(path, version).files().column("path").to_pylist())


def test_old_version_files_are_deleted_and_the_table_stays_complete(tmp_path: Path) -> None:
    """PQC-12, RET-06, PQC-10: 30 versions before the checkpoint are kept."""
    path = tmp_path / "t"
    table = build(path, 10)
    table.checkpoint()
    for number in range(11, 51):
        write_version(path, number, {"add": {"path": f"f{number}.split", **ADD}})
    for number in range(51):
        age(version_file(path, number), 31)
    report = table.checkpoint()
    assert (report.metrics["versions_deleted"], report.metrics["checkpoints_deleted"]) == (9, 0)
    assert versions(path) == [0, *range(10, 51)], "20 to 50 are kept, and checkpoint 10 as their base"
    for number in (10, 20, 35, 50):
        assert paths_at(path, number) == {f"f{n}.split" for n in range(1, number + 1)}
    assert table.checkpoint().status == "no_action"


def test_old_checkpoints_are_deleted_except_the_latest(tmp_path: Path) -> None:
    """RET-03, CKP-13: after two hours if the log is complete."""
    path = tmp_path / "t"
    table = build(path, 3)
    table.checkpoint()
    write_version(path, 4, {"add": {"path": "f4.split", **ADD}})
    age(log_of(path) / f"{3:020d}.checkpoint.json", 1 / 24)
    assert table.checkpoint().metrics["checkpoints_deleted"] == 0
    age(log_of(path) / f"{3:020d}.checkpoint.json", 2 / 24)
    write_version(path, 5, {"add": {"path": "f5.split", **ADD}})
    assert table.checkpoint().metrics["checkpoints_deleted"] == 1
    assert (checkpoints(path), versions(path)) == ([4, 5], list(range(6)))
    assert paths_at(path, 3) == {"f1.split", "f2.split", "f3.split"}


def test_cleanup_can_be_switched_off(tmp_path: Path) -> None:
    """RET-04."""
    path = tmp_path / "t"
    table = build(path, 40, **{"cleanup.enabled": "false", "checkpoint.retention": "0", "logRetention.duration": "0"})
    for number in range(41):
        age(version_file(path, number), 1)
    assert "versions_deleted" not in table.checkpoint().metrics
    assert versions(path) == list(range(41))


def test_a_dry_run_only_reports_what_would_be_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """RET-04."""
    path = tmp_path / "t"
    options = {"cleanup.dryRun": "true", "checkpoint.retention": "0", "logRetention.duration": "0"}
    table = build(path, 30, **options)
    for number in range(31):
        age(version_file(path, number), 1)
    with caplog.at_level(logging.INFO, "indextables"):
        (warning,) = table.checkpoint().warnings
    assert warning.startswith(f"cleanup would delete 29 files: _transaction_log/{1:020d}.json, ")
    assert warning.endswith(", …")
    assert warning in caplog.messages
    assert versions(path) == list(range(31))
    wet = it.open(path, options={"cleanup.dryRun": "false"}).checkpoint()
    assert (wet.status, wet.metrics["versions_deleted"]) == ("success", 29)


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_failure_is_a_warning_or_an_error_and_the_checkpoint_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """RET-04, RET-06."""
    path = tmp_path / "t"
    options = {"cleanup.failurePolicy": policy, "checkpoint.retention": "0", "logRetention.duration": "0", "purge.deleteRetries": "0"}
    table = build(path, 5, **options)
    for number in range(6):
        age(version_file(path, number), 1)
    real = os.unlink

    def unlink(target: Any, **kwargs: Any) -> None:
        if str(target).endswith(f"{2:020d}.json"):
            raise PermissionError(1, "not permitted", str(target))
        real(target, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        if policy == "fail":
            with pytest.raises(it.StorageError, match=r"cleanup after checkpoint 5 is incomplete: could not delete .*not permitted"):
                table.checkpoint()
        else:
            report = table.checkpoint()
            assert report.status == "success"
            assert "not permitted" in report.warnings[0]
    assert checkpoints(path) == [5]
    assert versions(path) == [0, 2, 3, 4, 5], "versions are deleted oldest first, up to the first failure, so that no second gap appears"
    assert len(paths_at(path, 5)) == 5
    assert table.checkpoint().metrics["versions_deleted"] == 3


def test_nothing_is_deleted_before_the_new_checkpoint_is_read_back(tmp_path: Path) -> None:
    """PQC-15."""
    path = tmp_path / "t"
    table = build(path, 3, **{"checkpoint.retention": "0", "logRetention.duration": "0", "checkpointRetention.duration": "0"})
    table.checkpoint()
    write_version(path, 4, {"add": {"path": "f4.split", **ADD}})
    for file in log_of(path).iterdir():
        age(file, 1)

    def cut(call: Call, perform: Perform) -> Any:
        result = perform()
        if call.verb == "create" and "checkpoint" in call.path:
            (path / call.path).write_bytes((path / call.path).read_bytes()[:-9])
        return result

    with intercepting(path, cut), pytest.raises(it.CheckpointError):
        it.open(path).checkpoint()
    assert (checkpoints(path)[0], versions(path)) == (3, [0, 3, 4])
    assert len(paths_at(path, 4)) == 4
    table.checkpoint()
    assert (checkpoints(path), versions(path)) == ([4], [0, 4])
    assert len(paths_at(path, 4)) == 4


def test_a_checkpoint_whose_manifests_another_process_deletes_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncation may delete the manifests that a state shares with an older one before it is written. The checkpoint can be retried."""
    path = tmp_path / "t"
    monkeypatch.setenv("INDEXTABLES_STATE_FORMAT", "avro")
    table = build(path, 3)

    def deleting(call: Call, perform: Perform) -> Any:
        if call.verb == "create" and "/state-v" in call.path:
            for manifest in log_of(path).glob("manifests/*"):
                manifest.unlink()
        return perform()

    with (
        intercepting(path, deleting),
        pytest.raises(it.ConcurrentConflict, match=r"another process deleted manifest .* try again") as caught,
    ):
        it.open(path).checkpoint()
    assert caught.value.exit_code == 75
    assert len(paths_at(path, 3)) == 3
    assert table.checkpoint().status == "success"
    assert [finding.code for finding in it.open(path).doctor()] == ["missing-split"]  # these adds have no files


def test_cleanup_takes_one_listing_and_reads_no_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = build(path, 60, **{"checkpoint.retention": "10", "logRetention.duration": "1000"})
    for number in range(61):
        age(version_file(path, number), 1)
    table.checkpoint()
    requests: list[str] = []
    from indextables.operations.checkpoint import cleanup
    from indextables.table.context import TableContext

    def recorded(call: Call, perform: Perform) -> Any:
        if not call.changes:
            requests.append(f"{call.verb} {call.path}")
        return perform()

    with intercepting(path, recorded):
        context = TableContext.at(path)
        snapshot = context.snapshot()
        requests.clear()
        cleanup.cleanup(context.for_table(snapshot), snapshot)
    assert requests == ["list _transaction_log"]


def test_a_damaged_checkpoint_is_no_base_for_deletion(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = build(path, 10, **{"checkpoint.retention": "5", "logRetention.duration": "0"})
    table.checkpoint()
    (log_of(path) / f"{10:020d}.checkpoint.json").write_bytes(b"broken")
    for number in range(11, 21):
        write_version(path, number, {"add": {"path": f"f{number}.split", **ADD}})
    for number in range(21):
        age(version_file(path, number), 1)
    assert table.checkpoint().metrics["versions_deleted"] == 0
    assert paths_at(path, 15) == {f"f{n}.split" for n in range(1, 16)}


def test_files_needed_by_states_of_other_writers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = build(path, 20, **{"checkpoint.retention": "0", "logRetention.duration": "0"})
    write_table_state(log_of(path), 18, [f"f{n}.split" for n in range(1, 19)], protocol='{"minReaderVersion":2,"minWriterVersion":2}')
    for number in range(21):
        age(version_file(path, number), 1)
    before = tree(path)
    report = table.checkpoint()
    assert report.metrics["versions_deleted"] == 0
    assert before.items() <= tree(path).items()
