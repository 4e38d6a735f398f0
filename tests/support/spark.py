"""Real Spark for tests: this checkout, this Python, the start-up cuts."""

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
    """What a process needs to run this checkout on Spark, whatever is installed in the environment."""
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
    """A job by spark-submit, from a folder that is not this checkout."""
    command = ["spark-submit", "--master", "local[2,4]", str(ROOT / "jobs" / job), *map(str, arguments)]
    return _run(command, environment(), cwd)


def python(job: str, *arguments: object, cwd: Path) -> Done:
    """A job by plain Python, with a trap instead of Java: a job that starts it fails and says so."""
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
