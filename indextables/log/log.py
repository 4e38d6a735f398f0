"""Reading and writing version files. A version is committed when its file exists, and files are never changed."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from indextables.actions import Action
from indextables.actions.codec import decode_actions, encode_actions
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import LogCorrupted, StorageError, VersionNotFound
from indextables.log import cache as caches
from indextables.log import files, names
from indextables.log.cache import VERSION_DEPENDENT, Anchor, Kind, LogCache
from indextables.paths import LOG_FOLDER
from indextables.storage import LocalStore, Store

CHUNK = 64  # versions of one task at most: a task costs as much as reading a small file


@dataclass(frozen=True, slots=True)
class VersionFile:
    version: int
    actions: Sequence[Action]
    unknown: int
    data: bytes  # as it is stored, or its text

    @property
    def digest(self) -> bytes:
        """Of its text, however it was packed."""
        return digest_of(files.unpack(self.data, f"version {self.version}"))


@dataclass(frozen=True, slots=True)
class Reading:
    """How logs are read."""

    parallelism: int = 4
    timeout_seconds: float = 30
    cache_ms: int = 300_000  # 0: nothing is kept

    @classmethod
    def of(cls, config: Config) -> Reading:
        optimized = bool(config.get("transaction.useOptimized"))
        cached = optimized and bool(config.get("transaction.cache.enabled"))
        return cls(
            parallelism=int(config.get("checkpoint.parallelism")) if optimized else 1,
            timeout_seconds=float(config.get("checkpoint.read.timeoutSeconds")),
            cache_ms=1000 * int(config.get("transaction.cache.expirationSeconds")) if cached else 0,
        )


DEFAULT = Reading()


class TransactionLog:
    """The log of one table in one store. What is read goes through this process's cache of it, unless `reading` says otherwise."""

    def __init__(self, store: Store, reading: Reading = DEFAULT, clock: Clock = SYSTEM_CLOCK) -> None:
        self.store = store
        self.reading = reading
        self.clock = clock
        self.generation: int | None = None  # of the cache, when this log was last listed; before that it is not used
        self._held: tuple[names.LogListing, Anchor] | None = None

    def listing(self, max_staleness_ms: int = 0) -> names.LogListing:
        """Fresh, or seen by this process no longer ago than that; a missing folder lists as empty."""
        cache = self.cache()
        if cache is not None:
            known: names.LogListing | None = cache.get(
                Kind.VERSIONS_LIST, self.clock.now_ms(), min(max_staleness_ms, self.reading.cache_ms)
            )
            if known is not None and self.generation is not None:
                return known
        listing = names.LogListing.of_entries(self.store.list(LOG_FOLDER))
        if cache is not None:
            self.generation = cache.revalidate(listing, lambda anchor: self.holds(anchor, listing), self.clock.now_ms())
        return listing

    def holds(self, anchor: Anchor, listing: names.LogListing) -> bool:
        """Whether the file is there as it was. Its bytes are read: times can be equal where a table was made again at once."""
        if self._held is not None and self._held[0] is listing and self._held[1] == anchor:
            return True
        if not self._is_same(anchor, listing):
            return False
        self._held = listing, anchor
        return True

    def _is_same(self, anchor: Anchor, listing: names.LogListing) -> bool:
        stamp = listing.stamp(anchor.path)
        if stamp is None or (anchor.stamp is not None and anchor.stamp != stamp):
            return False
        return anchor.digest is None or anchor.digest == self.digest(anchor.path)

    def digest(self, path: str) -> bytes | None:
        """Of what a version file says, however it is packed; None where there is no such file, or a broken one."""
        try:
            return digest_of(files.unpack(self.store.read(path), path))
        except (FileNotFoundError, LogCorrupted):
            return None

    def read(self, version: int) -> VersionFile:
        """One version; VersionNotFound, LogCorrupted. A malformed line anywhere in it is found now, not when it is used."""
        cache = self.cache()
        known = cache and cache.get_version(version, self.clock.now_ms(), self.reading.cache_ms, self.generation)
        if known:
            return known
        path = names.version_path(version)
        try:
            data = self.store.read(path)
        except FileNotFoundError:
            raise VersionNotFound(f"version {version} of {self.store.root} is not in the log") from None
        decoded = decode_actions(files.unpack(data, f"version {version}"), f"version {version}", version)
        file = VersionFile(version, decoded.actions, decoded.unknown, data)
        if cache is not None:
            cache.put_version(file, self.clock.now_ms(), self.generation)
        return file

    def spelled(self, version: int) -> list[dict[str, Any]]:
        """The lines of a version as they stand there, checked like every version that is read."""
        self.read(version)
        text = files.unpack(self.store.read(names.version_path(version)), f"version {version}")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def read_many(self, versions: Sequence[int]) -> Iterator[VersionFile]:
        """In the order given, read ahead in parallel; StorageError if nothing arrives for too long."""
        parallelism = self.reading.parallelism
        # Small files of a local disk arrive faster than threads can take turns: 1,000 took twice the CPU with four.
        if parallelism == 1 or len(versions) < 2 or isinstance(self.store, LocalStore):
            yield from map(self.read, versions)
            return
        size = max(1, min(CHUNK, len(versions) // (4 * parallelism)))
        chunks = [versions[start : start + size] for start in range(0, len(versions), size)]
        pool = ThreadPoolExecutor(parallelism)
        ahead: deque[Future[list[VersionFile]]] = deque()
        try:
            for number, chunk in enumerate(chunks):
                while len(ahead) < 2 * parallelism and number + len(ahead) < len(chunks):
                    ahead.append(pool.submit(self._read_chunk, chunks[number + len(ahead)]))
                try:
                    found = ahead.popleft().result(self.reading.timeout_seconds)
                except TimeoutError:
                    waited = f"{self.reading.timeout_seconds:g} seconds"
                    raise StorageError(f"version {chunk[0]} of {self.store.root} did not arrive within {waited}") from None
                yield from found
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read_chunk(self, versions: Sequence[int]) -> list[VersionFile]:
        return [self.read(version) for version in versions]

    def write(self, version: int, actions: Sequence[Action], *, compress: bool = True) -> bool:
        """The commit itself: True if this call made the version, False if it was there (and stays as it is)."""
        made = self.store.create(names.version_path(version), files.pack(encode_actions(actions), compress=compress))
        cache = self.cache()
        if made and cache is not None:
            cache.invalidate(Kind.VERSIONS_LIST)
        return made

    # ---- cache

    def cache(self) -> LogCache | None:
        """This process's cache of the log; None where it is off."""
        return caches.cache_of(self.store.key) if self.reading.cache_ms > 0 else None

    def cache_stats(self) -> dict[str, float]:
        """`protocolHitRate, metadataHitRate, versionHitRate, filesHitRate, versionsListHitRate`; empty where caching is off."""
        cache = self.cache()
        return {} if cache is None else cache.stats()

    def invalidate_cache(self, kind: str | None = None) -> None:
        """Forgets everything this process knows of the log; or `protocol`, `metadata`, or `versions`: all that a new version changes."""
        cache = self.cache()
        if cache is not None:
            kinds = () if kind is None else tuple(VERSION_DEPENDENT) if kind == "versions" else (Kind(kind),)
            cache.invalidate(*kinds)

    def close(self) -> None:
        """Lets go of what this process holds of the log. A closed log can be read again, from nothing."""
        caches.forget(self.store.key)


def digest_of(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
