"""spark-submit jobs/health.py --table T: what is wrong with a table, and its figures. Changes nothing, and needs no Spark to start."""

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
    from indextables.operations.health import health_report
    from indextables.table.context import TableContext

    return health_report(TableContext.at(arguments.table, options_of(arguments)))


JOB = Job("health", "Say what is wrong with a table, and its figures; the document is the report's `health`.", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(JOB))
