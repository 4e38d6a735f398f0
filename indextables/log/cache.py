"""The per-process cache of logs: five kinds of entries, each with a time to live and a hit rate.

Every fresh listing of a log is compared with the one before, and entries that no longer fit are dropped (`LogCache.revalidate`). So a table
that was deleted and created again under the same path is detected; the time to live is only an upper bound.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from indextables import limits
from indextables.log.names import LogListing
from indextables.log.version_file import VersionFile
from indextables.process_cache import ProcessCache


class CacheKind(StrEnum):
    """The values are the names used in the statistics."""

    PROTOCOL = "protocol"
    METADATA = "metadata"
    VERSION = "version"  # the actions of a version
    FILES = "files"  # the live files of the newest version that was read
    VERSIONS_LIST = "versionsList"


VERSION_DEPENDENT = frozenset({CacheKind.VERSION, CacheKind.FILES, CacheKind.VERSIONS_LIST})


@dataclass(frozen=True, slots=True)
class Anchor:
    """A file of the log with the digest of its text. Commits have unique ids, so if it changes, the table was deleted and created again."""

    path: str
    digest: bytes | None  # None: only size and time are known
    stamp: tuple[int, int] | None  # size and time; None: it was never listed


@dataclass(frozen=True, slots=True)
class _Held:
    value: Any
    since_ms: int
    weight: int = 0  # bytes of live files, or actions of a version


@dataclass(frozen=True, slots=True)
class Counts:
    """Hits and lookups, summed over all kinds."""

    hits: int
    lookups: int


class LogCache:
    """The cache of one table. Safe to use from many threads; the values it returns are immutable."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._single: dict[CacheKind, _Held] = {}
        self._versions: OrderedDict[int, _Held] = OrderedDict()
        self._actions = 0
        self._anchor: Anchor | None = None
        self.last_listing: LogListing | None = None  # the most recent one; all entries are consistent with it
        self._generation = 0  # incremented whenever everything is dropped
        self._hits = dict.fromkeys(CacheKind, 0)
        self._lookups = dict.fromkeys(CacheKind, 0)

    def get(self, kind: CacheKind, now_ms: int, ttl_ms: int) -> Any | None:
        """The cached protocol, metadata, files or listing, if it is not too old."""
        with self._lock:
            return self._counted(kind, self._single.get(kind), now_ms, ttl_ms)

    def put_state(self, state: Mapping[CacheKind, Any], anchor: Anchor, weight: int, now_ms: int, generation: int | None) -> None:
        """Stores what was read of the newest version during `generation`; ignored if the cache was cleared meanwhile."""
        with self._lock:
            if generation == self._generation:
                self._anchor = anchor
                self._single |= {kind: _Held(value, now_ms, weight) for kind, value in state.items()}

    def put_anchor(self, anchor: Anchor, generation: int | None) -> None:
        """Sets the anchor of versions that were read during `generation`, unless a state has set one."""
        with self._lock:
            if generation == self._generation and self._anchor is None:
                self._anchor = anchor

    def get_version(self, version: int, now_ms: int, ttl_ms: int, generation: int | None) -> VersionFile | None:
        with self._lock:
            held = self._versions.get(version) if generation == self._generation else None
            found: VersionFile | None = self._counted(CacheKind.VERSION, held, now_ms, ttl_ms)
            if found is not None:
                self._versions.move_to_end(version)
            return found

    def put_version(self, file: VersionFile, now_ms: int, generation: int | None) -> None:
        """Stores a version; the least recently used versions are dropped to stay within the limits."""
        with self._lock:
            if generation != self._generation:
                return
            self.drop_version(file.version)
            self._versions[file.version] = _Held(file, now_ms, len(file))
            self._actions += len(file)
            while len(self._versions) > limits.CACHED_VERSIONS or self._actions > limits.CACHED_ACTIONS:
                self.drop_version(next(iter(self._versions)))

    def revalidate(self, listing: LogListing, is_unchanged: Callable[[Anchor], bool], now_ms: int) -> int:
        """Takes a fresh listing. Drops everything if a file changed since the one before, or if the anchor changed or is missing: sizes and
        times alone do not distinguish a log from one that replaced it within the same second.

        Returns the generation under which everything read from now on is stored.
        """
        with self._lock:
            previous, anchor = self.last_listing, self._anchor
        stamps = previous.stamps if previous is not None else {}
        changed = any(listing.stamps.get(name, stamp) != stamp for name, stamp in stamps.items())
        if changed or anchor is None or not is_unchanged(anchor):
            self.invalidate()
        elif previous is not None and not _only_adds_versions(previous, listing):
            self.invalidate(CacheKind.FILES)
        with self._lock:
            self.last_listing = listing
            self._single[CacheKind.VERSIONS_LIST] = _Held(listing, now_ms)
            return self._generation

    def invalidate(self, *kinds: CacheKind) -> None:
        """Drops the entries of these kinds, by default of all. The counts stay."""
        with self._lock:
            for kind in kinds or CacheKind:
                self._single.pop(kind, None)
                if kind is CacheKind.VERSION:
                    self._versions.clear()
                    self._actions = 0
            if not kinds:
                self._anchor = self.last_listing = None
                self._generation += 1

    def stats(self) -> dict[str, float]:
        """The hit rate of each kind, from 0 to 1."""
        with self._lock:
            return {f"{kind}HitRate": self._hits[kind] / self._lookups[kind] if self._lookups[kind] else 0.0 for kind in CacheKind}

    def counts(self) -> Counts:
        with self._lock:
            return Counts(sum(self._hits.values()), sum(self._lookups.values()))

    @property
    def weight(self) -> int:
        """Approximate bytes of the cached live files."""
        held = self._single.get(CacheKind.FILES)
        return held.weight if held else 0

    def _counted(self, kind: CacheKind, held: _Held | None, now_ms: int, ttl_ms: int) -> Any | None:
        """The value, if it is not too old. After the clock was set back it counts as too old."""
        found = held.value if held is not None and 0 <= now_ms - held.since_ms < ttl_ms else None
        self._lookups[kind] += 1
        self._hits[kind] += found is not None
        return found

    def drop_version(self, version: int) -> None:
        with self._lock:
            dropped = self._versions.pop(version, None)
            self._actions -= dropped.weight if dropped else 0


