"""spark-submit jobs/merge_splits.py --table T: executors merge small splits into large ones, the driver commits the replacement."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, leave

    exit_on_interrupt()

import argparse
from typing import TYPE_CHECKING

from indextables.spark.job import Job, main
from indextables.spark.session import LazySession, SparkExecutor
from indextables.usage import options_of

if TYPE_CHECKING:
    from indextables.operations import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target-size", metavar="SIZE", help="how large a merged split may be, such as 100M (5G)")
    parser.add_argument("--where", metavar="P", help="only these partitions")
    parser.add_argument("--max-dest-splits", type=int, metavar="N", help="make at most this many splits")
    parser.add_argument("--max-source-splits", type=int, metavar="N", help="merge at most this many splits into one (1000)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def run(arguments: argparse.Namespace, session: LazySession) -> Report:
    """Planned here; Spark starts only for groups that are there to merge."""
    from indextables.operations.merge import merge_splits
    from indextables.table import TableContext

    context = TableContext.at(arguments.table, options_of(arguments))
    report, _ = merge_splits(
        context,
        context.snapshot(),
        arguments.target_size,
        arguments.where,
        arguments.max_dest_splits,
        arguments.max_source_splits,
        dry_run=arguments.dry_run,
        executor=SparkExecutor(session),
    )
    return report


JOB = Job("merge_splits", "Turn small splits of a table into large ones, partition by partition.", add_arguments, run)

if __name__ == "__main__":
    leave(main(JOB))
