"""Writing rows: creates tables, appends and overwrites.

After a commit, merge-on-write and purge-on-write run if the table's options enable them.
"""

from __future__ import annotations

from indextables.operations.write.create import new_metadata, write_version_zero
from indextables.operations.write.run import PreparedWrite, commit_write, prepare_from_source, prepare_write, write_rows
