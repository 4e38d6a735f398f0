"""What this process knows of logs: five kinds of things, each with its time to live and its hits counted.

The listing of a log is the key to the rest: whoever takes a fresh one compares it with the one before, and what does not fit is forgotten
(`LogCache.revalidate`). So a table that was deleted and made again under the same path is noticed, and time to live is only an upper bound.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from indextables import limits
from indextables.log.anchor import Anchor
from indextables.log.names import LogListing
from indextables.log.version_file import VersionFile
from indextables.process_cache import ProcessCache


class CacheKind(StrEnum):
    """The word is that of the statistics."""

    PROTOCOL = "protocol"
    METADATA = "metadata"
    VERSION = "version"  # the actions of a version
    FILES = "files"  # the live files of the newest version read
    VERSIONS_LIST = "versionsList"


VERSION_DEPENDENT = frozenset({CacheKind.VERSION, CacheKind.FILES, CacheKind.VERSIONS_LIST})


@dataclass(frozen=True, slots=True)
class _Held:
    value: Any
    since_ms: int
    weight: int = 0  # bytes, or actions

    def is_young(self, now_ms: int, ttl_ms: int) -> bool:
        return 0 <= now_ms - self.since_ms < ttl_ms  # a clock that was set back makes nothing young


@dataclass(frozen=True, slots=True)
class Counts:
    """Of all kinds together."""

    hits: int
    asked: int


class LogCache:
    """Of one table. Safe to use from many threads; what it hands out is immutable."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._single: dict[CacheKind, _Held] = {}
        self._versions: OrderedDict[int, _Held] = OrderedDict()
        self._actions = 0
        self._anchor: Anchor | None = None
        self._seen: LogListing | None = None  # the listing that everything held agrees with
        self._generation = 0  # one more whenever everything was forgotten
        self._hits = dict.fromkeys(CacheKind, 0)
        self._asked = dict.fromkeys(CacheKind, 0)

    def get(self, kind: CacheKind, now_ms: int, ttl_ms: int) -> Any | None:
        """The protocol, metadata, files or listing that is held, if it is young enough."""
        with self._lock:
            held = self._single.get(kind)
            return self._counted(kind, held if held is not None and held.is_young(now_ms, ttl_ms) else None)

    def put_state(self, state: Mapping[CacheKind, Any], anchor: Anchor, weight: int, now_ms: int, generation: int | None) -> None:
        """What was read of the newest version since `generation` began; ignored if all was forgotten meanwhile."""
        with self._lock:
            if generation == self._generation:
                self._anchor = anchor
                self._single |= {kind: _Held(value, now_ms, weight if kind is CacheKind.FILES else 0) for kind, value in state.items()}

    def vouch(self, anchor: Anchor, generation: int | None) -> None:
        """What the versions hang on that were read since `generation` began, where no state does."""
        with self._lock:
            if generation == self._generation and self._anchor is None:
                self._anchor = anchor

    def get_version(self, version: int, now_ms: int, ttl_ms: int, generation: int | None) -> VersionFile | None:
        with self._lock:
            held = self._versions.get(version) if generation == self._generation else None
            found: VersionFile | None = self._counted(
                CacheKind.VERSION, held if held is not None and held.is_young(now_ms, ttl_ms) else None
            )
            if found is not None:
                self._versions.move_to_end(version)
            return found

    def put_version(self, file: VersionFile, now_ms: int, generation: int | None) -> None:
        """The versions used least lately make room."""
        with self._lock:
            if generation != self._generation:
                return
            self.drop_version(file.version)
            self._versions[file.version] = _Held(file, now_ms, len(file))
            self._actions += len(file)
            while len(self._versions) > limits.CACHED_VERSIONS or self._actions > limits.CACHED_ACTIONS:
                self.drop_version(next(iter(self._versions)))

    @property
    def seen(self) -> LogListing | None:
        """The listing that was taken last."""
        with self._lock:
            return self._seen

    def revalidate(self, listing: LogListing, still_there: Callable[[Anchor], bool], now_ms: int) -> int:
        """Takes a fresh listing; forgets everything if a file changed since the one before, or the anchor is not what it was, or missing:
        sizes and times alone do not tell a log from one that took its place within the same second.

        Gives the generation: what is read from now on is put under it.
        """
        with self._lock:
            seen, anchor = self._seen, self._anchor
        before = seen.stamps if seen is not None else {}
        changed = any(listing.stamps.get(name, stamp) != stamp for name, stamp in before.items())
        if changed or anchor is None or not still_there(anchor):
            self.invalidate()
        elif seen is not None and not _is_continued(seen, listing):
            self.invalidate(CacheKind.FILES)
        with self._lock:
            self._seen = listing
            self._single[CacheKind.VERSIONS_LIST] = _Held(listing, now_ms)
            return self._generation

    def invalidate(self, *kinds: CacheKind) -> None:
        """Forgets these kinds, by default all. The counts stay."""
        with self._lock:
            for kind in kinds or CacheKind:
                self._single.pop(kind, None)
                if kind is CacheKind.VERSION:
                    self._versions.clear()
                    self._actions = 0
            if not kinds:
                self._anchor = self._seen = None
                self._generation += 1

    def stats(self) -> dict[str, float]:
        """Hits of each kind, as a part of what was asked."""
        with self._lock:
            return {f"{kind}HitRate": self._hits[kind] / self._asked[kind] if self._asked[kind] else 0.0 for kind in CacheKind}

    def counts(self) -> Counts:
        with self._lock:
            return Counts(sum(self._hits.values()), sum(self._asked.values()))

    @property
    def weight(self) -> int:
        """Bytes of live files."""
        held = self._single.get(CacheKind.FILES)
        return held.weight if held else 0

    def _counted(self, kind: CacheKind, held: _Held | None) -> Any | None:
        self._asked[kind] += 1
        self._hits[kind] += held is not None
        return held.value if held is not None else None

    def drop_version(self, version: int) -> None:
        with self._lock:
            gone = self._versions.pop(version, None)
            self._actions -= gone.weight if gone else 0


