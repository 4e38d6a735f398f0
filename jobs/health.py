"""spark-submit jobs/health.py --table T: what is wrong with a table, and its figures. Changes nothing, and needs no Spark to start."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, exit_process

    exit_on_interrupt()

from typing import TYPE_CHECKING

from indextables.operations.verbs import Health
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession

if TYPE_CHECKING:
    from indextables.operations import Report
    from indextables.table import TableContext


def run(request: Health, context: TableContext, session: LazySession) -> Report:
    from indextables.operations.inspect import health_report

    return health_report(context)


JOB = Job(Health, run)

if __name__ == "__main__":
    exit_process(main(JOB))
