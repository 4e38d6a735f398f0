"""States with a damaged manifest give no wrong answer. A checkpoint replaces them, and nothing needed for that is deleted."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables import limits
from indextables.api import open_table
from indextables.clock import Clock
from indextables.state.checkpoints.avro import file_loader
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.tables import ids, make, rows

LOG = "_transaction_log"
DAY = 86_400_000


@pytest.fixture(autouse=True)
def no_manifest_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the cache of manifests, which would hide the damage."""
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))


def damaged(table: Path) -> Path:
    """Flips a bit in the only manifest and keeps its size and time."""
    manifest = next((table / LOG / "manifests").iterdir())
    times = manifest.stat()
    data = bytearray(manifest.read_bytes())
    data[len(data) // 2] ^= 1
    manifest.write_bytes(bytes(data))
    os.utime(manifest, ns=(times.st_atime_ns, times.st_mtime_ns))
    shutil.rmtree(table.parent / "cache", ignore_errors=True)
    file_loader._VERIFIED.clear()
    return table


def with_state(path: Path, appends: int = 3) -> Path:
    make(path, appends=appends, each=2, partition_by=[]).checkpoint()
    return path


def test_the_next_checkpoint_does_not_reuse_the_damaged_manifest(tmp_path: Path) -> None:
    here = damaged(with_state(tmp_path / "t"))
    table = it.open(here)
    table.append(rows(6, 2))
    report = table.checkpoint()
    assert (report.metrics["manifests_written"], report.metrics["manifests_reused"]) == (1, 0)
    for number in range(1, 5):
        (here / LOG / f"{number:020d}.json").unlink()
    assert ids(it.open(here)) == list(range(8)), "the new state is complete"


def test_cleanup_deletes_nothing_before_a_damaged_state(tmp_path: Path) -> None:
    """An automatic checkpoint reuses a state without reading it, so clean-up reads it before it deletes anything."""
    here = damaged(with_state(tmp_path / "t", appends=5))
    later = Clock(now_ms=lambda: Clock().now_ms() + 90 * DAY)
    table = open_table(here, options={"checkpoint.interval": "1", "checkpoint.retention": "1"}, clock=later)
    table.append(rows(10, 2))
    table.append(rows(12, 2))
    assert len(list((here / LOG).glob("0*.json"))) == 8, "every version file still exists"
    assert ids(it.open(here)) == list(range(14))


def test_a_checkpoint_reads_little_of_a_large_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a new process the cost depends on the new files only, yet every manifest is checked over time."""
    monkeypatch.setattr(limits, "SPOT_CHECK_BYTES", 0)
    here = with_state(tmp_path / "t", appends=0)
    options = {"checkpoint.enabled": "false", "state.entriesPerManifest": "1"}
    open_table(here, options=options).append(rows(0, 1))
    read: list[str] = []

    def watched(call: Call, perform: Perform) -> Any:
        if call.verb == "read":
            read.append(call.path)
        return perform()

    seen: set[str] = set()
    with intercepting(here, watched):
        for number in range(30):
            table = open_table(here, options=options | {"state.compaction.maxManifests": "100"})
            table.append(rows(1 + number, 1))
            file_loader._VERIFIED.clear()
            read.clear()
            assert table.checkpoint().metrics["manifests_written"] == (2 if number == 0 else 1)
            checked = {path for path in read if "/manifests/" in path}
            assert len(checked) <= 2  # an old manifest and the new one
            seen |= checked
    assert len(seen) > 25
    assert ids(it.open(here)) == list(range(31))


def test_repair_ignores_a_damaged_state(tmp_path: Path) -> None:
    here = damaged(with_state(tmp_path / "t"))
    report = it.repair(here, tmp_path / "new")
    assert (report.status, report.metrics["valid_splits"]) == ("partial", 3)
    assert "state of version 3" in report.warnings[0]


def test_purge_and_doctor_report_a_damaged_state(tmp_path: Path) -> None:
    here = damaged(with_state(tmp_path / "t"))
    table = it.open(here)
    table.append(rows(6, 2))
    table.checkpoint()
    for number in range(1, 4):
        (here / LOG / f"{number:020d}.json").unlink()
    assert [finding.code for finding in table.doctor()] == ["broken-checkpoint"]
    assert table.purge(dry_run=True).status in ("success", "no_action")
    assert ids(it.open(here)) == list(range(8))


@pytest.mark.parametrize("moved", [lambda table: pickle.loads(pickle.dumps(table)), copy.deepcopy], ids=["pickled", "copied"])
@pytest.mark.parametrize("tail", [0, 2])
def test_a_copied_handle_shows_the_same_rows(tmp_path: Path, moved: object, tail: int) -> None:
    with_state(tmp_path / "t")
    table = it.open(tmp_path / "t")
    for number in range(tail):
        table.append(rows(6 + number, 1))
    other = moved(table)  # type: ignore[operator]
    assert ids(other) == ids(table) == list(range(6 + tail))
    assert (other.count(), other.files().num_rows) == (6 + tail, 3 + tail)
    other.checkpoint()
    assert it.open(tmp_path / "t").files().num_rows == 3 + tail


def test_a_version_file_copied_to_another_version_is_refused(tmp_path: Path) -> None:
    """A copied version file claims that its paths are new, which is false."""
    with_state(tmp_path / "t")
    table = it.open(tmp_path / "t")
    table.append(rows(6, 1))
    table.checkpoint()
    shutil.copy(tmp_path / "t" / LOG / f"{4:020d}.json", tmp_path / "t" / LOG / f"{5:020d}.json")
    assert ids(it.open(tmp_path / "t")) == list(range(7))
