"""spark-submit jobs/checkpoint.py --table T: the table's state in one file, for fast reading. The driver does it alone."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from indextables.spark.job import Job, main, options_of
from indextables.spark.session import LazySession

if TYPE_CHECKING:
    from indextables.operations.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, session: LazySession) -> Report:
    from indextables.operations.checkpoint import checkpoint
    from indextables.table.context import TableContext

    return checkpoint(TableContext.at(arguments.table, options_of(arguments)))


JOB = Job("checkpoint", "Write the newest version's state into one file.", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(JOB))
