"""The split file: an envelope around the files of a tantivy index and an Arrow row store. docs/protocol.md specifies it.

A checksum covers every byte that a reader uses: the content of the hotcache has its own, `bundleCrc32` covers the bundle part, and `files`
covers each file. Data that is read in ranges is also covered in ranges: `blocks` for the files of the index, sections for the row store.
Splits of Quickwit and of upstream have the same envelope and a different hotcache: splits/foreign reads their rows.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from indextables.atomic_file import replacing
from indextables.errors import SplitCorrupted, StorageError
from indextables.splits.format.file_footers import opening_tail
from indextables.storage import sync_folder

MAGIC = 403_881_646
VERSION = 1
FORMAT_VERSION = 1
ALIGNMENT = 4096
BLOCK = 65_536  # bytes of an index file under one checksum
ROW_STORE = "rows.arrow"
INDEX_META = "meta.json"
_CHUNK = 16 * BLOCK
_OPENING = b'{"crc32":"%08x","content":'
_OPENING_FIXED = len(b'{"crc32":"')
_OPENING_LENGTH = len(_OPENING % 0)
_FILE_NAME = re.compile(r"[0-9a-f]{32}\.[a-z]{1,16}|meta\.json|rows\.arrow")


class Range(msgspec.Struct, frozen=True):
    start: int
    end: int


class Files(msgspec.Struct, frozen=True):
    """The JSON of the bundle part."""

    files: dict[str, Range]


# Built at import: msgspec inspects a struct when it is first used as a type, by a decoder or by `msgspec.convert`, and keeps the result
# with the struct. Two threads that do so at the same time crash the process.
_FILES = msgspec.json.Decoder(Files)


class ColumnStatistics(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bounds of a column's values in the log's notation. Without bounds (NaN, not representable) any value is possible."""

    nulls: int
    min: str | None = None
    max: str | None = None


class RowStoreSections(msgspec.Struct, frozen=True, rename="camel"):
    """The row store cut into its header, one section per batch, and its footer."""

    batch_rows: int
    ends: list[int]  # of each section, from the start of the row store
    crc32: list[int]  # of each section


class Hotcache(msgspec.Struct, frozen=True, rename="camel"):
    """What a reader needs before it reads anything else."""

    format_version: int
    num_records: int
    first_row: int  # `_row` of document 0
    last_row: int  # `_row` of the last document
    schema: str  # Spark's schema JSON
    doc_mapping: str  # JSON, see mapping.py
    stats_characters: int  # length to which string statistics were truncated
    partition_columns: list[str]  # their statistics are never truncated
    statistics: dict[str, ColumnStatistics]
    row_store: RowStoreSections
    files: dict[str, int] = {}  # name -> checksum; write_bundle sets this and the following fields
    block_bytes: int = BLOCK
    blocks: dict[str, list[int]] = {}  # name of each index file -> checksums of its blocks; the last block may be shorter
    tails: dict[str, bytes] = {}  # name -> its last bytes
    bundle_crc32: int = 0


# Built at import, as above.
_HOTCACHE = msgspec.json.Decoder(Hotcache)


@dataclass(frozen=True, slots=True)
class Footer:
    files: dict[str, Range]
    hotcache: Hotcache
    footer_start: int
    footer_end: int
    hotcache_start: int
    hotcache_length: int


