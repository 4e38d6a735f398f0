"""spark-submit jobs/checkpoint.py --table T: writes a checkpoint, in the driver alone."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, exit_process

    exit_on_interrupt()

from typing import TYPE_CHECKING

from indextables.operations.verbs import Checkpoint
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession

if TYPE_CHECKING:
    from indextables.operations import Report
    from indextables.table import TableContext


def run(request: Checkpoint, context: TableContext, session: LazySession) -> Report:
    from indextables.operations.checkpoint import checkpoint

    return checkpoint(request, context)


JOB = Job(Checkpoint, run)

if __name__ == "__main__":
    exit_process(main(JOB))
