"""Airflow DAGs of every valid table of tables.yaml: `indextables_<name>_maintain`, and `…_write` if it has a `write` section."""

from __future__ import annotations

from pathlib import Path

from indextables.airflow.factory import build_all

globals().update({dag.dag_id: dag for dag in build_all(Path(__file__).parent).dags})
