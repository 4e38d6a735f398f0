"""The transaction log: names and bytes of version files, commits, conflict rules, and a cache of what was read.

Start with `TransactionLog`, which lists, reads and writes versions. The functions in `conflicts` (pure) decide whether a commit may follow
a newer version.
"""

from __future__ import annotations

from indextables.log import cache, names, packing
from indextables.log.cache import Anchor, CacheKind, trim
from indextables.log.conflicts import is_already_committed, require_live, require_same_columns, require_same_metadata
from indextables.log.log import ReadSettings, TransactionLog
from indextables.log.names import POINTER, LogListing
from indextables.log.version_file import VersionFile
