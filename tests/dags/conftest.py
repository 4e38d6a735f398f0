"""A separate project for the DAG tests: Airflow's home, database and DAG files are in a temporary folder, spark-submit is a stub.

Airflow reads its settings when it is first imported, so they are set here, before any test module of this folder is imported.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_project import STUB_PATH, StubSpark, make_project

HOME = Path(tempfile.mkdtemp(prefix="indextables-dags-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "project" / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "AIRFLOW_CONN_SPARK_CLUSTER": '{"conn_type": "spark", "host": "spark://m", "port": 7077, "extra": {"deploy-mode": "cluster"}}',
    }
)

TABLES = """\
defaults: {retries: 2, retry_delay: 10ms, max_retry_delay: 20ms, timeout: 5s}
tables:
  - name: logs
    path: warehouse/logs
    write: {source: incoming, partition_by: [date, host]}
    maintain: {target_size: 100M}
    options: {checkpoint.interval: 5}
  - name: bare
    path: s3://bucket/bare
    spark: {conf: {spark.executor.memory: 2g}}
"""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubSpark:
    """The stub of spark-submit, first on PATH for this test only: tests in other folders run the real one."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(STUB_PATH), os.environ["PATH"]]))
    monkeypatch.setenv("STUB_SPARK", str(tmp_path))
    return StubSpark(tmp_path)


@pytest.fixture(scope="session")
def project() -> Path:
    return make_project(HOME / "project", TABLES).parent


@pytest.fixture(scope="session")
def bag(project: Path) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(project / "dags"))


@pytest.fixture(scope="session")
def database(project: Path) -> None:
    from airflow.utils import db

    db.initdb()
