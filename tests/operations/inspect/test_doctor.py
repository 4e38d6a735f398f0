"""Doctor, verify and health change nothing, find every kind of problem, and report none for a healthy table."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main
from indextables.operations.inspect.health_document import FIGURES
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
    assert (health["num_records"], health["num_files"], health["num_small_files"], health["small_file_ratio"]) == (30, 6, 6, 1.0)
    assert (health["num_dead_files"], health["num_purgeable_files"], health["num_skipped_files"]) == (0, 0, 0)
    assert (health["last_operation"], health["last_write_at"], health["last_merge_at"]) == ("append", health["last_commit_at"], None)
    assert health["last_checkpoint_at"] >= health["last_commit_at"]
    assert (health["state"]["format"], health["state"]["num_files"]) == ("avro-state", 6)
    assert json.loads(json.dumps(health)) == health
    assert tree(tmp_path / "t") == before


def test_health_counts_dead_and_skipped_files(tmp_path: Path) -> None:
    """The document has the same keys for every table, with null for unknown figures."""
    table = make(tmp_path / "t", appends=3)
    table.merge_splits()
    skipped(table)
    old_orphan(table)
    found = table.health()
    dead = [
        path
        for path in Path(table.path).rglob("*.split")
        if str(path.relative_to(table.path)) not in table.files().column("path").to_pylist()
    ]
    assert (found["num_dead_files"], found["dead_bytes"]) == (7, sum(path.stat().st_size for path in dead))
    assert (found["num_purgeable_files"], found["num_skipped_files"], found["num_small_files"]) == (1, 1, 2)
    assert found["last_merge_at"] < found["last_commit_at"]
    assert found["status"] == "warning"
    gap(table)
    holey = table.health()
    assert (holey["status"], holey["version"], holey["num_dead_files"]) == ("error", 1, None)
    Path(table.path, LOG, f"{1:020d}.json").write_bytes(b"x")
    unreadable = table.health()
    assert list(found) == list(holey) == list(unreadable)
    assert {unreadable[name] for name in FIGURES} == {None}


def orphan(table: it.Table) -> None:
    fresh = a_split(table).with_name("split-00000000-0000-4000-8000-000000000000.split")
    fresh.write_bytes(b"left by a killed writer")


def old_orphan(table: it.Table) -> None:
    orphan(table)
    os.utime(a_split(table).with_name("split-00000000-0000-4000-8000-000000000000.split"), (0, 0))


def waiting_orphan(table: it.Table) -> None:
    """Too old for a running write, too young for purge."""
    orphan(table)
    moment = time.time() - 2 * 86_400
    os.utime(a_split(table).with_name("split-00000000-0000-4000-8000-000000000000.split"), (moment, moment))


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


def overdue(table: it.Table) -> None:
    """Makes the log say that the splits were merged a hundred days ago, and the files as old."""
    table.merge_splits()
    file = Path(table.path, LOG, f"{table.version:020d}.json")
    long_ago = time.time_ns() // 1_000_000 - 100 * 86_400_000
    lines = [line for line in table.log.actions(table.version) if "commitInfo" not in line]
    lines = [{"remove": {**line["remove"], "deletionTimestamp": long_ago}} if "remove" in line else line for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for path in Path(table.path).rglob("*"):
        os.utime(path, (long_ago / 1000, long_ago / 1000))


def stray_manifest(table: it.Table) -> None:
    table.checkpoint()
    (used,) = Path(table.path, LOG, "manifests").glob("*.avro")
    stray = used.with_name("manifest-0123456789abcdef.avro")
    stray.write_bytes(used.read_bytes())
    os.utime(stray, (0, 0))


def broken_newest(table: it.Table) -> None:
    table.checkpoint()
    (state,) = Path(table.path, LOG).glob("state-v*/_manifest.*")
    state.write_bytes(state.read_bytes()[:-9])


def broken_older(table: it.Table) -> None:
    broken_newest(table)
    os.utime(next(Path(table.path, LOG).glob("state-v*/_manifest.*")), (0, 0))
    table.append(rows(500, 2))
    it.open(table.path, options={"cleanup.enabled": "false"}).checkpoint()


DAMAGES = pytest.mark.parametrize(
    ("damage", "code", "severity"),
    [
        (orphan, "fresh-orphan", "info"),
        (waiting_orphan, "orphaned-split", "info"),
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
        (overdue, "overdue-retention", "warning"),
        (stray_manifest, "unreachable-manifest", "warning"),
        (broken_newest, "broken-checkpoint", "warning"),
        (broken_older, "broken-checkpoint", "info"),
    ],
)


@DAMAGES
def test_every_kind_of_problem_is_found(tmp_path: Path, damage: Callable[[it.Table], None], code: str, severity: str) -> None:
    table = make(tmp_path / "t", appends=3)
    damage(table)
    before = tree(tmp_path / "t")
    found = it.open(tmp_path / "t").doctor()
    assert codes(found) == [code], found
    assert found[0].severity == severity
    assert shlex.split(found[0].fix)[0::2][:2] == ["indextables", str(tmp_path / "t")]
    assert tree(tmp_path / "t") == before


def with_a_hole(path: Path, *missing: int) -> it.Table:
    table = make(path, appends=7, partition_by=[])
    table.checkpoint()
    table.append(rows(800, 1))
    for version in missing:
        (path / LOG / f"{version:020d}.json").unlink()
    return it.open(path)


def test_a_missing_version_below_the_checkpoint_is_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The versions behind it were said to have expired, although their files exist."""
    table = with_a_hole(tmp_path / "t", 3)
    (finding,) = table.doctor()
    assert (finding.code, finding.severity) == ("version-gap", "warning")
    assert finding.message.startswith("version 3 is missing, so that versions 4 to 6 cannot be read; newer versions can; ")
    for version in (4, 5, 6):
        with pytest.raises(it.VersionNotFound, match=f"version {version} of .* cannot be read: version 3 is missing from the log"):
            it.open(tmp_path / "t", version)
    with pytest.raises(it.VersionNotFound, match=r"version 3 of .* has expired"):
        it.open(tmp_path / "t", 3)
    assert [it.open(tmp_path / "t", version).version for version in (0, 1, 2, 7, 8)] == [0, 1, 2, 7, 8]
    count = table.count()
    assert main(shlex.split(finding.fix)[1:]) == 0
    assert (it.open(tmp_path / "t").doctor(), it.open(tmp_path / "t").count()) == ([], count)
    capsys.readouterr()


