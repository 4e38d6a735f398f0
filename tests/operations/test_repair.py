"""Repair, drop and drop_partitions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import indextables as it
from indextables.cli.main import main
from tests.support.tables import ids, make, rows, tree

LOG = "_transaction_log"


def in_place(table: Path, repaired: Path) -> it.Table:
    shutil.move(table / LOG, table.parent / "old-log")
    shutil.move(repaired, table / LOG)
    return it.open(table)


def test_a_log_is_rebuilt_from_the_valid_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=4, partition_by=[])
    gone = tmp_path / "t" / table.files().column("path")[1].as_py()
    gone.unlink()
    before = tree(tmp_path / "t")
    report = it.repair(tmp_path / "t", tmp_path / "new")
    assert tree(tmp_path / "t") == before, "the source is only read"
    assert (report.status, dict(report.metrics)) == (
        "partial", {"total_splits": 4, "valid_splits": 3, "missing_splits": 1, "source_version": 4},
    )  # fmt: skip
    assert gone.name in report.warnings[0]
    repaired = in_place(tmp_path / "t", tmp_path / "new")
    assert (repaired.version, repaired.schema) == (1, table.schema)
    assert ids(repaired) == [*range(10), *range(20, 40)]
    assert repaired.verify(deep=True) == []


def test_repair_reports_the_rows_missing_from_the_new_log(tmp_path: Path) -> None:
    """One split is missing. The index of another is damaged, but a scan still reads its rows."""
    table = make(tmp_path / "t", appends=4, partition_by=[])
    gone, damaged = (tmp_path / "t" / path for path in table.files().column("path").to_pylist()[:2])
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    report = it.repair(tmp_path / "t", tmp_path / "one")
    assert "the new log does not contain 10 of 40 rows: 1 split is damaged" in report.warnings
    assert ids(table) == list(range(40))
    assert "may still be readable" in report.warnings[-1]
    assert f"(indextables scan {table.path} --output FILE)" in report.warnings[-1]
    gone.unlink()
    report = it.repair(tmp_path / "t", tmp_path / "both")
    assert "the new log does not contain 20 of 40 rows: 1 split is missing and 1 split is damaged" in report.warnings
    damaged.unlink()
    report = it.repair(tmp_path / "t", tmp_path / "neither")
    assert report.warnings[-1] == "the new log does not contain 20 of 40 rows: 2 splits are missing"


def test_a_version_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=3, partition_by=[])
    (tmp_path / "t" / LOG / f"{2:020d}.json").write_bytes(b"\x1f\x8bdamaged")
    with pytest.raises(it.LogCorrupted):
        it.open(tmp_path / "t")
    report = it.repair(tmp_path / "t" / LOG, tmp_path / "new")
    assert report.status == "partial"
    assert "version 2" in report.warnings[0]
    assert ids(in_place(tmp_path / "t", tmp_path / "new")) == [*range(10), *range(20, 30)]


def test_repair_warns_about_splits_that_only_an_unreadable_version_added(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3, partition_by=[])
    lost = table.files()["path"].to_pylist()[1]
    (tmp_path / "t" / LOG / f"{2:020d}.json").write_bytes(b"\x1f\x8bdamaged")
    report = it.repair(tmp_path / "t", tmp_path / "new")
    assert "the new log does not reference 1 split file of the table's folder" in report.warnings[-1]
    assert repr(lost) in report.warnings[-1]
    assert "purge would delete them, so check them first" in report.warnings[-1]


def test_repair_does_not_report_splits_that_a_readable_version_removed(tmp_path: Path) -> None:
    """A split that was merged away must not be added again: its rows would be there twice."""
    table = make(tmp_path / "t", appends=3, partition_by=[])
    table.merge_splits("100M")
    table.append(rows(30, 10))
    (tmp_path / "t" / LOG / f"{5:020d}.json").write_bytes(b"\x1f\x8bdamaged")
    report = it.repair(tmp_path / "t", tmp_path / "new")
    assert "does not reference 1 split file of" in report.warnings[-1]
    assert ids(in_place(tmp_path / "t", tmp_path / "new")) == list(range(30))


def test_repair_requires_an_empty_target_outside_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=1)
    before = tree(tmp_path / "t")
    with pytest.raises(it.InvalidArgument, match="is not empty"):
        it.repair(tmp_path / "t", tmp_path / "t" / LOG)
    with pytest.raises(it.InvalidArgument, match="is inside the log to repair"):
        it.repair(tmp_path / "t", tmp_path / "t" / LOG / "new")
    with pytest.raises(it.TableNotFound):
        it.repair(tmp_path / "none", tmp_path / "new")
    assert main(["repair", str(tmp_path / "t"), str(tmp_path / "new"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["valid_splits"] == 2
    assert tree(tmp_path / "t") == before


def test_partitions_are_dropped_in_one_commit(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2)
    report = table.drop_partitions("date = '2024-01-01'")
    assert (report.operation, report.status, report.version, table.version) == ("drop_partitions", "success", 3, 3)
    assert (report.metrics["partitions_dropped"], report.metrics["files_removed"], report.metrics["rows_removed"]) == (1, 2, 10)
    assert ids(table) == [i for i in range(20) if i % 2]
    assert ids(it.open(tmp_path / "t", 2)) == list(range(20)), "files are kept until purge"
    assert table.drop_partitions("date = '1999-01-01'").status == "no_action"
    assert table.version == 3


def test_invalid_drop_partitions_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=1)
    whole = make(tmp_path / "u", appends=1, partition_by=[])
    before = tree(tmp_path)
    with pytest.raises(it.InvalidPredicate, match="id"):
        table.drop_partitions("id = 1")
    for bad in ("", None):
        with pytest.raises(it.InvalidArgument):
            table.drop_partitions(bad)  # type: ignore[arg-type]
    with pytest.raises(it.InvalidArgument, match="not partitioned"):
        whole.drop_partitions("id = 1")
    with pytest.raises(SystemExit, match="2"):
        main(["drop-partitions", table.path])
    assert "--where" in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_drop_requires_confirmation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=2)
    (tmp_path / "t" / "notes.txt").write_text("mine")
    nested = make(tmp_path / "t" / "date=2024-01-01" / "other", appends=1)
    with pytest.raises(it.InvalidArgument, match="confirm=True"):
        it.drop(tmp_path / "t")
    assert main(["drop", str(tmp_path / "t")]) == 2
    assert it.exists(tmp_path / "t")
    report = it.drop(tmp_path / "t", confirm=True)
    assert (report.operation, report.status, report.metrics["files_deleted"]) == ("drop", "success", 4)
    assert not it.exists(tmp_path / "t")
    assert (tmp_path / "t" / "notes.txt").read_text() == "mine", "other files are kept"
    assert ids(nested) == list(range(10))
    assert main(["drop", str(tmp_path / "t"), "--confirm"]) == 78
    capsys.readouterr()
