"""Where tables are stored: one interface with stated guarantees, its implementations, and local caches of splits.

Start with `Store`, whose docstrings list the guarantees, and with `open_store`, which opens the store of a `StoreSpec`.
`creates_atomically` tests whether a server keeps the most important one.
"""

from __future__ import annotations

from indextables.storage.file_cache import FileCache, cache_folder, cached_files, caching
from indextables.storage.local import LocalStore, sync_folder
from indextables.storage.opening import open_store
from indextables.storage.partial import PartialFile
from indextables.storage.probe import creates_atomically
from indextables.storage.store import Capabilities, Entry, Store, StoreSpec
