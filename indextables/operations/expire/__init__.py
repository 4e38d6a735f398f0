"""Deletion of files that are no longer needed.

The verbs are `purge`, `truncate_history` and `drop`. A pure plan (`plan_purge`) decides what to delete from gathered facts; the run deletes
it.
"""

from __future__ import annotations

from indextables.operations.expire.drop_table import drop
from indextables.operations.expire.folder_listing import FolderListing
from indextables.operations.expire.purge_files import complete_purge_facts, gather_purge_facts, purge, purge_options
from indextables.operations.expire.purge_plan import UNREFERENCED, PurgeFacts, PurgeOptions, may_be_uncommitted, plan_purge
from indextables.operations.expire.truncate_log import truncate_history
