"""IndexTables in Airflow: the operator that runs a job, the tables file and the DAGs built from it; `local` has the demo and `make up`.

Start with `factory`, whose `build_all` makes the DAGs, and with `IndexTablesJobOperator`. No module imports pyarrow, tantivy or pyspark, so
that DAG files are parsed quickly; `tables` and `command` do not even import Airflow.
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
