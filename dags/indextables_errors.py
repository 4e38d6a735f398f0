"""Shows what is wrong in tables.yaml as an import error in the Airflow UI; the DAGs of the valid tables are made beside this file."""

from __future__ import annotations

from pathlib import Path

from indextables.airflow.factory import build_all

build_all(Path(__file__).parent).check()
