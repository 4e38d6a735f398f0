"""The demo itself, end to end with less data: in its own project folder, with real Airflow and real spark-submits."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import indextables as it

ROOT = Path(__file__).resolve().parents[2]
SMALL_DEMO = "import sys; from indextables.airflow.local import demo; demo.BATCHES, demo.ROWS = 2, 300; sys.exit(demo.main())"


@pytest.mark.airflow
@pytest.mark.spark
def test_the_demo_runs_end_to_end(tmp_path: Path) -> None:
    for folder in ("dags", "jobs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    done = subprocess.run([sys.executable, "-c", SMALL_DEMO], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    log = tmp_path / ".airflow" / "demo" / "demo.log"
    assert done.returncode == 0, done.stderr + (log.read_text()[-5000:] if log.exists() else "")
    assert "merge_splits success, checkpoint success, purge skipped" in done.stdout
    shown = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.startswith("  ") and len(line.split()) == 3}
    assert (shown["health"], shown["findings"]) == (["ok", "ok"], ["none", "none"]), done.stdout
    assert [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("  dead splits")] == [["0", "6"]]
    assert [line.split()[-2] for line in done.stdout.splitlines() if line.endswith(" rows")] == ["0", "300", "600", "600"]
    table = it.open(tmp_path / "warehouse" / "demo_logs")
    assert table.count() == 600
    assert (table.files().num_rows, len(list((tmp_path / "warehouse" / "demo_logs").rglob("*.split")))) == (3, 9)
    for version, rows in enumerate((0, 300, 600, 600)):
        older = it.open(table.path, version=version)
        assert sum(batch.num_rows for batch in older.scan()) == rows, "every version of the table can be read after the demo"
        assert older.verify(deep=True) == []
    history = table.history().to_pylist()
    assert [entry["operation"] for entry in history] == ["merge_splits", "append", "append", "create"]
    assert [entry["job_id"].split("/")[::2] for entry in history[:2]] == [
        ["indextables_demo_logs_maintain", "merge_splits"],
        ["indextables_demo_logs_write", "write"],
    ]
    assert table.search("connection AND refused").num_rows == 10
    assert (tmp_path / "warehouse" / "demo_logs" / "_transaction_log" / "_last_checkpoint").exists()
