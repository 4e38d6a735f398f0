"""spark-submit jobs/health.py --table T: reports the findings and figures of a table. Changes nothing and does not start Spark."""

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
