"""The targets of the Makefile, their help lines, and the command that continuous integration runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = {"help", "install", "demo", "up", "down", "test", "test-long", "scorecard", "bench", "lint", "constraints", "clean"}


def make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `make` as from a shell, without the variables that a surrounding `make test` sets."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment["PATH"] = path or environment["PATH"]
    program = shutil.which("make")
    assert program is not None
    return subprocess.run([program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_make_alone_prints_each_target_with_one_line() -> None:
    done = make(ROOT)
    assert done.returncode == 0
    lines = dict(re.findall(r"^  ([a-z-]+) +(\S.*)$", done.stdout, re.MULTILINE))
    assert set(lines) == TARGETS
    assert all(len(line) > 10 for line in lines.values())


def test_every_target_is_phony_and_has_its_help_line() -> None:
    phony = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    helped = set(re.findall(r"^([a-z][a-z-]*):.*## \S", MAKEFILE, re.MULTILINE))
    assert targets == helped == phony == TARGETS


@pytest.mark.parametrize("target", ["demo", "up", "test", "lint"])
def test_targets_install_by_themselves(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    planned = make(tmp_path, "--dry-run", target)
    assert planned.returncode == 0, planned.stderr
    assert "-m venv .venv" in planned.stdout


def test_an_old_python_is_refused_in_one_line_without_creating_an_environment(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("cat", "cksum", "date", "rm", "sh", "test"):
        found = shutil.which(name)
        assert found is not None
        (binaries / name).symlink_to(found)
    old = binaries / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n', "utf-8")
    old.chmod(0o755)
    done = make(tmp_path, "install", path=str(binaries))
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed; python3 is Python 3.9.2" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_clean_keeps_the_environment_and_the_sources(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in (".venv/lib/__pycache__", "indextables/__pycache__", "warehouse/t", ".mypy_cache"):
        (tmp_path / folder).mkdir(parents=True)
    assert make(tmp_path, "clean").returncode == 0
    assert (tmp_path / ".venv/lib/__pycache__").exists()
    assert (tmp_path / "indextables").exists()
    assert not any((tmp_path / gone).exists() for gone in ("indextables/__pycache__", "warehouse", ".mypy_cache"))


def test_continuous_integration_runs_make_test() -> None:
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    lines = run.read_text("utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "exec make test"
