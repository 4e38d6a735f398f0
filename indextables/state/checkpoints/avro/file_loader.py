"""Loads the live files from the manifests of a state: all of them, or those of the manifests that a reader needs.

Loaded entries are cached as long as their `Manifest` object is referenced, so that versions on the same state share them. A damaged
manifest raises ManifestDamaged and never loses files; `indextables.table.loading` then reads from an older base.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables import limits
from indextables.actions import Bounds, LayeredFiles, LiveFiles, Manifest, ManifestSet, Part, Segment, Totals
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import TransactionLog
from indextables.memo import Memo
from indextables.process_cache import ProcessCache
from indextables.state.checkpoints.avro import manifest_cache
from indextables.state.checkpoints.avro.manifests import decode_manifest, digest_of

_SEGMENTS: Memo[Manifest, Segment] = Memo()
_HIDDEN: Memo[LayeredFiles, frozenset[str]] = Memo()
_VERIFIED: ProcessCache[Hashable, set[str]] = ProcessCache(lambda: (limits.CACHED_TABLES,))


class ManifestDamaged(LogCorrupted):
    """A manifest is missing or does not match its state. The same files can be read from an older base and the versions after it."""


@dataclass(frozen=True, slots=True)
class FileLoader:
    """Loads file entries of the table that `log` belongs to. Every method may raise ManifestDamaged or UnsafePath."""

    log: TransactionLog

    def load(self, files: LayeredFiles, may_match: Callable[[Mapping[str, Bounds]], bool] | None = None) -> LiveFiles:
        """All live files, or without those in manifests whose bounds `may_match` rules out; these manifests are not read."""
        base, newer = files.base, files.newer
        if base is None:
            return newer
        kept = base.manifests if may_match is None else matching_manifests(base, may_match)
        parts = self._parts(kept, base.tombstones, self.hidden(files))
        if len(kept) == len(base.manifests):
            totals = self.totals(files)
        else:
            totals = sum((Totals(len(part), part.total("size"), part.total("num_records")) for part in parts), newer.totals)
        return LiveFiles((*parts, *newer.parts), newer.recent, totals.num_records, totals.size, base.mappings)

    def totals(self, files: LayeredFiles) -> Totals:
        """Totals of the live files. Loads nothing unless files of the base were removed."""
        base = files.base
        if base is None:
            return files.newer.totals
        totals = Totals(base.num_files, base.size, base.num_records) + files.newer.totals
        removed = pa.array(sorted(self.hidden(files) - base.tombstones), pa.string())
        for segment in self.segments(base.manifests) if len(removed) else ():
            totals -= Totals.of(segment.rows.select(["size", "num_records"]).take(pa.array(_rows_of(segment, removed))))
        return totals

    def parts(self, files: LayeredFiles) -> tuple[Part, ...]:
        """The live entries of the base, one part per manifest."""
        base = files.base
        return () if base is None else self._parts(base.manifests, base.tombstones, self.hidden(files))

    def hidden(self, files: LayeredFiles) -> frozenset[str]:
        """The paths of `gone` that may be in the base. Most paths that were added after the base can be ruled out."""
        return _HIDDEN.get(files, _hidden) if files.gone and self.log.reading.decoded_manifests else files.gone

    def segments(self, manifests: Sequence[Manifest]) -> tuple[Segment, ...]:
        """The entries of these manifests, read in parallel if the store has latency."""
        missing = [manifest for manifest in manifests if not is_loaded(manifest)]
        if len(missing) > 1 and self.log.store.capabilities.has_latency and self.log.reading.manifests > 1:
            with ThreadPoolExecutor(self.log.reading.manifests) as pool:
                list(pool.map(self._segment, missing))
        return tuple(map(self._segment, manifests))

    def _segment(self, manifest: Manifest) -> Segment:
        try:
            return _SEGMENTS.get(manifest, lambda manifest: Segment(load_manifest(self.log, manifest)))
        except UnsafePath:
            raise
        except LogCorrupted as error:
            raise ManifestDamaged(str(error)) from error

    def _parts(self, manifests: Sequence[Manifest], tombstones: frozenset[str], hidden: frozenset[str]) -> tuple[Part, ...]:
        segments = self.segments(manifests)
        dead = pa.array(sorted(tombstones | hidden), pa.string())
        found = tuple(_part(segment, dead) for segment in segments)
        for manifest, segment in zip(manifests, segments, strict=True) if hidden and self.log.reading.decoded_manifests else ():
            if manifest.digest is not None:  # the next state will need these paths again
                manifest_cache.put_paths(manifest.digest, segment.rows.column("path"))
        return found


def matching_manifests(base: ManifestSet, may_match: Callable[[Mapping[str, Bounds]], bool]) -> tuple[Manifest, ...]:
    """The manifests of the base that `may_match` does not rule out by their bounds."""
    return tuple(manifest for manifest in base.manifests if may_match(manifest.bounds))


def is_loaded(manifest: Manifest) -> bool:
    return _SEGMENTS.peek(manifest) is not None


def held_bytes(files: LayeredFiles) -> int:
    """Approximate memory that these files take now, including what other versions share."""
    loaded = (_SEGMENTS.peek(manifest) for manifest in files.base.manifests) if files.base is not None else ()
    return files.newer.nbytes + sum(segment.nbytes for segment in loaded if segment is not None)


def verified_manifests(log: TransactionLog) -> set[str]:
    """Paths of the manifests that this process has verified or written. Manifests never change, so frequent writers need not read them
    again; damage that happens later is found by the next process."""
    found: set[str] = _VERIFIED.get_or_make(log.store.spec, set)
    if len(found) > limits.CHECKPOINT_PARTS:
        found.clear()
    return found


def load_manifest(log: TransactionLog, manifest: Manifest) -> pa.Table:
    """The entries of a manifest, from the local cache if possible. A manifest that is named by a digest must match it."""
    digest, entries, has_cache = manifest.digest, manifest.num_entries, log.reading.decoded_manifests
    if digest is not None and has_cache:
        cached = manifest_cache.get(digest)
        if cached is not None and cached.num_rows == entries:
            return cached
    source = f"manifest {manifest.name!r} of state {manifest.state_version}"
    try:
        data = log.store.read(manifest.path)
    except FileNotFoundError:
        raise LogCorrupted(f"{source} is missing") from None
    if digest is not None and digest_of(data) != digest:
        verified_manifests(log).discard(manifest.path)
        raise LogCorrupted(f"{source} does not match the digest in its name")
    rows, is_plain = decode_manifest(data, entries, log.store.root.relative, source)
    return manifest_cache.put(digest, rows) if digest is not None and is_plain and has_cache else rows


def _hidden(files: LayeredFiles) -> frozenset[str]:
    """The removed paths that may be in the base; all of them if the path checksums of a manifest are not cached."""
    assert files.base is not None
    kept: set[str] = set()
    for manifest in files.base.manifests:
        digest = manifest.digest
        found = None if digest is None else manifest_cache.possible_paths(digest, manifest.num_entries, files.gone)
        if found is None:
            return files.gone
        kept.update(found)
    return frozenset(kept)


def _part(segment: Segment, hidden: pa.Array) -> Part:
    if not segment.num_rows or not len(hidden):
        return Part(segment)
    dead = _rows_of(segment, hidden)
    return Part(segment, (frozenset(dead.tolist()),) if len(dead) else ())


def _rows_of(segment: Segment, paths: pa.Array) -> npt.NDArray[np.int64]:
    return np.flatnonzero(pc.is_in(segment.rows.column("path"), paths).to_numpy())
