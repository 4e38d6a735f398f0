"""The seam to where tables lie: few verbs with stated guarantees."""

from indextables.storage.local import LocalStore
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Entry, Store

__all__ = ["Entry", "LocalStore", "Store", "StoreSpec"]
