"""The import contracts of pyproject.toml detect violations: each case adds one import to a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")
PLANTED = {
    "a lazy import": ("storage/store.py", "\ndef planted() -> None:\n    from indextables.storage import local\n"),
    "a type-only import": (
        "storage/store.py",
        "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from indextables.storage import local\n",
    ),
    "an import between sub-packages": ("splits/format/stats.py", "\nfrom indextables.splits.query import tree\n"),
    "an import deep in a sub-package": ("state/checkpoints/avro/entry.py", "\nfrom indextables.state.checkpoints.avro import encode\n"),
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("indextables", "jobs", "dags"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def broken(root: Path, contract: str) -> tuple[bool, str]:
    """Whether import-linter finds the contract broken in this tree, and what it prints."""
    command = [str(LINT), "--no-logo", "--no-cache", "--contract", contract]
    found = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False)
    assert "Contracts:" in found.stdout, found.stdout + found.stderr
    return found.returncode != 0, found.stdout


def test_there_is_no_cycle_between_siblings(copy: Path) -> None:
    assert not broken(copy, "acyclic")[0]


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_cycle_breaks_the_contract(copy: Path, kind: str) -> None:
    path, text = PLANTED[kind]
    with (copy / "indextables" / path).open("a") as file:
        file.write(text)
    is_broken, output = broken(copy, "acyclic")
    assert is_broken
    package = ".".join(("indextables", *Path(path).parent.parts[: 3 if kind.endswith("deep in a sub-package") else 1]))
    assert f"No cycles are allowed in {package}." in output
