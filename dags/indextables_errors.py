"""Shows the problems in tables.yaml as an import error in the Airflow UI; indextables_tables.py builds the DAGs of the valid tables."""

from __future__ import annotations

from pathlib import Path

from indextables.airflow.factory import build_all

build_all(Path(__file__).parent).check()
