"""Writing rows: creates tables, appends and overwrites.

Start with `prepare_write` and `write_rows`; Spark writes its splits elsewhere and calls `commit_write`. After a commit, merge-on-write and
purge-on-write run if the table's options enable them.
"""

from __future__ import annotations

from indextables.operations.write.create import new_metadata, write_version_zero
from indextables.operations.write.run import PreparedWrite, commit_write, prepare_from_source, prepare_write, write_rows
