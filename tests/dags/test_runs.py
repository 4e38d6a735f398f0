"""Runs of the DAGs in Airflow, with a stub for spark-submit."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.airflow_project import StubSpark
from tests.support.processes import has_ended
from tests.support.tables import tree

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("database"),
    pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient` is deprecated"),  # in Airflow's in-process server
]

NOTHING_TO_DO = {"report": {"status": "no_action", "version": None}}


def run(bag: Any, dag_id: str, **conf: Any) -> Any:
    return bag.dags[dag_id].test(run_conf=conf or None)


def states(done: Any) -> dict[str, tuple[str, int]]:
    """State and number of tries of every task of one run."""
    return {ti.task_id: (str(ti.state), ti.try_number) for ti in done.get_task_instances()}


def xcom(done: Any, task_id: str) -> Any:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(key="return_value", run_id=done.run_id, dag_ids=done.dag_id, task_ids=task_id)
        rows = list(session.scalars(query))
        return XComModel.deserialize_value(rows[0]) if rows else None


def asset_events(done: Any) -> list[str]:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == done.run_id))
        return [event.asset.uri for event in found]


def test_maintenance_runs_its_steps_in_order_and_keeps_their_reports(bag: Any, spark: StubSpark, project: Path) -> None:
    spark.answer("merge_splits", {"report": {"metrics": {"groups": 3}}})
    done = run(bag, "indextables_logs_maintain")
    assert states(done) == {"merge_splits": ("success", 1), "checkpoint": ("success", 1), "purge": ("success", 1)}
    assert spark.jobs == ["merge_splits", "checkpoint", "purge"]
    assert xcom(done, "merge_splits")["metrics"] == {"groups": 3}
    assert spark.arguments("merge_splits")["target-size"] == "100M"
    for call in spark.calls:
        assert call["arguments"][0] == f"--table={project / 'warehouse' / 'logs'}"
        assert "--option=checkpoint.interval=5" in call["arguments"]


def test_jobs_get_only_the_options_of_the_tables_file(bag: Any, spark: StubSpark) -> None:
    """The file sets none for the table `bare`, so that the table's own options apply; for `logs` it sets source, partitions and size."""
    run(bag, "indextables_bare_maintain")
    run(bag, "indextables_logs_maintain")
    run(bag, "indextables_logs_write")
    given = [
        (call["job"], {word.partition("=")[0] for word in call["arguments"]} - {"--table", "--report", "--option"}) for call in spark.calls
    ]
    assert given == [
        ("merge_splits", set()),
        ("checkpoint", set()),
        ("purge", set()),
        ("merge_splits", {"--target-size"}),
        ("checkpoint", set()),
        ("purge", set()),
        ("write", {"--source", "--partition-by", "--txn-app", "--txn-version"}),
    ]


def test_a_form_may_clear_options_of_the_tables_file(bag: Any, spark: StubSpark) -> None:
    run(bag, "indextables_logs_maintain", target_size=None, where=None)
    assert set(spark.arguments("merge_splits")) == {"table", "option", "report"}


