"""The four jobs run by a real spark-submit, from a folder outside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import indextables as it
from tests.support.spark import Done, submit

pytestmark = pytest.mark.spark


def checked(done: Done, report: Path) -> dict[str, object]:
    """The metrics of a successful job, whose report is the same on stdout and in the file."""
    assert done.code == 0, done.stderr
    assert json.loads(report.read_text("utf-8")) == done.report
    assert done.report["status"] == "success"
    assert done.stdout.count("\n") == 1, "stdout has only the report"
    return done.report["metrics"]


def test_write_merge_checkpoint_purge(tmp_path: Path) -> None:
    source, table, report = tmp_path / "rows", tmp_path / "table", tmp_path / "report.json"
    source.mkdir()
    for part in range(2):
        numbers = range(part * 100, part * 100 + 100)
        columns = {
            "id": pa.array(numbers),
            "level": ["ERROR" if n % 2 else "INFO" for n in numbers],
            "message": [f"word{n}" for n in numbers],
        }
        parquet.write_table(pa.table(columns), source / f"{part}.parquet")
    shared = ("--table", table, "--report", report)

    written = checked(submit("write.py", *shared, "--source", source, "--partition-by", "level", cwd=tmp_path), report)
    assert (written["rows_written"], it.open(table).version) == (200, 1)
    it.open(table).append([{"id": n, "level": "INFO", "message": f"word{n}"} for n in range(200, 250)])

    merged = checked(submit("merge_splits.py", *shared, "--where", "level = 'INFO'", cwd=tmp_path), report)
    assert (merged["groups"], merged["files_added"], merged["rows"]) == (1, 1, 150)

    checkpointed = checked(submit("checkpoint.py", *shared, cwd=tmp_path), report)
    assert checkpointed["num_files"] == len(it.open(table).files())

    arguments = ("--older-than", "0s", "--option", "purge.retentionCheckEnabled=false")
    purged = checked(submit("purge.py", *shared, *arguments, cwd=tmp_path), report)
    assert purged["files_deleted"] == merged["files_removed"]

    rows = it.open(table)
    assert sorted(rows.scan(columns=["id"]).read_all()["id"].to_pylist()) == list(range(250))
    assert rows.search("message:word207", columns=["id"])["id"].to_pylist() == [207]
    assert {file.name for file in tmp_path.iterdir()} == {"rows", "table", "report.json"}, (
        "the job leaves no other file in the working folder"
    )


def test_an_unreadable_source_is_a_one_line_error_and_leaves_no_table(tmp_path: Path) -> None:
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and then the power went")
    done = submit("write.py", "--table", tmp_path / "table", "--source", tmp_path / "half.parquet", cwd=tmp_path)
    assert done.code == 1
    assert done.report["status"] == "failed"
    assert str(tmp_path / "half.parquet") in done.report["error"]
    assert done.stderr.splitlines()[-1] == f"error: {done.report['error']}"
    assert not (tmp_path / "table").exists()


def test_spark_submit_returns_the_exit_code_of_the_job(tmp_path: Path) -> None:
    done = submit("merge_splits.py", "--table", tmp_path / "nothing", cwd=tmp_path)
    assert (done.code, done.report["status"]) == (78, "failed")
    assert "error: no transaction log found" in done.stderr
