"""Airflow DAGs: `indextables_<name>_write` and `indextables_<name>_maintain` for every valid table of tables.yaml."""

from __future__ import annotations

from pathlib import Path

from indextables.airflow.factory import build_all

globals().update({dag.dag_id: dag for dag in build_all(Path(__file__).parent).dags})
