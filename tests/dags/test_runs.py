"""What the DAGs do, run by Airflow with a stand-in for spark-submit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.airflow_project import StubSpark

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database"), pytest.mark.filterwarnings("default")]


def run(bag: Any, dag_id: str, **conf: Any) -> dict[str, tuple[str, int]]:
    """State and number of tries of every task of one run."""
    done = bag.dags[dag_id].test(run_conf=conf or None)
    return {ti.task_id: (str(ti.state), ti.try_number) for ti in done.get_task_instances()}


def test_maintenance_runs_merge_checkpoint_and_purge_in_order(bag: Any, spark: StubSpark, project: Path) -> None:
    states = run(bag, "indextables_logs_maintain")
    assert states == {"merge_splits": ("success", 1), "checkpoint": ("success", 1), "purge": ("success", 1)}
    assert spark.jobs == ["merge_splits", "checkpoint", "purge"]
    print(spark.calls)
