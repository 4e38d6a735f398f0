"""spark-submit jobs/merge_splits.py --table T: executors merge small splits into large ones, the driver commits the replacement."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, exit_process

    exit_on_interrupt()

from typing import TYPE_CHECKING

from indextables.operations.verbs import MergeSplits
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession, SparkExecutor

if TYPE_CHECKING:
    from indextables.operations import Report
    from indextables.table import TableContext


def run(request: MergeSplits, context: TableContext, session: LazySession) -> Report:
    """Plans here; Spark starts only if there are groups to merge."""
    from indextables.operations.merge import merge_splits

    report, _ = merge_splits(request, context, context.snapshot(), SparkExecutor(session, request.workload))
    return report


JOB = Job(MergeSplits, run)

if __name__ == "__main__":
    exit_process(main(JOB))
