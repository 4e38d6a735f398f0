"""Airflow runs IndexTables: the operator, the tables file, the DAGs made of it, and a local server.

Nothing here imports pyarrow, tantivy or pyspark, so a DAG file that uses it is parsed quickly; `tables` and `command`
do not even import Airflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indextables.airflow.operator import IndexTablesJobOperator

__all__ = ["IndexTablesJobOperator"]


def __getattr__(name: str) -> Any:
    if name == "IndexTablesJobOperator":
        from indextables.airflow.operator import IndexTablesJobOperator

        return IndexTablesJobOperator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
