"""A purge that is killed in the middle: what is left is a table that reads, and the next purge does the rest."""

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
def test_a_killed_purge_is_taken_up_by_the_next(tmp_path: Path, deletes: int) -> None:
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
    assert gone <= {line["path"] for line in planned}, "only what was planned"
    assert len(gone) < len(planned)
    assert ids(it.open(tmp_path / "t")) == expected
    report = open_table(tmp_path / "t", clock=time.clock()).purge("7d", "1d")
    assert report.status == "success"
    assert before - set(tree(tmp_path / "t")) == {line["path"] for line in planned}, "all of it, by the second"
    assert ids(it.open(tmp_path / "t")) == expected
    it.open(tmp_path / "t").append(rows(300, 1))
