"""What a job checks before Spark starts: arguments, options, table, source, and whether there is anything to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main as terminal
from indextables.spark import session as sessions
from indextables.spark.jobs import JOBS, main
from tests.support.spark import ROOT, python

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string())])


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(sessions, "_start", refuse)


@pytest.fixture
def table(tmp_path: Path) -> it.Table:
    table = it.create(tmp_path / "table", SCHEMA, partition_by=["level"])
    table.append([{"id": 1, "level": "INFO"}], txn=("app", 3))
    return table


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 2, "level": "INFO"}\n', "utf-8")
    return path


def run(job: str, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and stderr."""
    code = main(job, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    report: dict[str, Any] = json.loads(captured.out.splitlines()[-1])
    return code, report, captured.err


WRITE = ["--source", "{source}"]


@pytest.mark.parametrize(
    ("job", "arguments", "code", "message"),
    [
        ("write", [], 2, "the following arguments are required: --source"),
        ("write", [*WRITE, "--format", "orc"], 2, "invalid choice: 'orc'"),
        ("write", [*WRITE, "--mode", "upsert"], 2, "invalid choice: 'upsert'"),
        ("write", [*WRITE, "--txn-app", "a"], 2, "--txn-app and --txn-version must be given together"),
        ("write", [*WRITE, "--txn-app", "a", "--txn-version", "x"], 2, "invalid int value: 'x'"),
        ("write", [*WRITE, "--replace-where", "level = 'x'"], 2, "--replace-where requires --mode overwrite"),
        ("write", [*WRITE, "--mode", "overwrite", "--replace-where", "level ="], 2, "the end"),
        ("write", [*WRITE, "--mode", "overwrite", "--replace-where", "id = 1"], 2, "'id'"),
        ("write", [*WRITE, "--partition-by", "id"], 1, "the table is partitioned by level, not by id"),
        ("write", [*WRITE, "--option", "speed=high"], 78, "unknown option 'speed'"),
        *((job, [*(WRITE if job == "write" else []), "--option", "speed"], 2, "'speed' is not of the form key=value") for job in JOBS),
        ("checkpoint", ["--option", "=high"], 2, "'=high' is not of the form key=value"),
        ("write", ["--source", "{source}-missing"], 1, "there is no file or folder"),
        ("write", [*WRITE, "--report", "{source}/no/report.json"], 2, "report .* cannot be written"),
        ("merge_splits", ["--target-size", "big"], 2, "'big' is not a size"),
        ("merge_splits", ["--target-size", "1K"], 2, "below the minimum of 1M"),
        ("merge_splits", ["--where", "id > 0"], 2, "'id'"),
        ("merge_splits", ["--max-dest-splits", "0"], 2, "--max-dest-splits 0"),
        ("merge_splits", ["--max-source-splits", "1"], 2, "--max-source-splits 1"),
        ("merge_splits", ["--option", "merge.targetSize=tiny"], 78, "merge.targetSize = 'tiny'"),
        ("purge", ["--older-than", "soon"], 2, "'soon' is not a duration"),
        ("purge", ["--log-retention", "-1d"], 2, "expected one argument|'-1d' is not a duration"),
        ("checkpoint", ["--fast"], 2, "unrecognized arguments: --fast"),
    ],
)
def test_errors_are_one_line_in_stderr_and_report(
    job: str, arguments: list[str], code: int, message: str, table: it.Table, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [text.format(source=source) for text in arguments]
    found, report, stderr = run(job, capsys, "--table", table.path, *given)
    assert found == code
    assert (report["status"], report["table"], report["version"]) == ("failed", table.path, None)
    assert report["operation"] == (("overwrite" if "overwrite" in arguments else "append") if job == "write" else job)
    lines = stderr.splitlines()
    assert lines[0] == f"error: {report['error']}"
    assert len(lines) == 1 or lines[2].strip() == "^"
    assert re.search(message, report["error"])
    assert it.open(table.path).version == 1


@pytest.mark.parametrize("job", ["merge_splits", "checkpoint", "purge", "health"])
def test_a_missing_table_exits_with_78(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, stderr = run(job, capsys, "--table", tmp_path, "--report", tmp_path / "report.json")
    assert code == 78
    assert stderr == f"error: no transaction log found at {tmp_path}\n"
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == report
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_a_report_is_written_even_without_the_table_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = run("purge", capsys, "--report", tmp_path / "report.json", "--dry-run")
    assert (code, report["table"], report["status"]) == (2, "", "failed")
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == report


@pytest.mark.parametrize("address", ["s3://canary:hunter2@bucket/t", "https://x.blob.core.windows.net/c/t?sig=hunter2"])
@pytest.mark.parametrize("job", JOBS)
def test_no_report_repeats_a_credential_in_an_address(job: str, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """R19: the table of the report is only the scheme then."""
    source = ["--source", tmp_path / "x.csv"] if job == "write" else []
    code, report, stderr = run(job, capsys, "--table", address, *source)
    assert (code, report["table"]) == (78, f"{address.partition(':')[0]}:…")
    assert "hunter2" not in f"{report}{stderr}"


def test_a_credential_in_the_address_of_a_source_is_refused(table: it.Table, capsys: pytest.CaptureFixture[str]) -> None:
    source = "s3://canary:hunter2@bucket/x.csv"
    code, report, stderr = run("write", capsys, "--table", table.path, "--source", source)
    assert (code, report["error"]) == (78, "the s3 address carries credentials; they come from the environment, a profile or the instance")
    assert terminal(["append", table.path, source]) == 78
    assert "hunter2" not in f"{report}{stderr}{capsys.readouterr().err}"


def test_nothing_to_do_ends_without_spark(table: it.Table, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job, more in (("merge_splits", []), ("purge", []), ("write", ["--source", source, "--txn-app", "app", "--txn-version", "3"])):
        code, report, stderr = run(job, capsys, "--table", table.path, *more)
        assert (code, report["status"], report["error"], stderr) == (0, "no_action", None, "")
    assert report["version"] == 1, "a txn that was written before reports its version"


def test_dry_runs_need_no_spark(table: it.Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.append([{"id": 2, "level": "INFO"}])
    _, merging, _ = run("merge_splits", capsys, "--table", table.path, "--dry-run")
    table.merge_splits()
    _, purging, _ = run(
        "purge", capsys, "--table", table.path, "--dry-run", "--older-than", "0s", "--option", "purge.retentionCheckEnabled=false"
    )
    assert (merging["dry_run"], [group["rows"] for group in merging["plan"]]) == (True, [2])
    assert [step["kind"] for step in purging["plan"]] == ["split", "split"]
    assert len(list(Path(table.path).rglob("*.split"))) == 3


def test_checkpoint_and_small_purges_run_without_spark(table: it.Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.overwrite([{"id": 2, "level": "INFO"}])
    code, report, _ = run("checkpoint", capsys, "--table", table.path)
    assert (code, report["status"], report["metrics"]["num_files"]) == (0, "success", 1)
    options = ["--older-than", "0s", "--option", "purge.retentionCheckEnabled=false"]
    code, report, _ = run("purge", capsys, "--table", table.path, *options)
    assert (code, report["status"], report["metrics"]["files_deleted"]) == (0, "success", 1)


def test_health_runs_without_spark_and_is_a_report_with_the_document(table: it.Table, capsys: pytest.CaptureFixture[str]) -> None:
    """Also for a damaged table: the job succeeds, and the document has the findings."""
    code, report, _ = run("health", capsys, "--table", table.path)
    assert (code, report["operation"], report["status"], report["base_version"]) == (0, "health", "success", 1)
    document = table.health()
    assert {**report["health"], "checked_at": ""} == {**document, "checked_at": ""}
    assert report["metrics"]["num_files"] == report["health"]["num_files"] == 1
    Path(table.path, table.files().column("path")[0].as_py()).unlink()
    code, report, _ = run("health", capsys, "--table", table.path)
    assert (code, report["status"], report["health"]["status"]) == (0, "success", "error")
    assert report["warnings"][0].startswith("missing-split: 1 live split is missing")


def test_the_report_of_a_failed_job_names_splits_left_behind(
    table: it.Table, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(name: str) -> Any:
        error = RuntimeError("the executors are gone")
        error.add_note("1 split is not referenced by any version; purge will delete it: 'x'")
        raise error

    monkeypatch.setattr(sessions, "_start", lost)
    code, report, _ = run("write", capsys, "--table", table.path, "--source", source)
    assert (code, report["status"], report["error"]) == (1, "failed", "RuntimeError: the executors are gone")
    assert report["warnings"] == ["1 split is not referenced by any version; purge will delete it: 'x'"]


def test_an_unexpected_error_is_one_line_after_its_trace(table: it.Table, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, stderr = run("write", capsys, "--table", table.path, "--source", source)
    assert (code, report["error"]) == (1, "AssertionError: Spark was started")
    assert "Traceback" in stderr, "unexpected errors are shown with their trace"
    assert stderr.endswith("error: AssertionError: Spark was started\n")


def test_help_and_usage_need_neither_java_nor_pyspark(tmp_path: Path) -> None:
    for job in ("write.py", "merge_splits.py", "checkpoint.py", "purge.py"):
        done = python(job, "--help", cwd=tmp_path)
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: jobs/{job}")
    done = python("write.py", "--table", "x", cwd=tmp_path)
    assert (done.code, done.report["status"]) == (2, "failed")


def test_a_job_with_nothing_to_do_needs_neither_java_nor_pyspark(table: it.Table, tmp_path: Path) -> None:
    for job in ("merge_splits.py", "checkpoint.py", "purge.py"):
        done = python(job, "--table", table.path, "--report", "report.json", cwd=tmp_path)
        assert done.code == 0, done.stderr
        assert json.loads((tmp_path / "report.json").read_text("utf-8")) == done.report
        assert done.report["operation"] == job.removesuffix(".py")


def test_a_job_that_needs_java_reports_that_it_is_missing(table: it.Table, source: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    root = ROOT
    command = [sys.executable, str(root / "jobs" / "write.py"), "--table", table.path, "--source", str(source)]
    code = "import sys, indextables.environment as e; e.find_java.__defaults__ = (e.Path('/nowhere'),)"
    (empty / "sitecustomize.py").write_text(code, "utf-8")
    variables = {"PATH": str(empty), "PYTHONPATH": f"{empty}:{root}", "HOME": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 78
    assert done.stderr.startswith("error: no Java 17 or newer in JAVA_HOME (not set) or on PATH")
