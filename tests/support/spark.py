"""Runs jobs of this checkout on real Spark, with this Python and the options for a fast start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indextables.environment import spark_environment

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """Environment variables with which a process runs this checkout on Spark, even if another version is installed."""
    return spark_environment({**os.environ, "PYTHONPATH": str(ROOT)})


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        """The last line of stdout."""
        document: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return document


def submit(job: str, *arguments: object, cwd: Path) -> Done:
    """Runs a job by spark-submit from a folder other than this checkout."""
    command = ["spark-submit", "--master", "local[2,4]", str(ROOT / "jobs" / job), *map(str, arguments)]
    return _run(command, environment(), cwd)


def python(job: str, *arguments: object, cwd: Path) -> Done:
    """Runs a job with plain Python. `java` is replaced by a script that fails, so a job that starts Spark fails."""
    trap = cwd / "no-java"
    (trap / "bin").mkdir(parents=True, exist_ok=True)
    (trap / "bin" / "java").write_text("#!/bin/sh\necho JAVA WAS STARTED >&2\nexit 99\n", "utf-8")
    (trap / "bin" / "java").chmod(0o755)
    command = [sys.executable, "-X", "importtime", str(ROOT / "jobs" / job), *map(str, arguments)]
    done = _run(command, {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(trap), "PATH": f"{trap}/bin:/usr/bin:/bin"}, cwd)
    assert "JAVA WAS STARTED" not in done.stderr
    assert " pyspark\n" not in done.stderr, "pyspark was imported"
    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    return Done(done.code, done.stdout, "\n".join(lines))


def _run(command: list[str], variables: dict[str, str], cwd: Path) -> Done:
    done = subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)
    return Done(done.returncode, done.stdout, done.stderr)
