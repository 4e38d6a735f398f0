"""A purge that is killed halfway leaves a readable table, and the next purge completes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import indextables as it
from indextables.api import open_table
from tests.support.tables import FakeTime, ids, make, rows, tree

DAY = 86_400_000
KILLED = """
import itertools, os, signal, sys
from indextables.api import open_table
from indextables.clock import Clock
from indextables.storage import LocalStore
real, calls, last = LocalStore.delete, itertools.count(1), int(sys.argv[2])
def delete(self, path):
    if next(calls) >= last:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, path)
LocalStore.delete = delete
open_table(sys.argv[1], clock=Clock(lambda: int(sys.argv[3]))).purge("7d", "1d")
"""


@pytest.mark.parametrize("deletes", [1, 5, 14])
def test_the_next_purge_completes_a_killed_one(tmp_path: Path, deletes: int) -> None:
    table = make(tmp_path / "t", appends=6)
    table.merge_splits()
    table.overwrite(rows(100, 4))
    table.checkpoint()
    table.append(rows(200, 4))
    expected = [*range(100, 104), *range(200, 204)]
    time = FakeTime(ms=max(path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")) // 1_000_000 + 60 * DAY)
    planned = open_table(tmp_path / "t", clock=time.clock()).purge("7d", "1d", dry_run=True).to_dict()["plan"]
    before = set(tree(tmp_path / "t"))
    child = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "t"), str(deletes), str(time.ms)], env=os.environ, check=False)
    assert child.returncode == -signal.SIGKILL
    gone = before - set(tree(tmp_path / "t"))
    assert gone <= {line["path"] for line in planned}, "only planned files are deleted"
    assert len(gone) < len(planned)
    assert ids(it.open(tmp_path / "t")) == expected
    report = open_table(tmp_path / "t", clock=time.clock()).purge("7d", "1d")
    assert report.status == "success"
    assert before - set(tree(tmp_path / "t")) == {line["path"] for line in planned}, "the second purge deletes the rest"
    assert ids(it.open(tmp_path / "t")) == expected
    it.open(tmp_path / "t").append(rows(300, 1))


LEAVING = """
import errno, os, signal, sys
import indextables as it
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
def across_disks(source, target):
    if ".tmp-" in str(source):
        die()
    raise OSError(errno.EXDEV, "another disk")
os.link, os.rename = (os.link, across_disks) if sys.argv[2] == "split" else (die, os.rename)
it.open(sys.argv[1]).append([{"id": 1000}])
"""


def test_temporary_files_of_killed_writers_are_deleted_after_a_day(tmp_path: Path) -> None:
    """Temporary files are deleted by age: only those of this product, and none that a running writer may use."""
    table = make(tmp_path / "t", appends=2)
    before = set(tree(tmp_path / "t"))
    for what in ("split", "version"):
        child = subprocess.run([sys.executable, "-c", LEAVING, str(tmp_path / "t"), what], env=os.environ, check=False)
        assert child.returncode == -signal.SIGKILL
    left = {path for path in set(tree(tmp_path / "t")) - before if ".tmp-" in path}
    assert sorted(path.rpartition("/")[0].rpartition("/")[2] for path in left) == ["_transaction_log", "splits"]
    others = {"_transaction_log/.tmp-mine", "_transaction_log/.tmp-" + 32 * "0", ".tmp-" + left.copy().pop()[-32:], "mine/" + min(left)}
    for path in others:
        (tmp_path / "t" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / path).write_bytes(b"mine")
    time = FakeTime(ms=max(path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")) // 1_000_000 + 23 * 3_600_000)
    at_once = {"purge.retentionCheckEnabled": "false"}
    open_table(tmp_path / "t", clock=time.clock(), options=at_once).purge("0s")
    assert left | others <= set(tree(tmp_path / "t")), "after 23 hours they are kept"
    time.pass_days(7)
    (finding,) = [found for found in open_table(tmp_path / "t", clock=time.clock()).doctor() if found.code == "overdue-retention"]
    assert "2 files" in finding.message
    dry = open_table(tmp_path / "t", clock=time.clock()).purge(dry_run=True).to_dict()["plan"]
    assert {line["path"]: line["kind"] for line in dry} == dict.fromkeys(left, "temporary")
    report = open_table(tmp_path / "t", clock=time.clock()).purge()
    assert (report.status, report.metrics["files_deleted"]) == ("success", 0)
    assert set(tree(tmp_path / "t")) == before | others
    assert ids(table) == list(range(20))
