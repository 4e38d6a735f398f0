"""A light start: what is not used is not imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"pyarrow", "tantivy", "pandas", "rich", "numpy", "pyspark", "airflow", "fastavro", "s3fs", "fsspec"}
LOOK = "import json, sys; print(json.dumps(sorted(m for m in sys.modules if '.' not in m)), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The modules a fresh interpreter has after running the code."""
    done = subprocess.run([sys.executable, "-c", f"{code}\n{LOOK}"], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def command(*arguments: str) -> str:
    return f"from indextables.cli import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass"


@pytest.mark.parametrize(
    "code",
    ["import indextables as it; it.IndexTablesError; it.__version__", command("--help"), command("search", "--help"), command("nosuch")],
    ids=["import", "help", "help of a verb", "usage error"],
)
def test_nothing_heavy_is_imported_before_it_is_used(code: str) -> None:
    assert not imported(code) & HEAVY


def test_the_look_sees_what_is_there() -> None:
    assert "pyarrow" in imported("import indextables as it; it.open")
