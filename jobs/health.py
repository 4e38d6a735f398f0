"""spark-submit jobs/health.py --table T: what is wrong with a table, and its figures. Changes nothing, and needs no Spark to start."""

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
    """None of its own."""


def run(arguments: argparse.Namespace, session: LazySession) -> Report:
    from indextables.operations.inspect import health_report
    from indextables.table import TableContext

    return health_report(TableContext.at(arguments.table, options_of(arguments)))


JOB = Job("health", "Say what is wrong with a table, and its figures; the document is the report's `health`.", add_arguments, run)

if __name__ == "__main__":
    leave(main(JOB))
