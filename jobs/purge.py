"""spark-submit jobs/purge.py --table T: deletes removed splits and old log files that are past their retention."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, exit_process

    exit_on_interrupt()

from typing import TYPE_CHECKING

from indextables.operations.verbs import Purge
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession, SparkExecutor

if TYPE_CHECKING:
    from indextables.operations import Report
    from indextables.table import TableContext


def run(request: Purge, context: TableContext, session: LazySession) -> Report:
    """Plans here; Spark starts only if there are many files to delete."""
    from indextables.operations.expire import purge

    return purge(request, context, SparkExecutor(session, request.workload))


JOB = Job(Purge, run)

if __name__ == "__main__":
    exit_process(main(JOB))
