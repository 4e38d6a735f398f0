"""Fast start: heavy libraries are imported only when they are used."""

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
PRINT_MODULES = "import json, sys; print(json.dumps(sorted(m for m in sys.modules if '.' not in m)), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The top-level modules that are imported in a new interpreter after running the code."""
    done = subprocess.run([sys.executable, "-c", f"{code}\n{PRINT_MODULES}"], capture_output=True, text=True, timeout=60, check=True)
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


def test_imported_modules_are_found() -> None:
    assert "pyarrow" in imported("import indextables as it; it.open")


def test_a_search_imports_no_pandas(tmp_path: Path) -> None:
    """Importing pandas takes as long as all other imports. Arrow imports it to convert lists and times."""
    table = it.create(tmp_path / "t", pa.schema([("ts", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("m", pa.string())]))
    table.append([{"ts": datetime(2024, 1, 31, tzinfo=UTC), "day": date(2024, 1, 31), "m": "disk full"}])
    found = imported(command("search", str(tmp_path / "t"), "disk", "--json"))
    assert "tantivy" in found
    assert "pandas" not in found
