"""Input and output of rows: reads files and Python objects as record batches, writes splits, and writes results to files.

Start with `SplitTask`, which writes rows into splits on any machine, and with `LiveSplit`, the only reader of the rows of a split.
`batches_of` and `open_source` read input, `write_batches` writes results.
"""

from indextables.rows.csv_header import HEAD_BYTES, HEAD_LINES, check_header
from indextables.rows.foreign_splits import is_upstream, split_settings
from indextables.rows.ingest import batches_of, check_source_schema
from indextables.rows.live_split import LiveRows, LiveSplit, batch_groups
from indextables.rows.live_view import LiveView, open_live_view
from indextables.rows.sinks import atomic_file, write_batches
from indextables.rows.sources import open_source, schema_file
from indextables.rows.split_task import SplitTask, publish_split
from indextables.rows.uncommitted_splits import add_to_error, describe_uncommitted, find_uncommitted, uncommitted_splits_in_errors
