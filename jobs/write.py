"""spark-submit jobs/write.py --table T --source S: executors turn the source's rows into splits, the driver commits them."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from indextables.startup import exit_on_interrupt, exit_process

    exit_on_interrupt()

from dataclasses import replace
from typing import TYPE_CHECKING

from indextables.operations.verbs import Write
from indextables.spark.job import Job, main
from indextables.spark.session import LazySession

if TYPE_CHECKING:
    from indextables.operations import Report
    from indextables.table import TableContext


def run(request: Write, context: TableContext, session: LazySession) -> Report:
    """Checks the arguments, the table and the source before Spark starts."""
    from indextables.operations.write import commit_write, prepare_write
    from indextables.spark.sources import check_source, format_of, open_frame, readable

    request = replace(request, create=True)
    known = None if context.log.listing().is_empty else context.snapshot()
    if known is not None:
        prepared = prepare_write(request, context, known=known)
        if prepared.is_done:
            return commit_write(prepared, [])[0]  # commits nothing: reports no_action with the version of the first attempt
    source = check_source(request.source or "")

    from indextables.spark.distributed import write_prepared
    from indextables.spark.schema import arrow_schema, nullable

    frame = open_frame(session(), source, format_of(source, request.format), known.schema if known else None)
    schema = nullable(arrow_schema(frame.schema))
    prepared = prepare_write(request, context, schema, known=known, table_options=context.config.options)
    with readable(source):
        return write_prepared(frame, prepared)


JOB = Job(Write, run)

if __name__ == "__main__":
    exit_process(main(JOB))
