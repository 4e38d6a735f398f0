"""Merges the segments of a tantivy index into one without re-indexing, which tantivy's Python API does not offer.

tantivy's merge policy reads `meta.json` only. To make it merge all segments at once, each segment gets a deletion file in which all
documents are alive, and `meta.json` claims for each a number of deleted documents that puts all segments into one size class with a
deletion ratio above the policy's threshold: with T greater than every size, claimed = (max_doc - T) mod 2^32, so that max_doc - claimed = T
in u32. The merge itself uses the deletion files and loses nothing. It runs in a child process, because a damaged file can abort it.
Tests in tests/splits pin this behaviour for tantivy 0.27.0; if a merge fails, the caller re-indexes the rows.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import subprocess
import sys
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.splits.format import FOOTER_MAGIC, INDEX_META, body_end

_LOG = logging.getLogger(__name__)
_WORKER = Path(__file__).with_name("merge_worker.py")


class Deletes(msgspec.Struct, frozen=True):
    num_deleted_docs: int
    opstamp: int


class Segment(msgspec.Struct, frozen=True):
    segment_id: uuid.UUID
    max_doc: int
    deletes: Deletes | None = None

    @property
    def stem(self) -> str:
        """The part of its file names before the dot."""
        return self.segment_id.hex


class IndexMeta(msgspec.Struct, frozen=True):
    """tantivy's `meta.json`."""

    index_settings: dict[str, Any]
    segments: list[Segment]
    schema: list[dict[str, Any]]
    opstamp: int


# Built at import, for the reason given in splits/format/bundle.py.
_INDEX_META = msgspec.json.Decoder(IndexMeta)


def parse_meta(data: bytes | memoryview, path: Path) -> IndexMeta:
    """The `meta.json` of the split at `path`; SplitCorrupted if it is invalid."""
    try:
        return _INDEX_META.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise SplitCorrupted(f"split {path} is damaged: the meta.json of its index cannot be parsed: {cause}") from cause


def load_meta(folder: Path) -> IndexMeta:
    return parse_meta((folder / INDEX_META).read_bytes(), folder)


def index_files(folder: Path) -> list[Path]:
    """The files of a committed one-segment index, `meta.json` last."""
    (segment,) = load_meta(folder).segments
    return [*sorted(path for path in folder.iterdir() if path.name.startswith(segment.stem + ".")), folder / INDEX_META]


def combine_metas(metas: Sequence[IndexMeta]) -> IndexMeta | None:
    """One `meta.json` with the segments of all; None if they are incompatible (schemas differ, or a segment occurs twice)."""
    segments = [segment for meta in metas for segment in meta.segments]
    alike = all(meta.schema == metas[0].schema and meta.index_settings == metas[0].index_settings for meta in metas)
    distinct = len({segment.segment_id for segment in segments}) == len(segments)
    if not alike or not distinct:
        return None
    return msgspec.structs.replace(metas[0], segments=segments, opstamp=max(meta.opstamp for meta in metas))


def merge_segments(folder: Path, meta: IndexMeta) -> bool:
    """Merges the segments of `meta`, whose files are in `folder`, into one. False if that failed for any reason."""
    documents = sum(segment.max_doc for segment in meta.segments)
    _prepare_merge(folder, meta)
    if not _run_worker(folder):
        return False
    segments = load_meta(folder).segments
    return len(segments) == 1 and segments[0].max_doc == documents and segments[0].deletes is None


def _prepare_merge(folder: Path, meta: IndexMeta) -> None:
    target = max(segment.max_doc for segment in meta.segments) + 1
    opstamp = max(meta.opstamp, 1)
    segments = []
    for segment in meta.segments:
        terms = memoryview((folder / f"{segment.stem}.term").read_bytes())
        version = json.loads(bytes(terms[body_end(terms)[0] : -8]))["version"]
        (folder / f"{segment.stem}.{opstamp}.del").write_bytes(_all_alive(segment.max_doc, version))
        claimed = Deletes((segment.max_doc - target) % (1 << 32), opstamp)
        segments.append(msgspec.structs.replace(segment, deletes=claimed))
    claiming = msgspec.structs.replace(meta, segments=segments, opstamp=opstamp)
    (folder / INDEX_META).write_bytes(msgspec.json.encode(claiming))


def _all_alive(documents: int, version: Any) -> bytes:
    """A tantivy deletion file in which no document is deleted: all bits are set. Its footer has the version of the other files."""
    words, rest = divmod(documents, 64)
    bits = b"\xff" * (8 * words) + (struct.pack("<Q", (1 << rest) - 1) if rest else b"")
    body = struct.pack("<I", documents) + bits
    footer = json.dumps({"version": version, "crc": zlib.crc32(body)}, separators=(",", ":")).encode()
    return body + footer + struct.pack("<II", len(footer), FOOTER_MAGIC)


def _run_worker(folder: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    # Run as a file: as a module it would import its package and thereby Arrow, which takes longer than a small merge.
    command = [sys.executable, "-P", str(_WORKER), str(folder)]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=limits.MERGE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        _LOG.warning("the merge of the segments in %s failed, re-indexing the rows: %s", folder, cause)
        return False
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
        _LOG.warning("the merge of the segments in %s exited with %d, re-indexing the rows: %s", folder, done.returncode, reason)
    return done.returncode == 0
