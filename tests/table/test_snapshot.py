"""Snapshots: checkpoint and tail, time travel, gaps and loss (RD-01 … RD-08, C-15, C-27, INI-06)."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import indextables as it
from tests.support.logs import lines
from tests.support.tables import ids, make, tree, version_file, write_version

METADATA = {
    "metaData": {
        "id": "x",
        "format": {"provider": "indextables", "options": {}},
        "schemaString": '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}',
        "partitionColumns": [],
        "configuration": {},
    }
}
PROTOCOL = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}


@pytest.fixture(autouse=True)
def json_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests hold for every format, but look at the files of JSON checkpoints."""
    monkeypatch.setenv("INDEXTABLES_STATE_FORMAT", "json")


def add(path: str) -> dict[str, object]:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "numRecords": 1}}


def paths(table: it.Table) -> list[str]:
    return sorted(table.files().column("path").to_pylist())


def checkpoint_file(table: Path, version: int) -> Path:
    return table / "_transaction_log" / f"{version:020d}.checkpoint.json"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_version(tmp_path, 0, PROTOCOL, METADATA)
    for version in range(1, 6):
        write_version(tmp_path, version, add(f"f{version}"), *([{"remove": {"path": "f1"}}] if version == 3 else []))
    return tmp_path


LIVE = {0: [], 1: ["f1"], 2: ["f1", "f2"], 3: ["f2", "f3"], 4: ["f2", "f3", "f4"], 5: ["f2", "f3", "f4", "f5"]}


def test_every_version_can_be_read(log: Path) -> None:
    assert {version: paths(it.open(log, version)) for version in LIVE} == LIVE
    it.open(log).checkpoint()
    assert {version: paths(it.open(log, version)) for version in LIVE} == LIVE
    assert it.open(log).files().column("added_at_version").to_pylist() == [2, 3, 4, 5]


@pytest.mark.parametrize("version", [6, 100, -1])
def test_versions_that_never_existed(log: Path, version: int) -> None:
    with pytest.raises(it.VersionNotFound, match=str(version)):
        it.open(log, version)


