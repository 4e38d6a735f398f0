"""Ctrl-C while a job starts Spark: one line, exit code 130, and no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.spark import ROOT, environment

PATIENCE = 100  # seconds


def processes_of(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def wait_for_spark(session: int) -> None:
    """Until the job has started the process that becomes Spark's JVM."""
    for _ in range(PATIENCE * 100):
        for process in processes_of(session):
            try:
                if "org.apache.spark.deploy.SparkSubmit" in process.cmdline():
                    return
            except psutil.Error:
                continue
        time.sleep(0.01)
    raise AssertionError("the job did not start Spark")


@pytest.mark.spark
def test_an_interrupt_while_spark_starts_leaves_no_process(tmp_path: Path) -> None:
    """Spark's JVM would never end if its driver went away before they are connected."""
    (tmp_path / "rows.csv").write_text("id,name\n1,a\n", "utf-8")
    command = [sys.executable, str(ROOT / "jobs" / "write.py"), "--table", str(tmp_path / "t"), "--source", str(tmp_path / "rows.csv")]
    out, errors = tmp_path / "stdout", tmp_path / "stderr"
    with out.open("w") as stdout, errors.open("w") as stderr:
        job = subprocess.Popen(command, env=environment(), cwd=tmp_path, stdout=stdout, stderr=stderr, start_new_session=True)
        try:
            wait_for_spark(job.pid)
            job.send_signal(signal.SIGINT)
            assert job.wait(PATIENCE) == 130
            for _ in range(PATIENCE * 10):
                if not processes_of(job.pid):
                    break
                time.sleep(0.1)
            assert processes_of(job.pid) == []
        finally:
            for process in processes_of(job.pid):
                process.kill()
    assert errors.read_text("utf-8").splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in errors.read_text("utf-8")
    assert json.loads(out.read_text("utf-8").splitlines()[-1])["error"] == "interrupted"
    assert not (tmp_path / "t").exists()
