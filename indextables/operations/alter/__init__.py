"""Verbs that change a table by a commit without writing splits.

They commit raw actions, drop partitions, record skipped files and upgrade the protocol.
"""

from __future__ import annotations

from indextables.operations.alter.actions import commit_actions
from indextables.operations.alter.partitions import drop_partitions
from indextables.operations.alter.protocol_upgrade import upgrade_protocol
from indextables.operations.alter.skips import record_skipped_file