def test_a_checkpoint_replaces_the_versions_before_it(log: Path) -> None:
    it.open(log, options={}).checkpoint()
    write_version(log, 6, add("f6"))
    for version in range(1, 6):
        version_file(log, version).unlink()
    assert paths(it.open(log)) == ["f2", "f3", "f4", "f5", "f6"]
    with pytest.raises(it.VersionNotFound, match=r"version 3 .* has expired"):
        it.open(log, 3)


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"garbage", b"{}", b'{"add":[]}', b"\x1f\x8b\x08\x00", gzip.compress(b'{"add":[],"version":5,"digest":"00"}', mtime=0)],
)
def test_a_broken_checkpoint_is_ignored(log: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    it.open(log).checkpoint()
    checkpoint_file(log, 5).write_bytes(damage)
    table = it.open(log)
    assert paths(table) == LIVE[5]
    assert "failed to read checkpoint at version 5" in table.warnings[0]
    assert table.warnings[0] in caplog.text
    # The next checkpoint repairs it.
    assert table.checkpoint().status == "success"
    assert it.open(log).warnings == []


def test_a_checkpoint_with_the_name_of_another_version_is_ignored(log: Path) -> None:
    it.open(log).checkpoint()
    write_version(log, 6, {"remove": {"path": "f5"}})
    shutil.copy(checkpoint_file(log, 5), checkpoint_file(log, 6))
    assert paths(it.open(log)) == LIVE[4]


def test_every_bit_flip_in_an_uncompressed_checkpoint_is_detected(log: Path) -> None:
    it.open(log, options={"transaction.compression.enabled": "false"}).checkpoint()
    file = checkpoint_file(log, 5)
    good = file.read_bytes()
    tried = 0
    for position in range(0, len(good), 3):
        damaged = bytearray(good)
        damaged[position] ^= 1 << (position % 8)
        file.write_bytes(bytes(damaged))
        assert paths(it.open(log)) == LIVE[5]
        tried += 1
    assert tried > 200


@pytest.mark.parametrize("pointer", [b"", b"{", b'{"version":99}', b'{"version":"x"}', b"[]"])
def test_a_bad_pointer_is_ignored(log: Path, pointer: bytes) -> None:
    it.open(log).checkpoint()
    (log / "_transaction_log" / "_last_checkpoint").write_bytes(pointer)
    assert paths(it.open(log)) == LIVE[5]
    write_version(log, 6, add("f6"))
    it.open(log).checkpoint()
    written = json.loads((log / "_transaction_log" / "_last_checkpoint").read_bytes())
    assert (written["version"], written["numFiles"], written["format"]) == (6, 5, "json")


def test_reading_stops_at_a_gap_and_writers_refuse(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path / "t", appends=3)
    version_file(tmp_path / "t", 2).unlink()
    before = tree(tmp_path)
    gapped = it.open(tmp_path / "t")
    assert gapped.version == 1
    assert ids(gapped) == list(range(10))
    assert "version 2 is missing" in caplog.text
    for act in (lambda: gapped.append([]), lambda: gapped.append([{"id": 1}]), gapped.checkpoint, gapped.purge, gapped.merge_splits):
        with pytest.raises(it.VersionGap, match="version 2"):
            act()
    with pytest.raises(it.VersionNotFound, match="version 2 is missing"):
        it.open(tmp_path / "t", 3)
    assert table.version == 3
    assert tree(tmp_path) == before


FAR_AHEAD = "2099-01-01"


def test_a_gap_before_a_checkpoint_does_not_hide_later_versions(log: Path) -> None:
    """The newest version is readable, so history and time travel include it."""
    it.open(log).checkpoint()
    it.open(log).log.commit([add("late.split")])
    version_file(log, 3).unlink()
    newest = it.open(log)
    assert newest.history().column("version").to_pylist() == [6, 5, 4, 2, 1, 0]
    assert (newest.version, it.open(log, timestamp=FAR_AHEAD).version) == (6, 6)


def test_a_timestamp_after_lost_versions_behaves_like_the_newest_version(log: Path) -> None:
    """Which lost version it means is unknown, so an older version is never returned silently."""
    version_file(log, 4).unlink()
    gapped = it.open(log, timestamp=FAR_AHEAD)
    assert (gapped.version, len(gapped.warnings)) == (3, 1)
    assert gapped.warnings == it.open(log).warnings
    (log / "_transaction_log" / "_last_checkpoint").write_text('{"version": 5}')
    for timestamp in (None, FAR_AHEAD):
        with pytest.raises(it.LogCorrupted, match="version 4 is missing"):
            it.open(log, timestamp=timestamp)
    os.utime(version_file(log, 0), (1, 1))
    assert it.open(log, timestamp=1000).version == 0  # a time before the loss is unambiguous


def test_lost_versions_are_an_error_and_never_an_older_version(log: Path) -> None:
    it.open(log).checkpoint()
    for version in range(1, 4):
        version_file(log, version).unlink()
    checkpoint_file(log, 5).write_bytes(b"broken")
    with pytest.raises(it.LogCorrupted, match="version 1 is missing; broken checkpoints: 5"):
        it.open(log)
    checkpoint_file(log, 5).unlink()  # the pointer still names it
    with pytest.raises(it.LogCorrupted, match="version 1 is missing"):
        it.open(log)


def test_a_pointer_without_any_other_file_is_a_lost_table(log: Path) -> None:
    it.open(log).checkpoint()
    for file in (log / "_transaction_log").iterdir():
        if file.name != "_last_checkpoint":
            file.unlink()
    with pytest.raises(it.LogCorrupted, match="version 0 or a valid checkpoint is missing"):
        it.open(log)
    before = tree(log)
    with pytest.raises(it.TableExists):
        make(log)
    assert tree(log) == before


def test_a_broken_checkpoint_beyond_the_log_is_a_sign_of_loss(log: Path) -> None:
    checkpoint_file(log, 9).write_bytes(b"broken")
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 9"):
        it.open(log)


def test_a_folder_without_a_complete_log_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(it.TableNotFound, match="nowhere"):
        it.open(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(it.TableNotFound, match="no transaction log found"):
        it.open(tmp_path / "folder")
    write_version(tmp_path / "late", 1, add("x"))
    with pytest.raises(it.TableNotFound, match="version 0 is missing"):
        it.open(tmp_path / "late")
    assert not it.exists(tmp_path / "folder")


def test_no_metadata(tmp_path: Path) -> None:
    write_version(tmp_path, 0, PROTOCOL)
    with pytest.raises(it.LogCorrupted, match="no metadata found"):
        it.open(tmp_path)


@pytest.mark.parametrize(
    "protocol",
    [{"minReaderVersion": 5, "minWriterVersion": 2}, {"minReaderVersion": 2, "minWriterVersion": 2, "readerFeatures": ["deletionVectors"]}],
)
def test_an_unsupported_reader_protocol_is_refused(tmp_path: Path, protocol: dict[str, object]) -> None:
    write_version(tmp_path, 0, {"protocol": protocol}, METADATA)
    with pytest.raises(it.ProtocolUnsupported, match="to read"):
        it.open(tmp_path)


def test_an_unsupported_writer_protocol_refuses_writes(tmp_path: Path) -> None:
    write_version(tmp_path, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 9}}, METADATA)
    table = it.open(tmp_path)
    for act in (lambda: table.append([{"id": 1}]), table.checkpoint, table.purge):
        with pytest.raises(it.ProtocolUnsupported, match="protocol 9 to write"):
            act()


