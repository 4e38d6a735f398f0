"""Automatic checkpoints: after a commit that reaches the interval, before the verb returns (CKP-04, CKP-05, C-16, PQC-11)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import indextables as it
from indextables.config import Config
from indextables.operations.checkpoint import run as checkpoint
from indextables.operations.checkpoint.automatic import is_reached
from indextables.state.checkpoints.avro.state_files import read_state_manifest
from indextables.table.context import TableContext
from tests.support.tables import ids, make, rows


def bases(path: Path) -> tuple[int, ...]:
    return TableContext.at(path).log.uncached_listing().bases


@pytest.mark.parametrize(
    ("version", "last", "due"), [(9, None, False), (10, None, True), (11, None, True), (19, 10, False), (20, 10, True), (25, 12, True)]
)
def test_the_interval_counts_from_the_last_checkpoint(version: int, last: int | None, due: bool) -> None:
    assert is_reached(Config.of({}), version, last) is due
    assert not is_reached(Config.of({"checkpoint.enabled": False}), version, last)


def test_fifteen_appends_leave_a_checkpoint_of_version_10(tmp_path: Path) -> None:
    """PQC-11."""
    table = make(tmp_path / "t", appends=15, each=1, partition_by=[])
    assert bases(tmp_path / "t") == (10,)
    assert it.open(tmp_path / "t").files().num_rows == 15
    assert table.version == 15


def test_every_verb_that_commits_writes_checkpoints(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2, each=2, partition_by=[])
    quick = it.open(tmp_path / "t", options={"checkpoint.interval": "1"})
    quick.append(rows(10, 1))
    quick.overwrite(rows(0, 2))
    quick.append(rows(2, 2))
    quick.merge_splits()
    quick.log.record_skipped_file(quick.files().column("path")[0].as_py(), "a trial")
    quick.log.commit([{"txn": {"appId": "a", "version": 1}}])
    assert bases(tmp_path / "t") == (3, 4, 5, 6, 7, 8)
    assert table.refresh().version == quick.version == 8
    assert ids(table) == [0, 1, 2, 3]


@pytest.mark.parametrize(("error", "is_unforeseen"), [(OSError, True), (it.StorageError, False)])
def test_a_failed_checkpoint_is_a_warning_and_the_next_commit_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception], is_unforeseen: bool
) -> None:
    """CON-11: the commit succeeds even if its checkpoint fails. A traceback is logged only for unexpected errors."""
    make(tmp_path / "t", appends=9, each=1, partition_by=[])
    table = it.open(tmp_path / "t")

    def full(*_: object, **__: object) -> None:
        raise error("no space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(checkpoint, "write_checkpoint", full)
        report = table.append(rows(9, 1))
    (line,) = caplog.records
    assert line.getMessage() == "the checkpoint after version 10 failed: no space left on device"
    assert bool(line.exc_info) is is_unforeseen
    assert (report.status, report.version) == ("success", 10)
    assert report.warnings == ["the checkpoint after version 10 failed: no space left on device"]
    assert bases(tmp_path / "t") == ()
    assert table.append(rows(10, 1)).warnings == []
    assert bases(tmp_path / "t") == (11,)


def test_another_writers_checkpoint_counts(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=8, each=1, partition_by=[])
    here = it.open(tmp_path / "t")
    it.open(tmp_path / "t").checkpoint()
    for number in range(3):
        here.append(rows(100 + number, 1))
    assert bases(tmp_path / "t") == (8,)


def test_without_automatic_checkpoints_only_explicit_ones_are_written(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", make(tmp_path / "u", appends=0).schema, options={"checkpoint.enabled": "false"})
    for number in range(12):
        table.append(rows(number, 1))
    assert bases(tmp_path / "t") == ()
    table.checkpoint()
    assert bases(tmp_path / "t") == (12,)


def test_a_merge_compacts_the_state(tmp_path: Path) -> None:
    """CMP-05: if the table has a state and compaction is enabled."""
    table = make(tmp_path / "t", appends=4, each=2, partition_by=[])
    table.checkpoint()
    table.append(rows(50, 2))
    table.merge_splits()
    assert bases(tmp_path / "t") == (4, 6)
    state = read_state_manifest(TableContext.at(tmp_path / "t").store, 6)
    assert (list(state.tombstones or ()), state.num_files, len(state.manifests)) == ([], 1, 1)
    off = it.open(tmp_path / "t", options={"state.compaction.afterMerge": "false"})
    off.append(rows(60, 2))
    off.merge_splits()
    assert bases(tmp_path / "t") == (4, 6)
    assert ids(it.open(tmp_path / "t")) == [*range(8), 50, 51, 60, 61]


def test_a_merge_compacts_a_state_that_the_same_process_wrote(tmp_path: Path) -> None:
    """CMP-05: the cached snapshot of the process was not read from that state."""
    table = make(tmp_path / "t", appends=12, each=1, partition_by=[])
    assert bases(tmp_path / "t") == (10,)
    table.merge_splits()
    assert bases(tmp_path / "t") == (10, 13)
    assert table.describe_state()["num_files"] == 1
