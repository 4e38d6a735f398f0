"""Doctor, verify and purge read the store: cached data of this process or machine hides no damage."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import indextables as it
from indextables.cli.main import main
from indextables.clock import Clock
from indextables.operations import verbs
from indextables.operations.expire.purge_files import purge
from indextables.operations.inspect.doctor_checks import doctor
from indextables.storage import memory
from indextables.table.context import TableContext
from tests.support.tables import SCHEMA, ids, make, rows

LOG = "_transaction_log"


def flip(file: Path) -> None:
    """Changes one byte and keeps size and time, like a disk fault."""
    status = file.stat()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(bytes(data))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def warm(path: Path, state_format: str = "avro", **options: str) -> it.Table:
    """A table with a checkpoint at version 3 and one later version. Everything has been read, so that all caches are filled."""
    table = make(path, appends=3, **{"state.format": state_format, **options})
    table.checkpoint()
    table.append(rows(30, 10))
    table = it.open(path)
    assert ids(table) == list(range(40))
    assert table.doctor() == table.verify() == []
    it.open(path).files()
    return table


def codes(findings: list[it.Finding]) -> list[tuple[str, str]]:
    return [(finding.code, str(finding.severity)) for finding in findings]


BROKEN = ("broken-checkpoint", "warning")
UNREADABLE = ("unreadable", "error")


@pytest.mark.parametrize(
    ("state_format", "damaged"),
    [
        ("avro", "manifests/*.avro"),
        ("avro", "state-v*/_manifest.*"),
        ("json", "*.checkpoint.json"),
        ("parquet", "_checkpoints/*.checkpoint.parquet"),
        ("parquet", "_checkpoints/*.checkpoint.json"),
    ],
)
def test_a_damaged_checkpoint_is_found_with_a_warm_cache(tmp_path: Path, state_format: str, damaged: str) -> None:
    table = warm(tmp_path / "t", state_format)
    (file,) = (tmp_path / "t" / LOG).glob(damaged)
    flip(file)
    assert codes(table.doctor()) == [BROKEN]
    assert codes(table.verify()) == [BROKEN]
    assert codes(it.open(tmp_path / "t").doctor()) == [BROKEN]
    it.open(tmp_path / "t").checkpoint()
    assert codes(it.open(tmp_path / "t").doctor()) == [("broken-checkpoint", "info")]  # the old checkpoint, until purge deletes it


def test_damage_to_the_unused_form_of_a_state_is_found(tmp_path: Path) -> None:
    table = warm(tmp_path / "t", **{"state.manifestFormat": "avro"})
    it.open(tmp_path / "t", options={"state.manifestFormat": "json"}).checkpoint()
    it.open(tmp_path / "t", options={"state.manifestFormat": "avro"}).checkpoint()
    state = tmp_path / "t" / LOG / f"state-v{4:020d}"
    assert sorted(file.name for file in state.iterdir()) == ["_manifest.avro", "_manifest.json"]
    assert codes(table.doctor()) == []
    flip(state / "_manifest.avro")
    assert codes(table.doctor()) == [BROKEN]
    assert len(it.open(tmp_path / "t").files()) == 8


def test_a_damaged_version_after_the_checkpoint_makes_the_table_unreadable_with_a_warm_cache(tmp_path: Path) -> None:
    table = warm(tmp_path / "t")
    flip(tmp_path / "t" / LOG / f"{4:020d}.json")
    assert codes(table.doctor()) == [UNREADABLE]
    assert codes(table.verify()) == [UNREADABLE]
    assert table.health()["status"] == "error"


def test_a_damaged_version_before_the_checkpoint_is_found_with_a_warm_cache(tmp_path: Path) -> None:
    table = warm(tmp_path / "t")
    flip(tmp_path / "t" / LOG / f"{1:020d}.json")
    (finding,) = table.doctor()
    assert (finding.code, str(finding.severity)) == UNREADABLE
    assert "version 1" in finding.message
    assert table.verify() == []  # it needs no version before the checkpoint


def test_findings_before_an_unreadable_version_are_kept(tmp_path: Path) -> None:
    table = warm(tmp_path / "t")
    flip(tmp_path / "t" / LOG / "_last_checkpoint")
    flip(tmp_path / "t" / LOG / f"{1:020d}.json")
    assert codes(table.doctor()) == [("broken-pointer", "warning"), UNREADABLE]


@pytest.mark.parametrize("state_format", ["avro", "json", "parquet"])
def test_a_damaged_pointer_is_found_with_a_warm_cache(tmp_path: Path, state_format: str) -> None:
    table = warm(tmp_path / "t", state_format)
    flip(tmp_path / "t" / LOG / "_last_checkpoint")
    assert codes(table.doctor()) == [("broken-pointer", "warning")]
    assert ids(it.open(tmp_path / "t")) == list(range(40))


def test_damage_to_an_open_split_with_unchanged_size_and_time_is_found(tmp_path: Path) -> None:
    table = warm(tmp_path / "t")
    path = table.files().column("path")[0].as_py()
    flip(tmp_path / "t" / path)
    (finding,) = table.verify()
    assert (finding.code, path in finding.message) == ("damaged-split", True)


def test_verify_downloads_cached_splits_again() -> None:
    """Splits of remote stores are cached on the local disk."""
    table = it.create("memory://damage/behind-caches", SCHEMA)
    table.append(rows(0, 10))
    assert ids(table) == list(range(10))  # the split is now cached
    assert table.verify() == []
    (path,) = table.files().column("path").to_pylist()
    key = table._context.root.join(path)
    data, modified = memory._files[key]
    memory._files[key] = data[:99] + bytes([data[99] ^ 0xFF]) + data[100:], modified
    (finding,) = table.verify()
    assert (finding.code, path in finding.message) == ("damaged-split", True)
    memory._files[key] = data[:-1], modified
    (finding,) = table.verify()
    assert (finding.code, path in finding.message) == ("damaged-split", True)
    del memory._files[key]
    assert [finding.code for finding in table.verify()] == ["missing-split"]


def test_purge_deletes_no_version_whose_state_has_a_damaged_manifest(tmp_path: Path) -> None:
    """The intact manifest exists only in the cache of this machine."""
    table = it.create(tmp_path / "t", SCHEMA, options={"cleanup.enabled": "false"})
    for number in range(3):
        table.append(rows(number * 10, 10))
    table.checkpoint()
    table.append(rows(30, 10))
    table.checkpoint()
    assert ids(it.open(tmp_path / "t")) == list(range(40))
    for file in (tmp_path / "t" / LOG / "manifests").glob("*.avro"):
        flip(file)
    report = purge(verbs.Purge("7d", "0d"), TableContext.at(tmp_path / "t", {}, days_later(100)))
    assert report.metrics["versions_deleted"] == 0
    assert sorted(it.open(tmp_path / "t").files().column("path").to_pylist()) == sorted(table.files().column("path").to_pylist())


def days_later(days: int) -> Clock:
    return Clock(lambda: time.time_ns() // 1_000_000 + days * 86_400_000)


def old(path: Path) -> None:
    for file in path.rglob("*"):
        os.utime(file, (1, 1))


def overdue(path: Path, clock: Clock | None = None) -> list[it.Finding]:
    context = TableContext.at(path) if clock is None else TableContext.at(path, {}, clock)
    return [finding for finding in doctor(context) if finding.code == "overdue-retention"]


def test_doctor_reports_versions_that_the_cleanup_should_have_deleted(tmp_path: Path) -> None:
    """`logRetention.duration` of the table decides, even if purge keeps versions longer; the suggested command deletes them."""
    options = {"logRetention.duration": "3600000", "checkpoint.retention": "0", "cleanup.enabled": "false"}
    table = make(tmp_path / "t", appends=4, **options)
    table.checkpoint()
    assert overdue(tmp_path / "t") == []
    old(tmp_path / "t" / LOG)
    (finding,) = overdue(tmp_path / "t")
    assert str(finding.severity) == "warning"
    assert f"{1:020d}.json" in finding.message
    assert main(finding.fix.split()[1:]) == 0
    assert overdue(tmp_path / "t") == []
    assert not (tmp_path / "t" / LOG / f"{1:020d}.json").exists()


@pytest.mark.parametrize("state_format", ["avro", "json"])
def test_doctor_reports_old_checkpoints_that_nothing_deletes(tmp_path: Path, state_format: str) -> None:
    """Recent ones are no finding, since the next checkpoint deletes them."""
    table = make(tmp_path / "t", **{"cleanup.enabled": "false", "state.format": state_format})
    for number in range(5):
        table.append(rows(number * 10, 10))
        table.checkpoint()
    assert overdue(tmp_path / "t") == []
    found = overdue(tmp_path / "t", days_later(10))
    assert len(found) == 1
    assert ("state-v" if state_format == "avro" else ".checkpoint.json") in found[0].message
    assert "purge" in found[0].fix