def test_a_log_whose_oldest_versions_have_expired_has_no_gap(tmp_path: Path) -> None:
    assert with_a_hole(tmp_path / "t", 1, 2, 3, 4, 5, 6).doctor() == []
    assert with_a_hole(tmp_path / "u", 1, 2, 3, 4, 5, 6, 7).doctor() == []


def test_an_interrupted_purge_is_completed_by_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = with_a_hole(tmp_path / "t", 1, 2, 3).doctor()
    assert (finding.code, finding.severity) == ("version-gap", "warning")
    assert finding.message.startswith(
        "version 3 is missing, so that versions 4 to 6 cannot be read; newer versions can; if a purge was interr"
    )
    assert shlex.split(finding.fix)[1] == "purge"
    assert main([*shlex.split(finding.fix)[1:], "--log-retention", "0s", "-o", "checkpoint.retention=0"]) == 0
    assert it.open(tmp_path / "t").doctor() == []
    capsys.readouterr()


WAITING = {("fresh-orphan", "info"), ("orphaned-split", "info")}  # purge deletes them when they are old enough; the fix is to look again


@DAMAGES
def test_the_suggested_command_fixes_a_finding(
    tmp_path: Path, damage: Callable[[it.Table], None], code: str, severity: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make(tmp_path / "t", appends=3)
    damage(table)
    (finding,) = it.open(tmp_path / "t").doctor()
    argv = shlex.split(finding.fix.replace("NEW_LOG", str(tmp_path / "new")))[1:]
    if code == "broken-checkpoint" and severity == "info":
        assert argv[0] == "doctor", "purge does nothing yet"
        argv = ["purge", table.path, "-o", "state.retention.versions=1"]
    assert main(argv) == 0, finding
    if argv[0] == "repair":
        shutil.move(tmp_path / "t" / LOG, tmp_path / "old")
        shutil.move(tmp_path / "new", tmp_path / "t" / LOG)
    left = codes(it.open(tmp_path / "t").doctor())
    lost = ["fresh-orphan"] if code == "version-gap" else []  # the split that the lost version added
    expected = [code] if (code, severity) in WAITING else lost
    assert left == expected, left
    capsys.readouterr()


def test_a_broken_checkpoint_is_found_and_replaced_by_checkpoint(tmp_path: Path) -> None:
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


def test_a_table_with_a_newer_protocol_is_not_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=1)
    line = {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}
    Path(table.path, LOG, f"{2:020d}.json").write_text(json.dumps(line) + "\n")
    for verb in ("doctor", "health"):
        assert main([verb, table.path]) == 78
        assert "needs protocol 99" in capsys.readouterr().err