def _only_adds_versions(previous: LogListing, listing: LogListing) -> bool:
    """Whether only versions at the end are new. A new checkpoint, state or pointer, or a restored version, may change the files."""
    old, new = previous.versions, listing.versions[len(previous.versions) :]
    end = max((*previous.versions, *previous.bases), default=-1)
    same = (old, previous.bases, previous.has_pointer) == (listing.versions[: len(old)], listing.bases, listing.has_pointer)
    return same and all(version > end for version in new)


_TABLES: ProcessCache[Hashable, LogCache] = ProcessCache(lambda: (limits.CACHED_TABLES,))


def cache_of(key: Hashable) -> LogCache:
    """This process's cache of a table; the caches of the least recently used tables are dropped."""
    return _TABLES.get_or_make(key, LogCache)


def trim() -> None:
    """Drops live files, those of the least recently used tables first, until the rest fits."""
    tables = _TABLES.values()
    total = sum(cache.weight for cache in tables)
    for cache in tables:
        if total <= limits.CACHED_STATE_BYTES:
            return
        total -= cache.weight
        cache.invalidate(CacheKind.FILES)


def counts(key: Hashable | None = None) -> Counts:
    """Hits and lookups of this process's cache of a table, or of all tables."""
    found = [cache.counts() for cache in _chosen(key)]
    return Counts(sum(one.hits for one in found), sum(one.lookups for one in found))


def invalidate(key: Hashable | None = None) -> None:
    """Drops all entries of a table, or of all tables; the counts stay."""
    for cache in _chosen(key):
        cache.invalidate()


def _chosen(key: Hashable | None) -> list[LogCache]:
    return [cache for table, cache in _TABLES.items() if key in (None, table)]


def forget(key: Hashable) -> None:
    """Drops the cache of a table with its counts."""
    _TABLES.pop(key)
