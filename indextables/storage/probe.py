"""Tests by a race whether a store creates files atomically: some S3 servers ignore `If-None-Match`, others let several writers win."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol, cast

from indextables import limits
from indextables.errors import CommitUnknown, ConfigError, StorageError
from indextables.paths import LOG_FOLDER, temporary_name
from indextables.process_cache import ProcessCache
from indextables.storage.file_cache import cache_folder
from indextables.storage.store import Store, StoreSpec

_proved: ProcessCache[str, bool] = ProcessCache()


class Probed(Protocol):
    """A store with the capability `needs_atomicity_probe`."""

    spec: StoreSpec

    def create_without_probe(self, path: str, data: bytes) -> bool: ...

    def delete(self, path: str) -> None: ...


def probe(store: Probed) -> bool:
    """Races many writers for one key, a few rounds: whether each round had one winner.

    The objects have names that readers ignore, and are deleted afterwards.
    """
    name = f"{LOG_FOLDER}/{temporary_name('probe-')}"
    with ThreadPoolExecutor(limits.PROBE_WRITERS) as pool:
        for number in range(limits.PROBE_ROUNDS):
            path = f"{name}-{number}"
            start = threading.Barrier(limits.PROBE_WRITERS)

            def write(writer: int, path: str = path, start: threading.Barrier = start) -> bool:
                start.wait()
                return store.create_without_probe(path, f"{name} {writer}".encode())

            try:
                winners = sum(pool.map(write, range(limits.PROBE_WRITERS)))
            except StorageError:  # nothing was sent, so there is nothing to delete
                raise
            except CommitUnknown:
                _remove(store, path)
                raise
            _remove(store, path)
            if winners != 1:
                return False
    return True


def creates_atomically(store: Store) -> bool:
    """Whether creation is atomic, tested by a race if the store needs proof; StorageError or CommitUnknown if the race cannot be run."""
    return not store.capabilities.needs_atomicity_probe or probe(cast(Probed, store))


def _remove(store: Probed, path: str) -> None:
    with suppress(StorageError):
        store.delete(path)


def require_atomic(store: Probed) -> None:
    """ConfigError unless this bucket at this endpoint creates atomically, as tested now or within the last PROBE_DAYS."""
    spec = store.spec
    key = hashlib.sha256(f"{spec.root.scheme}\0{spec.root.bucket}\0{spec.endpoint}".encode()).hexdigest()
    _proved.get_or_make(key, lambda: _prove(store, cache_folder() / "stores" / f"{key}.json"))


def _prove(store: Probed, record: Path) -> bool:
    if _is_recorded(record):
        return True
    try:
        is_atomic = probe(store)
    except CommitUnknown as error:
        raise StorageError(f"cannot find out whether {str(store.spec.root)!r} creates files atomically: {error}") from None
    if not is_atomic:
        raise ConfigError(
            f"{str(store.spec.root)!r}: the server lets several writers create the same file (it ignores If-None-Match), so that they "
            "would overwrite each other; set storage.singleWriter=true if there is only one"
        )
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        record.write_text(json.dumps({"atomic": True, "checked": time.time()}))
    return True


def _is_recorded(record: Path) -> bool:
    try:
        document = json.loads(record.read_text())
        return document["atomic"] is True and 0 <= time.time() - float(document["checked"]) < limits.PROBE_DAYS * 86_400
    except (OSError, ValueError, KeyError, TypeError):
        return False
