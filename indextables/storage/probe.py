"""Whether a store really creates atomically: some S3 servers ignore `If-None-Match`, and some let several writers win. So it is raced."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from indextables import limits
from indextables.errors import CommitUnknown, ConfigError, StorageError
from indextables.paths import LOG_FOLDER, temporary_name
from indextables.storage.downloads import cache_folder
from indextables.storage.spec import StoreSpec

_proved: set[str] = set()
_lock = threading.Lock()


def _after_fork() -> None:
    """Another thread may have held it, for as long as a race takes."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class Probed(Protocol):
    spec: StoreSpec

    def create_unproved(self, path: str, data: bytes) -> bool: ...

    def delete(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Finding:
    is_atomic: bool
    winners: tuple[int, ...]  # of every round; each must be 1


def probe(store: Probed) -> Finding:
    """Many writers, one key, a few rounds. The objects have names that no reader takes for anything, and are removed."""
    name = f"{LOG_FOLDER}/{temporary_name('probe-')}"
    winners: list[int] = []
    with ThreadPoolExecutor(limits.PROBE_WRITERS) as pool:
        for number in range(limits.PROBE_ROUNDS):
            path = f"{name}-{number}"
            start = threading.Barrier(limits.PROBE_WRITERS)

            def write(writer: int, path: str = path, start: threading.Barrier = start) -> bool:
                start.wait()
                return store.create_unproved(path, f"{name} {writer}".encode())

            try:
                winners.append(sum(pool.map(write, range(limits.PROBE_WRITERS))))
            except StorageError:  # nothing was sent, so there is nothing to remove
                raise
            except CommitUnknown:
                _remove(store, path)
                raise
            _remove(store, path)
            if winners[-1] != 1:
                break
    return Finding(all(count == 1 for count in winners), tuple(winners))


def _remove(store: Probed, path: str) -> None:
    with suppress(StorageError):
        store.delete(path)


def require_atomic(store: Probed) -> None:
    """ConfigError unless this bucket at this endpoint was found to create atomically, here and now or within PROBE_DAYS."""
    spec = store.spec
    key = hashlib.sha256(f"{spec.root.scheme}\0{spec.root.bucket}\0{spec.endpoint}".encode()).hexdigest()
    if key in _proved:
        return
    with _lock:
        note = cache_folder() / "stores" / f"{key}.json"
        if key in _proved or _is_noted(note):
            _proved.add(key)
            return
        try:
            finding = probe(store)
        except CommitUnknown as error:
            raise StorageError(f"whether {str(spec.root)!r} creates files atomically could not be found out: {error}") from None
        if not finding.is_atomic:
            raise ConfigError(
                f"{str(spec.root)!r}: the server lets several writers create the same file (it ignores If-None-Match), so that they would "
                "overwrite each other; set storage.singleWriter=true if there is only one"
            )
        _proved.add(key)
        with suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            note.write_text(json.dumps({"atomic": True, "checked": time.time()}))


def _is_noted(note: Path) -> bool:
    try:
        document = json.loads(note.read_text())
        return document["atomic"] is True and 0 <= time.time() - float(document["checked"]) < limits.PROBE_DAYS * 86_400
    except (OSError, ValueError, KeyError, TypeError):
        return False