def test_a_corrupt_version_is_named(log: Path) -> None:
    version_file(log, 3).write_bytes(b"{oops")
    with pytest.raises(it.LogCorrupted, match="version 3, line 1"):
        it.open(log)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "s3://b/x", "%2e%2e/x"])
@pytest.mark.parametrize("kind", ["add", "remove", "checkpoint"])
def test_hostile_paths_stop_the_read_and_purge(log: Path, path: str, kind: str) -> None:
    if kind == "checkpoint":
        checkpoint_file(log, 5).write_text(json.dumps({**PROTOCOL, **METADATA, "add": [add(path)["add"]]}))
    else:
        write_version(log, 6, {kind: {**add(path)["add"]}})
    before = tree(log)
    with pytest.raises(it.UnsafePath):
        it.open(log)
    if kind != "checkpoint":
        older = it.open(log, 5)
        with pytest.raises(it.UnsafePath):
            older.purge(older_than="1d")
    assert tree(log) == before


def test_timestamps(tmp_path: Path) -> None:
    from tests.support.tables import SCHEMA, FakeTime, rows

    time = FakeTime()
    from indextables.api import create_table, open_table

    table = create_table(tmp_path / "t", SCHEMA, clock=time.clock())
    for number in range(3):
        time.pass_days(1)
        table.append(rows(number, 1))
    start = 1_700_000_000_000
    assert open_table(tmp_path / "t", timestamp=start).version == 0
    assert open_table(tmp_path / "t", timestamp=start + 2 * 86_400_000 + 5).version == 2
    assert open_table(tmp_path / "t", timestamp="2030-01-01").version == 3
    assert open_table(tmp_path / "t", timestamp="2023-11-15T22:13:20Z").version == 1
    with pytest.raises(it.VersionNotFound):
        open_table(tmp_path / "t", timestamp="2000-01-01T00:00:00")
    with pytest.raises(it.InvalidArgument, match="yesterday"):
        open_table(tmp_path / "t", timestamp="yesterday")
    with pytest.raises(it.InvalidArgument, match="not both"):
        open_table(tmp_path / "t", version=1, timestamp=0)


@pytest.mark.parametrize("moment", [2**62, -(2**62), 253_402_300_800_000])
def test_a_commit_time_outside_the_calendar_is_ignored(tmp_path: Path, moment: int) -> None:
    """The time of the file is used instead."""
    table = make(tmp_path / "t", appends=1)
    path = version_file(tmp_path / "t", 1)
    actions = table.log.actions(1)
    actions[0]["commitInfo"]["timestamp"] = moment
    path.write_bytes(lines(*actions))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    newest = it.open(tmp_path / "t").history().to_pylist()[0]
    assert (newest["version"], newest["timestamp"]) == (1, datetime.fromtimestamp(1_700_000_000, UTC))
