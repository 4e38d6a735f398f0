"""`mergeOnWrite` and `purgeOnWrite` run after the commit, before the verb returns. Their failure does not fail the write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.cli.main import main
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.tables import ids, make, rows

MERGE = {"mergeOnWrite.enabled": "true", "mergeOnWrite.minSourceSplits": "4"}
PURGE = {"purgeOnWrite.enabled": "true", "purge.retentionCheckEnabled": "false", "purgeOnWrite.splitRetentionHours": "0"}


def splits(path: Path) -> int:
    return len(list((path / "splits").iterdir()))


def test_by_default_nothing_follows(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=12, each=1, partition_by=[])
    assert table.files().num_rows == 12
    assert set(table.append(rows(12, 1)).metrics) == {"rows_written", "files_added", "files_removed", "bytes_added", "bytes_removed"}


def test_a_merge_follows_the_write_that_makes_enough_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3, each=5, partition_by=[], **MERGE)
    assert table.files().num_rows == 3
    report = table.append(rows(15, 5))
    assert (report.operation, report.status, report.version, report.warnings) == ("append", "success", 4, [])
    assert (report.metrics["files_added"], report.metrics["rows_written"]) == (1, 5), "the metrics of the write do not change"
    assert {name: report.metrics[f"merge_{name}"] for name in ("groups", "files_removed", "rows", "commits")} == {
        "groups": 1, "files_removed": 4, "rows": 20, "commits": 1,
    }  # fmt: skip
    assert (table.version, table.files().num_rows) == (5, 1)
    assert table.history().column("operation").to_pylist()[:2] == ["merge_splits", "append"]
    assert ids(table) == list(range(20))
    assert "merge_groups" not in table.append(rows(20, 5)).metrics


def test_the_merge_after_a_write_has_its_own_target_size(tmp_path: Path) -> None:
    """Splits of at least 45 % of it are not merged."""
    table = make(tmp_path / "t", partition_by=[], **MERGE, **{"mergeOnWrite.targetSize": "1M", "merge.skipSplitThreshold": "0.01"})
    for number in range(6):
        table.append(rows(number * 100, 100))
    assert table.files().num_rows == 6
    with pytest.raises(it.ConfigError, match=r"mergeOnWrite\.targetSize = '10K'"):
        it.open(tmp_path / "t", options={"mergeOnWrite.targetSize": "10K"})


def test_an_overwrite_and_a_repeated_txn(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1, **MERGE, **{"write.targetSplitRows": "1000"})
    report = table.overwrite(rows(0, 5000), txn=("app", 1))
    assert (report.metrics["files_added"], report.metrics["merge_groups"], table.files().num_rows) == (6, 2, 2)
    again = table.overwrite(rows(0, 5000), txn=("app", 1))
    assert (again.status, again.version, table.version) == ("no_action", 2, 3)
    assert not any(name.startswith("merge_") for name in again.metrics)


def test_a_failed_merge_is_a_warning_of_the_write(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=3, each=5, partition_by=[], **MERGE)

    def broken(call: Call, perform: Perform) -> Any:
        if call.verb == "local_path":
            raise it.StorageError("the store did not answer")
        return perform()

    with intercepting(tmp_path / "t", broken):
        table = it.open(tmp_path / "t")
        report = table.append(rows(15, 5))
    assert (report.status, report.version, table.version) == ("success", 4, 4)
    assert report.warnings == ["the merge after the write failed: the store did not answer"]
    assert ids(it.open(tmp_path / "t")) == list(range(20))


def test_a_purge_follows_a_merge(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3, each=5, partition_by=[], **MERGE, **PURGE)
    assert splits(tmp_path / "t") == 3
    report = table.append(rows(15, 5))
    assert report.metrics["purge_files_deleted"] == 4
    assert splits(tmp_path / "t") == 1
    assert ids(it.open(tmp_path / "t")) == list(range(20))
    off = it.open(tmp_path / "t", options={"purgeOnWrite.triggerAfterMerge": "false"})
    for number in range(3):
        report = off.append(rows(20 + number, 1))
    assert report.metrics["merge_groups"] == 1
    assert "purge_files_deleted" not in report.metrics
    assert splits(tmp_path / "t") == 5


def test_a_purge_follows_after_a_number_of_versions(tmp_path: Path) -> None:
    """The first write at or after each multiple triggers it, in any process, since only the log decides."""
    make(tmp_path / "t", **PURGE, **{"purgeOnWrite.triggerAfterWrites": "5", "checkpoint.enabled": "false"})
    purged = []
    for number in range(14):
        table = it.open(tmp_path / "t")  # a fresh handle each time
        if number in (4, 9):
            table.log.commit([{"txn": {"appId": "other", "version": number}}])  # versions 5 and 11 are not writes
        report = table.append(rows(number, 1))
        if "purge_files_deleted" in report.metrics:
            purged.append(report.version)
    assert it.open(tmp_path / "t").version == 16
    assert purged == [6, 10, 15]


def test_a_purge_that_fails_or_is_refused_is_a_warning(tmp_path: Path) -> None:
    make(tmp_path / "t", **PURGE, **{"purgeOnWrite.triggerAfterWrites": "1"})
    safe = it.open(tmp_path / "t", options={"purge.retentionCheckEnabled": "true"})
    report = safe.append(rows(0, 1))
    assert (report.status, report.version) == ("success", 1)
    assert report.warnings[0].startswith("the purge after the write failed: older_than '0h' is less than 24h")

    def broken(call: Call, perform: Perform) -> Any:
        if (call.verb, call.path) == ("list", ""):
            raise OSError("disk on fire")
        return perform()

    with intercepting(tmp_path / "t", broken):
        report = it.open(tmp_path / "t").append(rows(1, 1))
    assert (report.status, report.version, report.warnings) == ("success", 2, ["the purge after the write failed: disk on fire"])
    assert ids(it.open(tmp_path / "t")) == [0, 1]


def test_from_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=3, each=5, partition_by=[])
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": 99, "message": "one more"}) + "\n")
    options = [word for key, value in {**MERGE, **PURGE}.items() for word in ("-o", f"{key}={value}")]
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "more.jsonl"), "--json", *options]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert (metrics["files_added"], metrics["merge_files_removed"], metrics["purge_files_deleted"]) == (1, 4, 4)
    assert it.open(tmp_path / "t").files().num_rows == 1
