"""A dry run of checkpoint changes nothing and reports what the checkpoint will do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main
from indextables.spark.jobs import main as run_job
from tests.support.tables import tree

SCHEMA = pa.schema([("id", pa.int64())])
FORMATS = ["avro", "json", "parquet"]


def build(path: Path, form: str, **options: Any) -> it.Table:
    """A table with versions 1 to 6 and a checkpoint of version 3, all of them 40 days old."""
    chosen = {"checkpoint.enabled": "false", "state.format": form, "checkpoint.retention": "0", "state.retention.versions": "1", **options}
    table = it.create(path, SCHEMA, options=chosen)
    for number in range(6):
        table.append([{"id": number}])
        if number == 2:
            table.checkpoint()
    for file in path.rglob("*"):
        then = file.stat().st_mtime - 40 * 86_400
        os.utime(file, (then, then))
    return table


def steps(report: it.Report, action: str) -> set[str]:
    return {step["path"] for step in report.plan or () if step["action"] == action}


@pytest.mark.parametrize("form", FORMATS)
def test_a_dry_run_changes_nothing_and_reports_what_checkpoint_will_do(tmp_path: Path, form: str) -> None:
    table = build(tmp_path / "t", form)
    before, version = tree(tmp_path), table.version
    planned = table.checkpoint(dry_run=True)
    assert tree(tmp_path) == before
    assert table.version == version
    assert (planned.status, planned.dry_run, planned.version, planned.base_version) == ("success", True, None, version)
    assert planned.metrics["num_files"] == 6

    done = table.checkpoint()
    after = tree(tmp_path)
    assert steps(planned, "commit") == set()
    written = {f"t/{path}" for path in steps(planned, "write")}
    assert len(written) == 1
    assert written <= set(after) - set(before)
    assert {f"t/{path}" for path in steps(planned, "delete")} == set(before) - set(after)
    assert steps(planned, "delete")
    assert {name: done.metrics[name] for name in planned.metrics} == planned.metrics


def test_a_dry_run_names_the_version_that_a_checkpoint_has_to_commit_first(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", SCHEMA, options={"checkpoint.enabled": "false", "state.format": "json"})
    table.append([{"id": 1}])
    options = {"state.format": "avro"}
    before = tree(tmp_path)
    planned = it.open(table.path, options=options).checkpoint(dry_run=True)
    assert tree(tmp_path) == before
    done = it.open(table.path, options=options).checkpoint()
    new = set(tree(tmp_path)) - set(before)
    assert (done.base_version, done.version) == (1, 2)
    assert {f"t/{path}" for path in steps(planned, "commit") | steps(planned, "write")} <= new
    assert len(steps(planned, "commit")) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_dry_run_after_a_checkpoint_has_nothing_to_do(tmp_path: Path, form: str) -> None:
    table = build(tmp_path / "t", form)
    table.checkpoint()
    planned = table.checkpoint(dry_run=True)
    assert (planned.status, planned.plan, table.checkpoint().status) == ("no_action", [], "no_action")


def test_a_dry_run_reports_that_a_damaged_checkpoint_is_written_again(tmp_path: Path) -> None:
    table = build(tmp_path / "t", "json", **{"cleanup.enabled": "false"})
    table.checkpoint()
    (damaged,) = (tmp_path / "t" / "_transaction_log").glob("*6.checkpoint.json")
    damaged.write_bytes(b"{")
    planned = table.checkpoint(dry_run=True)
    assert steps(planned, "write") == {f"_transaction_log/{damaged.name}"}
    assert damaged.read_bytes() == b"{"


def test_terminal_and_job_accept_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = build(tmp_path / "t", "avro")
    before = tree(tmp_path)
    expected = table.checkpoint(dry_run=True)
    assert main(["checkpoint", table.path, "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert main(["checkpoint", table.path, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert all(f"would: {step['action']} {step['path']}"[:60] in text for step in shown["plan"])
    assert run_job("checkpoint", ["--table", table.path, "--dry-run"]) == 0
    reported = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["plan"] == reported["plan"] == list(expected.plan or ())
    assert shown["dry_run"] is reported["dry_run"] is True
    assert tree(tmp_path) == before
