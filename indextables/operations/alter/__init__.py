"""Verbs that change a table by a commit without writing splits.

`commit_actions` commits raw actions; `drop_partitions`, `record_skipped_file` and `upgrade_protocol` build their own.
"""

from __future__ import annotations

from indextables.operations.alter.actions import commit_actions
from indextables.operations.alter.partitions import drop_partitions
from indextables.operations.alter.protocol_upgrade import upgrade_protocol
from indextables.operations.alter.skips import record_skipped_file
