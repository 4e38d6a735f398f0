"""A light start: what is not used is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it

HEAVY = {"pyarrow", "tantivy", "pandas", "rich", "numpy", "pyspark", "airflow", "fastavro", "s3fs", "fsspec", "lark"}
LOOK = "import json, sys; print(json.dumps(sorted(m for m in sys.modules if '.' not in m)), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The modules a fresh interpreter has after running the code."""
    done = subprocess.run([sys.executable, "-c", f"{code}\n{LOOK}"], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def command(*arguments: str) -> str:
    return f"from indextables.cli.main import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass"


@pytest.mark.parametrize(
    "code",
    ["import indextables as it; it.IndexTablesError; it.__version__", command("--help"), command("search", "--help"), command("nosuch")],
    ids=["import", "help", "help of a verb", "usage error"],
)
def test_nothing_heavy_is_imported_before_it_is_used(code: str) -> None:
    assert not imported(code) & HEAVY


def test_the_look_sees_what_is_there() -> None:
    assert "pyarrow" in imported("import indextables as it; it.open")


def test_a_search_imports_no_pandas(tmp_path: Path) -> None:
    """It takes as long to import as all the rest. Arrow imports it for the first list that it converts, and for times."""
    table = it.create(tmp_path / "t", pa.schema([("ts", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("m", pa.string())]))
    table.append([{"ts": datetime(2024, 1, 31, tzinfo=UTC), "day": date(2024, 1, 31), "m": "disk full"}])
    found = imported(command("search", str(tmp_path / "t"), "disk", "--json"))
    assert "tantivy" in found
    assert "pandas" not in found
