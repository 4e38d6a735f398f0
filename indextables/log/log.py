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
from indextables.config import Config, default_of
from indextables.errors import InvalidArgument, LogCorrupted, StorageError, VersionNotFound
from indextables.log import cache as caches
from indextables.log import names, packing
from indextables.log.cache import VERSION_DEPENDENT, Anchor, CacheKind, LogCache
from indextables.log.version_file import VersionFile
from indextables.paths import LOG_FOLDER
from indextables.storage import Store

CHUNK = 64  # maximum number of versions per task: starting a task costs as much as reading a small file


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Settings for reading logs."""

    parallelism: int = int(default_of("checkpoint.parallelism"))  # version files read in parallel
    timeout_seconds: float = float(default_of("checkpoint.read.timeoutSeconds"))
    cache_ms: int = 1000 * int(default_of("transaction.cache.expirationSeconds"))  # time to live of cached contents; 0: no cache
    manifests: int = int(default_of("state.read.parallelism"))  # manifests read in parallel
    decoded_manifests: bool = True  # whether to use this machine's cache of decoded manifests

    @classmethod
    def of(cls, config: Config) -> ReadSettings:
        optimized = bool(config.get("transaction.useOptimized"))
        cached = optimized and bool(config.get("transaction.cache.enabled"))
        return cls(
            parallelism=int(config.get("checkpoint.parallelism")) if optimized else 1,
            timeout_seconds=float(config.get("checkpoint.read.timeoutSeconds")),
            cache_ms=1000 * int(config.get("transaction.cache.expirationSeconds")) if cached else 0,
            manifests=int(config.get("state.read.parallelism")) if optimized else 1,
        )

    def uncached(self) -> ReadSettings:
        """The same settings without any cache, so that damage in the store is found."""
        return replace(self, cache_ms=0, decoded_manifests=False)


DEFAULT = ReadSettings()


class TransactionLog:
    """The log of one table in one store, read through this process's cache unless `reading` disables it."""

    def __init__(self, store: Store, reading: ReadSettings = DEFAULT, clock: Clock = SYSTEM_CLOCK) -> None:
        self.store = store
        self.reading = reading
        self.clock = clock
        self.generation: int | None = None  # of the cache at the last listing; None: not listed yet, so the cache is not used
        self._confirmed: tuple[names.LogListing, Anchor] | None = None  # an anchor that was found unchanged, and at which listing

    def uncached(self) -> TransactionLog:
        """The same log, read from the store without any cache."""
        return TransactionLog(self.store, self.reading.uncached(), self.clock)

    def listing(self, max_staleness_ms: int = 0, version: int | None = None) -> names.LogListing:
        """A fresh listing, or this process's last one if it is not older than `max_staleness_ms`. A missing folder is an empty listing.

        With `version`, only names from that version on are listed: the part before is taken from the last listing, or left out without one.
        """
        cache = self.cache()
        if cache is None:
            return self.uncached_listing(None if version is None else version - 1)
        cached: names.LogListing | None = cache.get(
            CacheKind.VERSIONS_LIST, self.clock.now_ms(), min(max_staleness_ms, self.reading.cache_ms)
        )
        if cached is not None and self.generation is not None:
            return cached
        previous = cache.last_listing
        if version is None:
            listing = self.uncached_listing()
        elif previous is None or not previous.versions:
            listing = self.uncached_listing(version - 1)
        else:
            start = min(version, previous.versions[-1])
            listing = previous.before(start).followed_by(self.uncached_listing(start - 1))
        self.generation = cache.revalidate(listing, lambda anchor: self.is_unchanged(anchor, listing), self.clock.now_ms())
        return listing

    @property
    def has_no_listing(self) -> bool:
        """Whether this process has no cached listing of the log."""
        cache = self.cache()
        return cache is None or cache.last_listing is None

    def uncached_listing(self, after: int | None = None) -> names.LogListing:
        """Lists the folder without the cache; with `after`, only names that sort after the file of that version."""
        since = 0 if after is None else max(0, after + 1)
        entries = self.store.list(LOG_FOLDER, names.version_path(since - 1) if since else None)
        return names.LogListing.of_stamps(((entry.path, entry.size, entry.modified_ms) for entry in entries), since)

    def is_unchanged(self, anchor: Anchor, listing: names.LogListing) -> bool:
        """Whether the anchor file is unchanged. Its bytes are read, since a table that was created again at once may have equal times."""
        if self._confirmed is not None and self._confirmed[0] is listing and self._confirmed[1] == anchor:
            return True
        stamp = listing.stamp(anchor.path)
        is_listed = stamp is not None and anchor.stamp in (None, stamp)
        is_same = is_listed and (anchor.digest is None or anchor.digest == self.digest(anchor.path))
        if is_same:
            self._confirmed = listing, anchor
        return is_same

    def digest(self, path: str) -> bytes | None:
        """Digest of the text of a version file; None if it is missing or damaged."""
        try:
            return packing.digest(self.store.read(path), path)
        except (FileNotFoundError, LogCorrupted):
            return None

    def read(self, version: int) -> VersionFile:
        """Reads one version; VersionNotFound, LogCorrupted. Every line is validated now, not when it is used."""
        cached = self._cached(version)
        if cached is not None:
            return cached
        path = names.version_path(version)
        try:
            data = self.store.read(path)
        except FileNotFoundError:
            raise VersionNotFound(f"version {version} of {self.store.root} is not in the log") from None
        return self._decoded(version, data)

    def raw_lines(self, version: int) -> list[dict[str, Any]]:
        """The lines of a version as plain JSON objects, validated like every version that is read."""
        text = packing.unpack(self.read(version).data, f"version {version}")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def read_many(self, versions: Sequence[int]) -> Iterator[VersionFile]:
        """Yields versions in the order given, read ahead in parallel. StorageError if none arrives within the timeout."""
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
        if not self.store.capabilities.has_latency:  # reading a small file takes less time than switching threads
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
        """Cached versions decoded, all others as bytes, in the order given."""
        cached = {version: file for version in versions if (file := self._cached(version)) is not None} if self.reading.cache_ms else {}
        missing = [version for version in versions if version not in cached]
        try:
            contents = self.store.read_many([names.version_path(version) for version in missing]) if missing else []
        except FileNotFoundError:
            return [self.read(version) for version in versions]  # raises VersionNotFound for the missing one
        found: dict[int, VersionFile | bytes] = {**cached, **dict(zip(missing, contents, strict=True))}
        return [found[version] for version in versions]

    def read_present(self, versions: Sequence[int]) -> list[VersionFile]:
        """Like read_many, but leaves out versions that expired since they were listed."""
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
        found = decode_version(packing.unpack(data, source), source, version)
        file = VersionFile(version, found.items, found.unknown, data)
        cache = self.cache()
        if cache is not None:
            cache.put_version(file, self.clock.now_ms(), self.generation)
        return file

    def withdraw(self, version: int) -> None:
        """Deletes a version that this program just wrote and that no reader sees, because a later checkpoint covers it."""
        self.store.delete(names.version_path(version))
        self.invalidate_cache()

    def write(self, version: int, actions: Sequence[Action], *, compress: bool = True) -> bool:
        """Commits: True if this call created the version, False if it already existed (and is unchanged).

        InvalidArgument, and nothing is written, if readers would refuse the version: one such version makes the table unreadable.
        """
        data = _packed(version, actions, compress=compress)
        cache = self.cache()
        if cache is not None:  # an expired version may have had the same number
            cache.drop_version(version)
            cache.invalidate(CacheKind.VERSIONS_LIST)
        return self.store.create(names.version_path(version), data)

    # ---- cache

    def cache(self) -> LogCache | None:
        """This process's cache of the log; None if caching is off."""
        return caches.cache_of(self.store.spec) if self.reading.cache_ms > 0 else None

    def cache_stats(self) -> dict[str, float]:
        """`protocolHitRate, metadataHitRate, versionHitRate, filesHitRate, versionsListHitRate`; empty if caching is off."""
        cache = self.cache()
        return {} if cache is None else cache.stats()

    def invalidate_cache(self, kind: str | None = None) -> None:
        """Drops cached contents of the log: all, or only `protocol`, `metadata`, or `versions` (all that a new version changes)."""
        cache = self.cache()
        if cache is not None:
            kinds = () if kind is None else tuple(VERSION_DEPENDENT) if kind == "versions" else (CacheKind(kind),)
            cache.invalidate(*kinds)

    def close(self) -> None:
        """Drops this process's cache of the log. A closed log can still be read."""
        caches.forget(self.store.spec)


def _packed(version: int, actions: Sequence[Action], *, compress: bool) -> bytes:
    """The bytes of a version file, decoded once as a check: actions given by callers may hold anything."""
    source = f"version {version}"
    try:
        data = packing.pack(encode_actions(actions), compress=compress)
        decode_version(packing.unpack(data, source), source, version)
    except (UnicodeEncodeError, TypeError, OverflowError, LogCorrupted) as error:
        raise InvalidArgument(f"{source} was not written, because no reader would accept it: {error}") from None
    return data
