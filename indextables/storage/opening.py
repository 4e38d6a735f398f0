"""Opens the store of a spec: one for each spec and process."""

from __future__ import annotations

import os

from indextables.errors import ConfigError
from indextables.process_cache import ProcessCache
from indextables.storage.local import LocalStore
from indextables.storage.memory import MemoryStore
from indextables.storage.store import Store, StoreSpec

open_stores: ProcessCache[StoreSpec, Store] = ProcessCache()


def open_store(spec: StoreSpec) -> Store:
    """The store; equal specs share one per process. ConfigError if this kind of store cannot be used."""
    if spec.process not in (None, os.getpid()):
        raise ConfigError(f"{str(spec.root)!r} is in the memory of another process")
    return open_stores.get_or_make(spec, lambda: _make(spec))


def _make(spec: StoreSpec) -> Store:
    """Imports client libraries and asyncio only for remote stores, since they would delay every command on a local table."""
    if spec.root.is_local:
        return LocalStore(spec.root)
    if spec.root.scheme == "memory":
        return MemoryStore(spec)
    from indextables.storage.remote import RemoteStore

    if spec.root.scheme == "s3":
        from indextables.storage.s3 import S3Backend

        return RemoteStore(spec, S3Backend(spec))
    from indextables.storage.generic import FsspecBackend

    return RemoteStore(spec, FsspecBackend(spec))
