"""Where tables are stored: one interface (`Store`) with stated guarantees, its implementations, and local caches of splits."""

from __future__ import annotations

from indextables.storage.file_cache import FileCache, cache_folder, cached_files, caching
from indextables.storage.local import LocalStore, sync_folder
from indextables.storage.opening import open_store
from indextables.storage.partial import PartialFile
from indextables.storage.probe import creates_atomically
from indextables.storage.store import Capabilities, Entry, Store, StoreSpec
