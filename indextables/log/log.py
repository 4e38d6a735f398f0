"""Reading and writing version files. A version is committed when its file exists, and files are never changed."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from indextables.actions import Action, decode_version, encode_actions
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import InvalidArgument, LogCorrupted, StorageError, VersionNotFound
from indextables.log import cache as caches
from indextables.log import files, names
from indextables.log.anchor import Anchor
from indextables.log.cache import VERSION_DEPENDENT, CacheKind, LogCache
from indextables.log.version_file import VersionFile, digest_of
from indextables.paths import LOG_FOLDER
from indextables.storage import Store

CHUNK = 64  # versions of one task at most: a task costs as much as reading a small file


@dataclass(frozen=True, slots=True)
class Reading:
    """How logs are read."""

    parallelism: int = 4
    timeout_seconds: float = 30
    cache_ms: int = 300_000  # 0: nothing is kept
    manifests: int = 8  # read at a time
    decoded_manifests: bool = True  # whether manifests may come from this machine's cache of decoded ones

    @classmethod
    def of(cls, config: Config) -> Reading:
        optimized = bool(config.get("transaction.useOptimized"))
        cached = optimized and bool(config.get("transaction.cache.enabled"))
        return cls(
            parallelism=int(config.get("checkpoint.parallelism")) if optimized else 1,
            timeout_seconds=float(config.get("checkpoint.read.timeoutSeconds")),
            cache_ms=1000 * int(config.get("transaction.cache.expirationSeconds")) if cached else 0,
            manifests=int(config.get("state.read.parallelism")) if optimized else 1,
        )

    def from_store(self) -> Reading:
        """The same without any cache, so that damage in the store shows."""
        return replace(self, cache_ms=0, decoded_manifests=False)


DEFAULT = Reading()


class TransactionLog:
    """The log of one table in one store. What is read goes through this process's cache of it, unless `reading` says otherwise."""

    def __init__(self, store: Store, reading: Reading = DEFAULT, clock: Clock = SYSTEM_CLOCK) -> None:
        self.store = store
        self.reading = reading
        self.clock = clock
        self.generation: int | None = None  # of the cache, when this log was last listed; before that it is not used
        self._held: tuple[names.LogListing, Anchor] | None = None

    def from_store(self) -> TransactionLog:
        """The same log, read from the store alone and from no cache."""
        return TransactionLog(self.store, self.reading.from_store(), self.clock)

    def listing(self, max_staleness_ms: int = 0, version: int | None = None) -> names.LogListing:
        """Fresh, or seen by this process no longer ago than that; a missing folder lists as empty.

        Those who stand at `version` need nothing before it: that part is as this process last saw it, or left out where nothing is kept.
        """
        cache = self.cache()
        if cache is None:
            return self.look(None if version is None else version - 1)
        known: names.LogListing | None = cache.get(
            CacheKind.VERSIONS_LIST, self.clock.now_ms(), min(max_staleness_ms, self.reading.cache_ms)
        )
        if known is not None and self.generation is not None:
            return known
        seen = cache.seen
        if version is None:
            listing = self.look()
        elif seen is None or not seen.versions:
            listing = self.look(version - 1)
        else:
            start = min(version, seen.versions[-1])
            listing = seen.before(start).followed_by(self.look(start - 1))
        self.generation = cache.revalidate(listing, lambda anchor: self.holds(anchor, listing), self.clock.now_ms())
        return listing

    @property
    def is_new(self) -> bool:
        """Whether this process has not listed it yet, or keeps nothing of what it lists."""
        cache = self.cache()
        return cache is None or cache.seen is None

    def look(self, after: int | None = None) -> names.LogListing:
        """What the folder shows now, and nothing more; with `after` only what follows the file of that version, by name."""
        if after is None or after < 0:
            return names.LogListing.of_entries(self.store.list(LOG_FOLDER))
        return names.LogListing.of_entries(self.store.list(LOG_FOLDER, names.version_path(after)), after + 1)

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
        known = self._cached(version)
        if known is not None:
            return known
        path = names.version_path(version)
        try:
            data = self.store.read(path)
        except FileNotFoundError:
            raise VersionNotFound(f"version {version} of {self.store.root} is not in the log") from None
        return self._decoded(version, data)

    def spelled(self, version: int) -> list[dict[str, Any]]:
        """The lines of a version as they stand there, checked like every version that is read."""
        self.read(version)
        text = files.unpack(self.store.read(names.version_path(version)), f"version {version}")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def read_many(self, versions: Sequence[int]) -> Iterator[VersionFile]:
        """In the order given; many at a time and ahead of what is used. StorageError if nothing arrives for too long."""
        parallelism = self.reading.parallelism
        if parallelism == 1 or len(versions) < 2:
            yield from map(self.read, versions)
            return
        size = max(1, min(CHUNK, len(versions) // (4 * parallelism)))
        chunks = [versions[start : start + size] for start in range(0, len(versions), size)]
        for chunk, contents in zip(chunks, self._fetched(chunks), strict=True):
            for version, content in zip(chunk, contents, strict=True):
                yield content if isinstance(content, VersionFile) else self._decoded(version, content)

    def _fetched(self, chunks: Sequence[Sequence[int]]) -> Iterator[list[VersionFile | bytes]]:
        if not self.store.capabilities.has_latency:  # small files arrive faster than threads can take turns
            yield from map(self._fetch, chunks)
            return
        parallelism = self.reading.parallelism
        pool = ThreadPoolExecutor(parallelism)
        ahead: deque[Future[list[VersionFile | bytes]]] = deque()
        try:
            for number, chunk in enumerate(chunks):
                while len(ahead) < 2 * parallelism and number + len(ahead) < len(chunks):
                    ahead.append(pool.submit(self._fetch, chunks[number + len(ahead)]))
                try:
                    found = ahead.popleft().result(self.reading.timeout_seconds)
                except TimeoutError:
                    waited = f"{self.reading.timeout_seconds:g} seconds"
                    raise StorageError(f"version {chunk[0]} of {self.store.root} did not arrive within {waited}") from None
                yield found
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, versions: Sequence[int]) -> list[VersionFile | bytes]:
        """What the cache knows, and the bytes of the others."""
        known = {version: file for version in versions if (file := self._cached(version)) is not None} if self.reading.cache_ms else {}
        missing = [version for version in versions if version not in known]
        try:
            contents = self.store.read_many([names.version_path(version) for version in missing]) if missing else []
        except FileNotFoundError:
            return [self.read(version) for version in versions]  # which names the one that is gone
        found: dict[int, VersionFile | bytes] = {**known, **dict(zip(missing, contents, strict=True))}
        return [found[version] for version in versions]

    def read_present(self, versions: Sequence[int]) -> list[VersionFile]:
        """Like read_many, without those that expired since they were listed."""
        with suppress(VersionNotFound):
            return list(self.read_many(versions))
        found: list[VersionFile] = []
        for version in versions:
            with suppress(VersionNotFound):
                found.append(self.read(version))
        return found

    def _cached(self, version: int) -> VersionFile | None:
        cache = self.cache()
        return None if cache is None else cache.get_version(version, self.clock.now_ms(), self.reading.cache_ms, self.generation)

    def _decoded(self, version: int, data: bytes) -> VersionFile:
        source = f"version {version}"
        found = decode_version(files.unpack(data, source), source, version)
        file = VersionFile(version, found.items, found.unknown, data)
        cache = self.cache()
        if cache is not None:
            cache.put_version(file, self.clock.now_ms(), self.generation)
        return file

    def withdraw(self, version: int) -> None:
        """Takes back a version that this program just wrote and no reader can see, since a later checkpoint stands for it."""
        self.store.delete(names.version_path(version))
        self.invalidate_cache()

    def write(self, version: int, actions: Sequence[Action], *, compress: bool = True) -> bool:
        """The commit itself: True if this call made the version, False if it was there (and stays as it is).

        InvalidArgument, and nothing is written, where no reader would take it: one such version would end the table.
        """
        data = _packed(version, actions, compress=compress)
        cache = self.cache()
        if cache is not None:  # the number may have been another's, which expired
            cache.drop_version(version)
            cache.invalidate(CacheKind.VERSIONS_LIST)
        return self.store.create(names.version_path(version), data)

    # ---- cache

    def cache(self) -> LogCache | None:
        """This process's cache of the log; None where it is off."""
        return caches.cache_of(self.store.spec) if self.reading.cache_ms > 0 else None

    def cache_stats(self) -> dict[str, float]:
        """`protocolHitRate, metadataHitRate, versionHitRate, filesHitRate, versionsListHitRate`; empty where caching is off."""
        cache = self.cache()
        return {} if cache is None else cache.stats()

    def invalidate_cache(self, kind: str | None = None) -> None:
        """Forgets everything this process knows of the log; or `protocol`, `metadata`, or `versions`: all that a new version changes."""
        cache = self.cache()
        if cache is not None:
            kinds = () if kind is None else tuple(VERSION_DEPENDENT) if kind == "versions" else (CacheKind(kind),)
            cache.invalidate(*kinds)

    def close(self) -> None:
        """Lets go of what this process holds of the log. A closed log can be read again, from nothing."""
        caches.forget(self.store.spec)


def _packed(version: int, actions: Sequence[Action], *, compress: bool) -> bytes:
    """The bytes of a version file, which were read as every reader will: actions that a program made up may hold anything."""
    source = f"version {version}"
    try:
        data = files.pack(encode_actions(actions), compress=compress)
        decode_version(files.unpack(data, source), source, version)
    except (UnicodeEncodeError, TypeError, OverflowError, LogCorrupted) as error:
        raise InvalidArgument(f"{source} was not written, since it could not be read again: {error}") from None
    return data
