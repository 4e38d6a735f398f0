"""spark-submit jobs/checkpoint.py --table T: the table's state in one file, for fast reading. The driver does it alone."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, leave

    exit_on_interrupt()

import argparse
from typing import TYPE_CHECKING

from indextables.spark.job import Job, main
from indextables.spark.session import LazySession
from indextables.usage import options_of

if TYPE_CHECKING:
    from indextables.operations import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def run(arguments: argparse.Namespace, session: LazySession) -> Report:
    from indextables.operations.checkpoint import checkpoint
    from indextables.table import TableContext

    return checkpoint(TableContext.at(arguments.table, options_of(arguments)), dry_run=arguments.dry_run)


JOB = Job("checkpoint", "Write the newest version's state into one file.", add_arguments, run)

if __name__ == "__main__":
    leave(main(JOB))