def write_bundle(sources: Iterable[tuple[str, Path]], hotcache: Hotcache, destination: Path) -> None:
    """Writes the files as one split; `destination` appears complete and durable, or not at all. Creates its parent folders."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    with replacing(destination) as temporary, temporary.open("xb") as out:
        _write(sources, hotcache, out)
        out.flush()
        os.fsync(out.fileno())
    sync_folder(destination.parent)


def _write(sources: Iterable[tuple[str, Path]], hotcache: Hotcache, out: BinaryIO) -> None:
    ranges: dict[str, Range] = {}
    sums: dict[str, int] = {}
    blocks: dict[str, list[int]] = {}
    tails: dict[str, bytes] = {}
    for name, path in sources:
        out.write(bytes(-out.tell() % ALIGNMENT))
        start = out.tell()
        sums[name], checked = _copy(path, out)
        ranges[name] = Range(start, out.tell())
        tails[name] = _tail(name, path, hotcache.row_store)
        if name != ROW_STORE:
            blocks[name] = checked
    bundle = struct.pack("<II", MAGIC, VERSION) + msgspec.json.encode(Files(ranges))
    whole = msgspec.structs.replace(hotcache, files=sums, block_bytes=BLOCK, blocks=blocks, tails=tails, bundle_crc32=zlib.crc32(bundle))
    content = msgspec.json.encode(whole)
    hot = _OPENING % zlib.crc32(content) + content + b"}"
    out.write(bundle + struct.pack("<I", len(bundle)) + hot + struct.pack("<I", len(hot)))


def _copy(source: Path, out: BinaryIO) -> tuple[int, list[int]]:
    """Copies a file; returns the checksum of the file and those of its blocks."""
    crc = 0
    blocks: list[int] = []
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
            blocks += [zlib.crc32(chunk[start : start + BLOCK]) for start in range(0, len(chunk), BLOCK)]
            out.write(chunk)
    return crc, blocks


def _tail(name: str, path: Path, row_store: RowStoreSections) -> bytes:
    with path.open("rb") as file:
        if name == ROW_STORE:
            file.seek(row_store.ends[-2])
            return file.read()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            return opening_tail(name, view)


def map_split(path: Path) -> pa.Buffer:
    """The bytes of a split, mapped into memory."""
    try:
        if path.stat().st_size == 0:
            raise SplitCorrupted(f"split {path} is damaged: it is empty")
        return pa.memory_map(str(path)).read_buffer()
    except FileNotFoundError as cause:
        raise SplitCorrupted(f"split {path} is missing") from cause
    except OSError as cause:
        raise StorageError(f"split {path} cannot be read: {cause}") from cause


def read_footer(data: memoryview, path: Path) -> Footer:
    """The footer of a complete split, with its checksums and layout verified; SplitCorrupted says what is wrong."""
    bundle_start, hot_start, hot_end = _parts(data, path)
    hotcache = _read_hotcache(data[hot_start:hot_end], path)
    if zlib.crc32(data[bundle_start : hot_start - 4]) != hotcache.bundle_crc32:
        raise SplitCorrupted(f"split {path} is damaged: the checksum of its file list does not match")
    files, _ = read_files(data, path)
    _check_layout(files, hotcache, bundle_start, path)
    return Footer(files, hotcache, bundle_start, len(data), hot_start, hot_end - hot_start)


def _parts(data: memoryview, path: Path) -> tuple[int, int, int]:
    """The offsets of the start of the bundle part and of the start and end of the hotcache."""
    hot_end = len(data) - 4
    hot_start = hot_end - _u32(data, hot_end, path)
    bundle_end = hot_start - 4
    bundle_start = bundle_end - _u32(data, bundle_end, path)
    if bundle_start < 0:
        raise SplitCorrupted(f"split {path} is damaged: its footer extends beyond its {len(data)} bytes")
    return bundle_start, hot_start, hot_end


def has_our_hotcache(data: memoryview, path: Path) -> bool:
    """Whether the hotcache starts like one of IndexTables, valid or not."""
    _, hot_start, hot_end = _parts(data, path)
    return bytes(data[hot_start:hot_end][:_OPENING_FIXED]) == _OPENING[:_OPENING_FIXED]


def _u32(data: memoryview, at: int, path: Path) -> int:
    if at < 0:
        raise SplitCorrupted(f"split {path} is damaged: it has {len(data)} bytes, too few for its footer")
    return int(struct.unpack_from("<I", data, at)[0])


def _read_hotcache(data: memoryview, path: Path) -> Hotcache:
    content = data[_OPENING_LENGTH:-1]
    if bytes(data[:_OPENING_LENGTH]) != _OPENING % zlib.crc32(content) or bytes(data[-1:]) != b"}":
        raise SplitCorrupted(f"split {path} is damaged: the checksum of its footer does not match")
    try:
        hotcache = _HOTCACHE.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise SplitCorrupted(f"split {path} is damaged: its footer cannot be parsed: {cause}") from cause
    if hotcache.format_version != FORMAT_VERSION:
        raise SplitCorrupted(f"split {path} has format version {hotcache.format_version}, but this reader supports {FORMAT_VERSION}")
    return hotcache


def read_files(data: memoryview, path: Path) -> tuple[dict[str, Range], int]:
    """The ranges of the files according to the bundle part, not validated, and the offset at which they end."""
    start, hot_start, _ = _parts(data, path)
    bundle = data[start : hot_start - 4]
    if bytes(bundle[:8]) != struct.pack("<II", MAGIC, VERSION):
        raise SplitCorrupted(f"split {path} is damaged: its file list does not start with the magic number and version")
    try:
        return _FILES.decode(bundle[8:]).files, start
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise SplitCorrupted(f"split {path} is damaged: its file list cannot be parsed: {cause}") from cause


def check_ranges(files: Iterable[tuple[str, Range]], names: re.Pattern[str], end: int, path: Path) -> int:
    """Checks that names match the pattern (they become paths) and that ranges follow each other; returns the end of the last."""
    position = 0
    for name, span in files:
        if not names.fullmatch(name):
            raise SplitCorrupted(f"split {path} is damaged: it contains a file named {name[:80]!r}")
        if not position <= span.start <= span.end <= end:
            raise SplitCorrupted(f"split {path} is damaged: its file {name} has the invalid range {span.start} to {span.end}")
        position = span.end
    return position


def _check_layout(files: dict[str, Range], hotcache: Hotcache, end: int, path: Path) -> None:
    if check_ranges(files.items(), _FILE_NAME, end, path) != end:
        raise SplitCorrupted(f"split {path} is damaged: there are bytes between its files and its footer")
    if files.keys() != hotcache.files.keys() or not {ROW_STORE, INDEX_META} <= files.keys():
        raise SplitCorrupted(f"split {path} is damaged: its files are {', '.join(files) or 'none'}")
    sections = hotcache.row_store
    size = files[ROW_STORE].end - files[ROW_STORE].start
    ascending = all(a <= b for a, b in zip([0, *sections.ends], sections.ends, strict=False))
    batches = -(-hotcache.num_records // sections.batch_rows) if sections.batch_rows > 0 else -1
    if not ascending or len(sections.ends) != batches + 2 or len(sections.crc32) != len(sections.ends) or sections.ends[-1] != size:
        raise SplitCorrupted(f"split {path} is damaged: the sections of its row store do not match its {hotcache.num_records} rows")
