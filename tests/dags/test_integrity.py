"""The DAGs as Airflow sees them: they load without heavy imports, serialise, and have the documented settings."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_project import SOURCE, make_project

pytestmark = pytest.mark.airflow


def load(dags: Path) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(dags))


def test_the_dags_of_this_checkout_load_without_a_warning() -> None:
    # Warnings are errors here: a deprecated import in our files would show as an import error.
    bag = load(SOURCE / "dags")
    assert bag.import_errors == {}
    assert {"indextables_demo_logs_write", "indextables_demo_logs_maintain"} <= set(bag.dag_ids)


def test_a_table_without_a_write_section_has_only_maintenance(bag: Any) -> None:
    assert bag.import_errors == {}
    assert set(bag.dag_ids) == {"indextables_logs_write", "indextables_logs_maintain", "indextables_bare_maintain"}


def test_dags_survive_serialisation(bag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in bag.dags.values():
        serialized = DagSerialization.serialize_dag(dag)
        again = DagSerialization.deserialize_dag(json.loads(json.dumps(serialized)))
        assert again.task_ids == dag.task_ids


def test_settings_of_every_dag(bag: Any) -> None:
    for dag in bag.dags.values():
        assert (dag.max_active_runs, dag.catchup, dag.is_paused_upon_creation) == (1, False, False)
        assert "indextables" in dag.tags
        assert "| 75 |" in dag.doc_md
        for task in dag.tasks:
            assert (task.retries, task.retry_exponential_backoff) == (2, 2.0)
            assert (task.retry_delay, task.max_retry_delay) == (timedelta(seconds=0.01), timedelta(seconds=0.02))
            assert task.execution_timeout == timedelta(seconds=5)
            assert task.owner == "indextables"
            assert task.doc_md


def test_settings_come_from_the_tables_file(tmp_path: Path) -> None:
    tables = """\
defaults: {retries: 5, paused: true, spark: {conn_id: a, conf: {spark.cores.max: 4}}}
tables:
  - {name: one, path: x, owner: team, retry_delay: 1m, max_retry_delay: 1h, timeout: 2h, write: {source: y, schedule: '@daily'}}
  - {name: two, path: x, retries: 0, paused: false, spark: {conn_id: b}}
"""
    bag = load(make_project(tmp_path, tables))
    assert bag.import_errors == {}
    one, two = bag.dags["indextables_one_write"], bag.dags["indextables_two_maintain"]
    task = one.get_task("write")
    assert (task.retries, task.retry_delay, task.max_retry_delay) == (5, timedelta(minutes=1), timedelta(hours=1))
    assert (task.execution_timeout, task.owner, one.is_paused_upon_creation) == (timedelta(hours=2), "team", True)
    assert (task._conn_id, task.conf) == ("a", {"spark.cores.max": "4"})
    assert one.timetable.expression == "0 0 * * *"
    other = two.get_task("purge")
    assert (other.retries, two.is_paused_upon_creation, other._conn_id, other.conf) == (0, False, "b", {"spark.cores.max": "4"})


def test_the_asset_that_the_write_updates_triggers_maintenance(bag: Any) -> None:
    (outlet,) = bag.dags["indextables_logs_write"].get_task("write").outlets
    condition = bag.dags["indextables_logs_maintain"].timetable.asset_condition
    assert [asset.uri for asset in condition.objects] == [outlet.uri] == ["indextables://tables/logs"]


def test_a_failed_step_stops_the_following_ones(bag: Any) -> None:
    dag = bag.dags["indextables_logs_maintain"]
    order = ["merge_splits", "checkpoint", "purge"]
    assert [dag.get_task(task).upstream_task_ids for task in order] == [set(), {"merge_splits"}, {"checkpoint"}]
    assert [dag.get_task(task).trigger_rule.value for task in order] == ["all_success", "none_failed", "none_failed"]


BAD = """\
tables:
  - {name: good, path: a}
  - {name: bad, path: a, maintain: {target_size: 10X}}
  - {name: cron, path: a, write: {source: b, schedule: 99 99 * * *}}
"""


def test_a_bad_entry_is_an_import_error_and_the_others_keep_their_dags(tmp_path: Path) -> None:
    bag = load(make_project(tmp_path, BAD))
    assert set(bag.dag_ids) == {"indextables_good_maintain"}
    (file,) = bag.import_errors
    assert file.endswith("indextables_errors.py")
    error = bag.import_errors[file]
    assert "table 'bad' (entry 2): maintain.target_size: '10X' is not a size" in error
    assert "table 'cron'" in error
    assert "99" in error
    assert "good" not in error


def test_invalid_defaults_are_an_import_error_and_no_table_of_the_file_has_a_dag(tmp_path: Path) -> None:
    bag = load(
        make_project(tmp_path, "defaults: {maintain: {older_than: 90d}, retrys: 1}\ntables: [{name: a, path: p}, {name: b, path: q}]")
    )
    assert bag.dag_ids == []
    (file,) = bag.import_errors
    assert file.endswith("indextables_errors.py")
    for problem in ("defaults.retrys: is not a known key", "table 'a': has no DAGs", "table 'b': has no DAGs"):
        assert problem in bag.import_errors[file]


def test_a_file_that_cannot_be_read_is_an_import_error_too(tmp_path: Path) -> None:
    bag = load(make_project(tmp_path, "tables: ["))
    assert bag.dag_ids == []
    assert "is not YAML" in next(iter(bag.import_errors.values()))


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        (
            "from indextables.airflow import IndexTablesJobOperator; import indextables.airflow.factory",
            ["pyarrow", "tantivy", "pyspark", "pandas"],
        ),
        ("import indextables.airflow.tables, indextables.airflow.command", ["airflow", "pyarrow", "tantivy", "pyspark", "psutil"]),
    ],
)
def test_nothing_heavy_is_imported_while_a_dag_file_is_parsed(code: str, forbidden: list[str]) -> None:
    program = f"import sys; {code}; print([name for name in {forbidden} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=SOURCE)
    assert done.stdout.splitlines()[-1] == "[]"


def test_unknown_names_of_the_package_are_refused() -> None:
    import indextables.airflow

    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = indextables.airflow.nothing_like_it  # type: ignore[attr-defined]
