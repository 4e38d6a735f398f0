"""spark-submit jobs/purge.py --table T: deletes what has been dead for long enough."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, leave

    exit_on_interrupt()

import argparse
from typing import TYPE_CHECKING

from indextables import limits
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession, SparkExecutor
from indextables.usage import options_of

if TYPE_CHECKING:
    from indextables.operations import Report

# Fewer files than these are gone from a local disk before Spark has started.
FILES_FOR_SPARK = 5_000
FILES_PER_TASK = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", default=limits.OLDER_THAN, metavar="D", help=f"keep what was live within this time ({limits.OLDER_THAN})"
    )
    parser.add_argument("--log-retention", metavar="D", help="keep version files this long (purge.txLogRetentionHours: 30d)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def run(arguments: argparse.Namespace, session: LazySession) -> Report:
    """Planned here; many deletions go to executors, few are done here."""
    from indextables.config import parse_duration
    from indextables.operations.expire import purge
    from indextables.table import TableContext

    for text in filter(None, (arguments.older_than, arguments.log_retention)):
        parse_duration(text)
    context = TableContext.at(arguments.table, options_of(arguments))
    executor = SparkExecutor(session, items_per_task=FILES_PER_TASK, fewest=FILES_FOR_SPARK)
    return purge(context, arguments.older_than, arguments.log_retention, arguments.dry_run, executor)


JOB = Job("purge", "Delete splits that were removed long ago, leftovers of failed writes, and expired versions.", add_arguments, run)

if __name__ == "__main__":
    leave(main(JOB))