def _is_continued(seen: LogListing, listing: LogListing) -> bool:
    """Whether nothing but versions at the end came since: a checkpoint, a state or a pointer may say more, and so may what was restored."""
    known, new = seen.versions, listing.versions[len(seen.versions) :]
    end = max((*seen.versions, *seen.bases), default=-1)
    same = (known, seen.bases, seen.has_pointer) == (listing.versions[: len(known)], listing.bases, listing.has_pointer)
    return same and all(version > end for version in new)


_TABLES: ProcessCache[Hashable, LogCache] = ProcessCache(lambda: (limits.CACHED_TABLES,))


def cache_of(key: Hashable) -> LogCache:
    """The one cache of a table in this process; tables used least lately are forgotten."""
    return _TABLES.get_or_make(key, LogCache)


def trim() -> None:
    """Lets go of live files, those of the tables used least lately first, until all fit."""
    tables = _TABLES.values()
    total = sum(cache.weight for cache in tables)
    for cache in tables:
        if total <= limits.CACHED_STATE_BYTES:
            return
        total -= cache.weight
        cache.invalidate(CacheKind.FILES)


def counts(key: Hashable | None = None) -> Counts:
    """How often this process's cache of a table, or of all tables, was asked and had it."""
    found = [cache.counts() for cache in _chosen(key)]
    return Counts(sum(one.hits for one in found), sum(one.asked for one in found))


def invalidate(key: Hashable | None = None) -> None:
    """Forgets everything of a table, or of all tables; the counts stay."""
    for cache in _chosen(key):
        cache.invalidate()


def _chosen(key: Hashable | None) -> list[LogCache]:
    return [cache for table, cache in _TABLES.items() if key in (None, table)]


def forget(key: Hashable) -> None:
    _TABLES.pop(key)