def test_verify_names_damaged_and_missing_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=3, partition_by=[])
    paths = [Path(table.path, path) for path in table.files().column("path").to_pylist()]
    flipped(paths[0], 100)
    paths[1].unlink()
    assert codes(table.verify()) == ["damaged-split", "missing-split"]
    assert main(["verify", table.path, "--deep", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["code"] for finding in found] == ["damaged-split", "missing-split"]
    assert paths[0].name in found[0]["message"]


def test_purged_splits_of_an_old_version_are_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=3, partition_by=[], **{"purge.retentionCheckEnabled": False})
    table.merge_splits()
    table.purge(older_than="0s")
    for deep in (False, True):
        (finding,) = it.open(table.path, version=3).verify(deep=deep)
        assert (finding.code, finding.severity) == ("purged-version", "warning")
        assert finding.message.startswith("version 3 can no longer be read in full: split ")
        assert ", and purged, as were 2 more of its splits" in finding.message
        assert "repair" not in finding.fix
    assert main(["verify", table.path, "--version", "3"]) == 0, "the table is not damaged"
    assert "repair" not in capsys.readouterr().out
    a_split(table).unlink()
    assert codes(table.verify()) == ["missing-split"]


def test_verify_compares_with_the_log(tmp_path: Path) -> None:
    """A row count, an offset and a bound that differ from the split. The bound is found only if rows are decoded."""
    table = make(tmp_path / "t", appends=1, partition_by=[])
    (line,) = [line for line in table.log.actions(1) if "add" in line]
    table.log.commit([{"remove": {"path": line["add"]["path"], "dataChange": True}}])
    wrong = {**line["add"], "footerStartOffset": 7, "numRecords": 99, "maxValues": {**line["add"]["maxValues"], "id": "5"}}
    table.log.commit([{"add": wrong}])
    assert [("log says 99" in f.message, "footerStartOffset" in f.message) for f in table.verify()] == [(True, False), (False, True)]
    assert any("max" in finding.message and "'5'" in finding.message for finding in table.verify(deep=True))


@pytest.mark.parametrize(
    ("wrong", "named", "deep"),
    [
        ({"size": 7}, "bytes, but the log says 7", False), ({"uncompressedSizeBytes": 7}, "uncompressedSizeBytes", False),
        ({"timeRangeEnd": "2030-01-01T00:00:00.000000"}, "timeRangeEnd", False), ({"hotcacheLength": 7}, "hotcacheLength", False),
        ({"partitionValues": {"date": "2030-01-01"}}, "rows whose 'date' is not '2030-01-01'", True),
        ({"partitionValues": {}}, "rows whose 'date' is not None", True),
    ],
)  # fmt: skip
def test_verify_compares_every_field_of_the_log(tmp_path: Path, wrong: dict[str, Any], named: str, deep: bool) -> None:
    table = it.create(tmp_path / "t", pa.schema([("ts", pa.timestamp("us")), ("date", pa.string())]), partition_by=["date"])
    table.append([{"ts": datetime(2024, 1, 1), "date": "2024-01-01"}])
    (line,) = [line for line in table.log.actions(1) if "add" in line]
    assert table.verify(deep=True) == []
    table.log.commit([{"add": {**line["add"], **wrong}}])
    (finding,) = table.refresh().verify(deep=True)
    assert named in finding.message
    assert finding["code"] == finding.code == "split-differs"
    assert (table.verify() == []) is deep
