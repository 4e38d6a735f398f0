"""How rows come in and go out: files and Python objects to record batches, record batches to splits, and results to files.

`SplitTask` writes rows into splits wherever they are. `foreign_splits` presents splits of other programs in our form.
"""

from __future__ import annotations

from indextables.rows.csv_header import HEAD_BYTES, HEAD_LINES, check_header
from indextables.rows.foreign_splits import in_our_form, is_upstream, upstream_table
from indextables.rows.ingest import check_columns, to_batches
from indextables.rows.sinks import saved, write_batches
from indextables.rows.sources import open_source, schema_file
from indextables.rows.split_task import SplitTask, publish_split
from indextables.rows.uncommitted_splits import described, found, named_on_failure, tell

__all__ = [
    "HEAD_BYTES",
    "HEAD_LINES",
    "SplitTask",
    "check_columns",
    "check_header",
    "described",
    "found",
    "in_our_form",
    "is_upstream",
    "named_on_failure",
    "open_source",
    "publish_split",
    "saved",
    "schema_file",
    "tell",
    "to_batches",
    "upstream_table",
    "write_batches",
]
