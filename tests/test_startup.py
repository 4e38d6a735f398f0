"""Ctrl-C while a process still imports its modules: one line and exit code 130, however the process was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.repository.test_lazy_imports import imported
from tests.support.tables import make

ROOT = Path(__file__).parents[1]
DELAYS = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)
# Loaded by Python before the program. Writes a byte to the test when the program starts to import its modules.
ANNOUNCE = """\
import os, sys

class Announce:
    def find_spec(self, name, path=None, target=None):
        if name in ("indextables.cli.main", "indextables.spark.jobs"):
            sys.meta_path.remove(self)
            os.write(int(os.environ["ANNOUNCE"]), b"!")

sys.meta_path.insert(0, Announce())
"""
# The script that installers write for an entry point.
SCRIPT = "import sys\nfrom {module} import {function}\nif __name__ == '__main__':\n    sys.exit({function}())\n"


@pytest.fixture
def table(tmp_path: Path) -> str:
    return make(tmp_path / "t", 1).path


def console_script(folder: Path) -> str:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]["indextables"]
    module, function = declared.split(":")
    path = folder / "indextables-script"
    path.write_text(SCRIPT.format(module=module, function=function), "utf-8")
    return str(path)


def interrupted_after(delay: float, folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a process that gets SIGINT `delay` seconds after it starts its imports."""
    (folder / "sitecustomize.py").write_text(ANNOUNCE, "utf-8")
    reader, writer = os.pipe()
    variables = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "ANNOUNCE": str(writer)}
    with subprocess.Popen(
        [sys.executable, *arguments], env=variables, pass_fds=[writer], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writer)
        assert os.read(reader, 1) == b"!", "the process ended before it imported anything"
        os.close(reader)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=60)[1]
    return process.returncode, stderr


@pytest.mark.parametrize("started", ["script", "-m", "job"])
def test_an_interrupt_during_imports_is_one_line(started: str, table: str, tmp_path: Path) -> None:
    command = {
        "script": [console_script(tmp_path), "count", table, "--where", "id > 3"],
        "-m": ["-m", "indextables", "count", table, "--where", "id > 3"],
        "job": [str(ROOT / "jobs" / "health.py"), "--table", table],
    }[started]
    found = {delay: interrupted_after(delay, tmp_path, *command) for delay in DELAYS}
    assert set(found.values()) <= {(130, "error: interrupted\n"), (0, "")}, found  # it may have finished before
    assert found[0.0] == (130, "error: interrupted\n")


@pytest.mark.parametrize("job", ["write.py", "merge_splits.py", "checkpoint.py", "purge.py", "health.py"])
def test_every_job_handles_an_interrupt_before_its_imports(job: str, table: str, tmp_path: Path) -> None:
    assert interrupted_after(0.0, tmp_path, str(ROOT / "jobs" / job), "--table", table) == (130, "error: interrupted\n")


@pytest.mark.parametrize("arguments", [["-m", "indextables", "--version"], [str(ROOT / "jobs" / "health.py"), "--help"]])
def test_an_ignored_interrupt_stays_ignored(arguments: list[str], tmp_path: Path) -> None:
    """As under `nohup`, or in the background of a script."""
    code = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    assert interrupted_after(0.0, tmp_path, "-c", code, sys.executable, *arguments) == (0, "")


def test_almost_nothing_is_imported_before_the_interrupt_is_handled() -> None:
    bare = imported("import importlib, __future__")
    assert imported("import indextables.startup") - bare == {"indextables"}
    assert imported("import indextables.spark") - bare == {"indextables"}
