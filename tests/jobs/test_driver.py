"""The driver's Python process as a child of spark-submit's JVM: it dies with it, and its errors do not get into the report's stdout."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

from tests.support.spark import ROOT

# Acts as the JVM: starts the driver with stderr redirected to stdout, prints its first line, and waits.
PARENT = """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(child.stdout.readline().strip(), flush=True)
    child.wait()
"""
DRIVER = """
    import os, sys, time
    from indextables.spark import job
    {call}
    print("oops", file=sys.stderr, flush=True)
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


def parent_of(call: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(PARENT), textwrap.dedent(DRIVER).format(call=call)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=pipe, stderr=pipe, text=True)


def test_a_driver_dies_with_its_parent_and_uses_its_stderr() -> None:
    with parent_of("job.die_with_parent(); job.redirect_stderr()") as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        driver = int(parent.stdout.readline())
        parent.kill()
        assert parent.stderr.read() == "oops\n"  # ends when the driver, its last writer, is gone
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{driver}") and _state(driver) != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{driver}") or _state(driver) == "Z"


def _state(process: int) -> str:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"
