"""Doctor, verify, health: nothing is changed, every kind of trouble is found, and a healthy table has none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import indextables as it
from indextables.cli import main
from tests.support.tables import make, rows, tree

LOG = "_transaction_log"


def codes(findings: list[it.Finding]) -> list[str]:
    return [finding.code for finding in findings]


def a_split(table: it.Table) -> Path:
    return Path(table.path, table.files().column("path")[0].as_py())


def flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_healthy_table_has_no_findings(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3)
    before = tree(tmp_path / "t")
    assert table.doctor() == []
    assert table.verify() == table.verify(deep=True) == []
    table.checkpoint()
    before = tree(tmp_path / "t")
    assert table.doctor() == []
    health = table.health()
    assert (health["status"], health["findings"], health["version"]) == ("ok", [], table.version)
    assert health["last_checkpoint"] == table.version
    assert json.loads(json.dumps(health)) == health
    assert tree(tmp_path / "t") == before


def orphan(table: it.Table) -> None:
    fresh = a_split(table).with_name("split-00000000-0000-4000-8000-000000000000.split")
    fresh.write_bytes(b"left by a killed writer")


def old_orphan(table: it.Table) -> None:
    orphan(table)
    os.utime(a_split(table).with_name("split-00000000-0000-4000-8000-000000000000.split"), (0, 0))


def no_pointer(table: it.Table) -> None:
    table.checkpoint()
    Path(table.path, LOG, "_last_checkpoint").unlink()


def broken_pointer(table: it.Table) -> None:
    table.checkpoint()
    Path(table.path, LOG, "_last_checkpoint").write_text("{")


def stale_pointer(table: it.Table) -> None:
    table.checkpoint()
    Path(table.path, LOG, "_last_checkpoint").write_text('{"version":1}')


def gap(table: it.Table) -> None:
    Path(table.path, LOG, f"{2:020d}.json").unlink()


def no_beginning(table: it.Table) -> None:
    """OBS-07."""
    table.checkpoint()
    Path(table.path, LOG, f"{0:020d}.json").unlink()


def late(table: it.Table) -> None:
    off = it.open(table.path, options={"checkpoint.enabled": "false"})
    for number in range(31):
        off.log.commit([{"txn": {"appId": "a", "version": number}}])


def small(table: it.Table) -> None:
    for number in range(3):
        table.append(rows(100 + number * 10, 10))


def skipped(table: it.Table) -> None:
    table.log.record_skipped_file(table.files().column("path")[0].as_py(), "unreadable")


@pytest.mark.parametrize(
    ("harm", "code", "severity"),
    [
        (orphan, "fresh-orphan", "info"),
        (old_orphan, "orphaned-split", "warning"),
        (lambda table: a_split(table).unlink(), "missing-split", "error"),
        (no_pointer, "missing-pointer", "info"),
        (broken_pointer, "broken-pointer", "warning"),
        (stale_pointer, "stale-pointer", "warning"),
        (gap, "version-gap", "error"),
        (no_beginning, "missing-version-0", "error"),
        (late, "late-checkpoint", "warning"),
        (small, "small-splits", "warning"),
        (skipped, "skipped-split", "warning"),
    ],
)
def test_every_kind_of_trouble_is_found(tmp_path: Path, harm: Callable[[it.Table], None], code: str, severity: str) -> None:
    table = make(tmp_path / "t", appends=3)
    harm(table)
    before = tree(tmp_path / "t")
    found = it.open(tmp_path / "t").doctor()
    assert codes(found) == [code], found
    assert found[0].severity == severity
    assert str(tmp_path / "t") in found[0].fix or "backup" in found[0].fix
    assert tree(tmp_path / "t") == before


def test_a_broken_checkpoint_is_found_and_mended_by_the_command(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3)
    table.checkpoint()
    checkpoint = next(
        path
        for path in Path(table.path, LOG).rglob("*")
        if path.is_file() and f"{table.version:020d}" in str(path) and path.name != f"{table.version:020d}.json"
    )
    checkpoint.write_bytes(checkpoint.read_bytes()[:-9])
    assert "broken-checkpoint" in codes(it.open(tmp_path / "t").doctor())
    it.open(tmp_path / "t").checkpoint()
    assert it.open(tmp_path / "t").doctor() == []


def test_an_unreadable_table_is_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=2)
    Path(tmp_path, "t", LOG, f"{1:020d}.json").write_bytes(b"not a version\n")
    assert main(["doctor", str(tmp_path / "t"), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["severity"]) == ("unreadable", "error")
    assert main(["health", str(tmp_path / "t"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["version"]) == ("error", None)
    assert main(["doctor", str(tmp_path / "nothing")]) == 78


def test_verify_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=3, partition_by=[])
    paths = [Path(table.path, path) for path in table.files().column("path").to_pylist()]
    flipped(paths[0], 100)
    paths[1].unlink()
    assert codes(table.verify()) == ["damaged-split", "missing-split"]
    assert main(["verify", table.path, "--deep", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["code"] for finding in found] == ["damaged-split", "missing-split"]
    assert paths[0].name in found[0]["message"]


def test_verify_compares_with_the_log(tmp_path: Path) -> None:
    """A row count, an offset and a bound that the split does not bear out; the bound only where rows are decoded."""
    table = make(tmp_path / "t", appends=1, partition_by=[])
    (line,) = [line for line in table.log.actions(1) if "add" in line]
    table.log.commit([{"remove": {"path": line["add"]["path"], "dataChange": True}}])
    wrong = {**line["add"], "footerStartOffset": 7, "numRecords": 99, "maxValues": {**line["add"]["maxValues"], "id": "5"}}
    table.log.commit([{"add": wrong}])
    assert [("log says 99" in f.message, "footerStartOffset" in f.message) for f in table.verify()] == [(True, False), (False, True)]
    assert any("max" in finding.message and "'5'" in finding.message for finding in table.verify(deep=True))