def test_a_table_without_maintain_options_is_merged_by_its_own_target_size(
    bag: Any, spark: StubSpark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The arguments that Airflow passes for a table without `maintain`, given to the real job."""
    import indextables as it
    from indextables.spark.jobs import main

    options = {"merge.targetSize": "1M", "checkpoint.enabled": "false"}
    table = it.create(tmp_path / "t", pa.schema([("text", pa.string())]), options=options)
    for number in range(3):
        table.append([{"text": random.Random(number).randbytes(300_000).hex()}])
    run(bag, "indextables_bare_maintain")
    words = [f"--table={table.path}", *spark.calls[0]["arguments"][1:-1], f"--report={tmp_path / 'report.json'}"]
    assert main("merge_splits", [*words, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["status"] == "no_action", "each split is more than 45 % of 1M"
    assert main("merge_splits", [*words, "--dry-run", "--target-size=5G"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["status"] == "success"


def test_steps_with_nothing_to_do_are_skipped_and_the_next_still_runs(bag: Any, spark: StubSpark) -> None:
    spark.answer("merge_splits", NOTHING_TO_DO)
    spark.answer("purge", NOTHING_TO_DO)
    done = run(bag, "indextables_logs_maintain")
    assert states(done) == {"merge_splits": ("skipped", 1), "checkpoint": ("success", 1), "purge": ("skipped", 1)}
    assert str(done.state) == "success"
    assert xcom(done, "merge_splits")["status"] == "no_action"


@pytest.mark.parametrize("code", [1, 75])
def test_failures_that_may_pass_are_retried(bag: Any, spark: StubSpark, code: int) -> None:
    spark.answer("checkpoint", {"exit": code, "report": {"status": "failed", "error": "the store is away"}}, {})
    done = run(bag, "indextables_logs_maintain")
    assert states(done)["checkpoint"] == ("success", 2)
    assert spark.jobs == ["merge_splits", "checkpoint", "checkpoint", "purge"]


def test_a_killed_job_is_retried(bag: Any, spark: StubSpark) -> None:
    spark.answer("checkpoint", {"signal": signal.SIGKILL, "report": None}, {})
    assert states(run(bag, "indextables_logs_maintain"))["checkpoint"] == ("success", 2)


@pytest.mark.parametrize("code", [2, 78])
def test_failures_that_never_pass_fail_at_once_and_stop_the_run(bag: Any, spark: StubSpark, code: int) -> None:
    spark.answer("checkpoint", {"exit": code, "report": None, "say": ["error: there is no table at 'x'"]})
    done = run(bag, "indextables_logs_maintain")
    assert states(done) == {"merge_splits": ("success", 1), "checkpoint": ("failed", 1), "purge": ("upstream_failed", 0)}
    assert str(done.state) == "failed"


def test_the_number_of_retries_is_limited(bag: Any, spark: StubSpark) -> None:
    spark.answer("merge_splits", {"exit": 75})
    done = run(bag, "indextables_logs_maintain")
    assert states(done) == {"merge_splits": ("failed", 3), "checkpoint": ("upstream_failed", 0), "purge": ("upstream_failed", 0)}


def test_form_values_reach_the_jobs_unchanged(bag: Any, spark: StubSpark) -> None:
    where = """host = '; rm -rf "$(HOME)" {{ 1 + 1 }} --force'"""
    run(
        bag,
        "indextables_logs_maintain",
        target_size="2 GiB",
        where=where,
        max_dest_splits=3,
        max_source_splits=50,
        older_than="0s",
        dry_run=True,
    )
    merge = spark.arguments("merge_splits")
    assert (merge["target-size"], merge["where"], merge["max-dest-splits"], merge["max-source-splits"]) == ("2 GiB", where, "3", "50")
    assert {"older-than": "0s", "dry-run": ""}.items() <= spark.arguments("purge").items()


def test_a_dry_run_applies_to_every_step(bag: Any, spark: StubSpark) -> None:
    run(bag, "indextables_logs_maintain", dry_run=True)
    assert spark.jobs == ["merge_splits", "checkpoint", "purge"]
    for job in spark.jobs:
        assert spark.arguments(job)["dry-run"] == ""


def test_every_job_of_maintenance_takes_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real jobs, on a real table that each of them would change."""
    import indextables as it
    from indextables.spark.jobs import main

    options = {"checkpoint.enabled": "false"}
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64())]), options=options)
    for number in range(3):
        table.append([{"id": number}])
    table.overwrite([{"id": 9}])
    table.append([{"id": 10}])
    before = tree(tmp_path)
    unchecked = "--option=purge.retentionCheckEnabled=false"
    for job, more in (("merge_splits", []), ("checkpoint", []), ("purge", ["--older-than=0s", unchecked])):
        assert main(job, [f"--table={table.path}", "--dry-run", *more]) == 0
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (report["dry_run"], report["status"], bool(report["plan"])) == (True, "success", True), report
        assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "conf",
    [{"target_size": "10X"}, {"older_than": "--x"}, {"max_source_splits": 1}, {"where": 7}, {"dry_run": "yes"}, {"target_size": ""}],
)
def test_a_bad_form_value_is_refused_before_anything_runs(bag: Any, spark: StubSpark, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises((ParamValidationError, ValueError), match=next(iter(conf))):
        run(bag, "indextables_logs_maintain", **conf)
    assert spark.calls == []


def test_a_write_updates_the_asset_and_is_one_transaction_over_all_retries(bag: Any, spark: StubSpark, project: Path) -> None:
    spark.answer("write", {"exit": 75}, {"exit": 1}, {})
    first = run(bag, "indextables_logs_write")
    assert states(first) == {"write": ("success", 3)}
    assert asset_events(first) == ["indextables://tables/logs"]
    tries = [spark.arguments("write", call) for call in range(3)]
    assert {key: tries[0][key] for key in ("source", "partition-by")} == {
        "source": str(project / "incoming"),
        "partition-by": "date,host",
    }
    assert len({(one["txn-app"], one["txn-version"]) for one in tries}) == 1
    assert tries[0]["txn-app"] == f"airflow:indextables_logs_write:{first.run_id}"

    run(bag, "indextables_logs_write", source="/elsewhere/a b.parquet", mode="overwrite")
    later = spark.arguments("write")
    assert later["txn-app"] != tries[0]["txn-app"]
    assert int(later["txn-version"]) > int(tries[0]["txn-version"]) > 0
    assert (later["source"], later["mode"]) == ("/elsewhere/a b.parquet", "overwrite")


def test_a_write_that_an_earlier_try_committed_still_updates_the_asset(bag: Any, spark: StubSpark) -> None:
    spark.answer("write", {"signal": signal.SIGKILL, "report": None}, {"report": {"status": "no_action", "version": 7}})
    done = run(bag, "indextables_logs_write")
    assert states(done) == {"write": ("success", 2)}
    assert asset_events(done) == ["indextables://tables/logs"]
    assert xcom(done, "write")["version"] == 7


def test_a_write_without_rows_is_skipped_and_does_not_update_the_asset(bag: Any, spark: StubSpark) -> None:
    spark.answer("write", NOTHING_TO_DO)
    done = run(bag, "indextables_logs_write")
    assert states(done) == {"write": ("skipped", 1)}
    assert asset_events(done) == []


def test_a_step_that_times_out_is_ended_with_its_driver(bag: Any, spark: StubSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bag.dags["indextables_bare_maintain"].get_task("merge_splits")
    monkeypatch.setattr(task, "retries", 0)
    spark.answer("merge_splits", {"child": 60})
    started = time.monotonic()
    done = run(bag, "indextables_bare_maintain")
    assert states(done)["merge_splits"] == ("failed", 1)
    assert time.monotonic() - started < 30
    assert has_ended(int((spark.folder / "driver.pid").read_text()))
    assert has_ended(spark.calls[0]["pid"])


def test_a_driver_that_outlives_its_jvm_is_ended_before_the_next_try(bag: Any, spark: StubSpark) -> None:
    spark.answer("merge_splits", {"child": 0, "signal": signal.SIGKILL}, {})
    done = run(bag, "indextables_bare_maintain")
    assert states(done)["merge_splits"] == ("success", 2)
    assert has_ended(int((spark.folder / "driver.pid").read_text()))


def test_spark_settings_of_a_table_reach_spark_submit(bag: Any, spark: StubSpark) -> None:
    run(bag, "indextables_bare_maintain")
    submit = spark.calls[0]["submit"]
    settings = [submit[place + 1] for place, word in enumerate(submit) if word == "--conf"]
    assert {"spark.executor.memory=2g", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1"} <= set(settings)
    assert submit[:2] == ["--master", "local[2]"]
