"""spark-submit jobs/py --table T --source S: executors turn the source's rows into splits, the driver commits them."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, leave

    exit_on_interrupt()

import argparse
from typing import TYPE_CHECKING

from indextables.errors import InvalidArgument
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession
from indextables.usage import names_of, options_of

if TYPE_CHECKING:
    from indextables.operations import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, metavar="S", help="a file, a folder or a pattern of them; csv begins with column names")
    parser.add_argument("--format", choices=("parquet", "csv", "json"), help="of the source, where its name does not say (parquet)")
    parser.add_argument("--mode", choices=("append", "overwrite"), default="append", help="add rows or replace them (append)")
    parser.add_argument("--partition-by", metavar="A,B", help="partition columns, where the table is made")
    parser.add_argument("--replace-where", metavar="P", help="with --mode overwrite: replace only these partitions")
    parser.add_argument("--txn-app", metavar="A", help="with --txn-version: write once under this name and number, however often retried")
    parser.add_argument("--txn-version", type=int, metavar="N", help="the number")


def run(arguments: argparse.Namespace, session: LazySession) -> Report:
    """Everything that can be checked without Spark is checked before it starts."""
    from indextables.operations.write import commit_write, prepare_write
    from indextables.spark.sources import check_source, format_of, open_frame, readable
    from indextables.table import TableContext

    if (arguments.txn_app is None) != (arguments.txn_version is None):
        raise InvalidArgument("--txn-app and --txn-version go together")
    if arguments.replace_where is not None and arguments.mode != "overwrite":
        raise InvalidArgument("--replace-where goes with --mode overwrite only")
    options = options_of(arguments)
    context = TableContext.at(arguments.table, options)
    wanted = {
        "mode": arguments.mode,
        "where": arguments.replace_where,
        "txn": None if arguments.txn_app is None else (arguments.txn_app, arguments.txn_version),
        "partition_by": names_of(arguments.partition_by),
    }
    known = None if context.log.listing().is_empty else context.snapshot()
    if known is not None:
        prepared = prepare_write(context, known=known, **wanted)
        if prepared.is_done:
            return commit_write(prepared, [])[0]
    source = check_source(arguments.source)

    from indextables.spark.distributed import run
    from indextables.spark.schema import arrow_schema, nullable

    frame = open_frame(session(), source, format_of(source, arguments.format), known.schema if known else None)
    schema = nullable(arrow_schema(frame.schema))
    prepared = prepare_write(context, schema, known=known, create=True, table_options=options, **wanted)
    with readable(source):
        return run(frame, prepared)


JOB = Job("write", "Write the rows of parquet, csv or json files into a table; the table is made if there is none.", add_arguments, run)

if __name__ == "__main__":
    leave(main(JOB))
