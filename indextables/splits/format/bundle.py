"""The split file: an envelope around the files of a tantivy index and an Arrow row store.

All integers are little-endian, all checksums CRC-32 as in zlib. A split is::

    file 0, file 1, …           each starting at a multiple of 4,096, zeros between them
    bundle  u32 403881646, u32 1, JSON {"files": {name: {"start": n, "end": n}}}     <- footerStartOffset
    u32     length of the bundle part (its 8 bytes and its JSON)
    hotcache                                                                         <- hotcacheStartOffset
    u32     length of the hotcache (hotcacheLength)                                  <- ends at footerEndOffset = file size

which is Quickwit's layout. `uncompressedSizeBytes` is footerStartOffset. The files, in the order of their places, which leave no gap but
the zeros, are

- those of one tantivy index of format 7 with one segment, nothing stored, no deletions: `<segment, 32 hex>.<extension>` for the extensions
  `fast`, `fieldnorm`, `idx`, `pos`, `store`, `term`, and `meta.json`. The term dictionary is tantivy's own (FST), not Quickwit's.
  The index has a field for each column of the doc mapping that is not `stored` (index.py says how values get there), `_null` with the names
  of the columns that are null in a document, and the fast i64 `_row`, which is unique in practice: `firstRow` and `lastRow` are its
  values in the first and the last document;
- `rows.arrow`, an Arrow IPC file (format V5; buffers compressed by lz4 frames or zstd; no dictionaries), all columns of the schema, every
  batch of `batchRows` rows but the last. Document n of the index is row n. Timestamps are microseconds, dates days, decimals
  128 bits; the schema is that of `schema` (schema.py says which Arrow type stands for which of Spark's).

The hotcache is ours: exactly the bytes `{"crc32":"hhhhhhhh","content":`, the content, and `}`, where hhhhhhhh is the checksum (lowercase
hex) of the content's bytes. The content is a JSON object with the keys of `Hotcache` below in camel case; bytes are base64. Together
they are one JSON document. Every byte that is ever used is covered: the content by its checksum, the bundle part by `bundleCrc32`, each
file by `files`. What is read in ranges is covered in ranges too: the files of the index by the blocks of `blocks`, the row store by its
sections. `tails` has the ends of the files, so that the index and the row store open without another read (tails.py says from
where on); all of `meta.json` is in it, as it is read whole.

A reader refuses another `formatVersion`, names that are not as above, and whatever does not fit its checksum; keys of the hotcache that
it does not know it ignores. Splits of Quickwit and of upstream have the same envelope and another hotcache: upstream.py reads their rows.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import uuid
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from indextables.errors import SplitCorrupted
from indextables.splits.format.file_footers import opening_tail

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


# Made here and not where it is used: msgspec learns a type at first use, and two threads that do so at once crash the process.
_FILES = msgspec.json.Decoder(Files)


class ColumnStatistics(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bounds of a column's values as the log spells them. Without bounds (NaN, unspellable) any value is possible."""

    nulls: int
    min: str | None = None
    max: str | None = None


class RowStoreSections(msgspec.Struct, frozen=True, rename="camel"):
    """The row store cut into its header, one section per batch, and its footer."""

    batch_rows: int
    ends: list[int]  # of each section, from the start of the row store
    crc32: list[int]  # of each section


class Hotcache(msgspec.Struct, frozen=True, rename="camel"):
    """What a reader wants to know before it reads anything else."""

    format_version: int
    num_records: int
    first_row: int  # `_row` of document 0
    last_row: int  # `_row` of the last document
    schema: str  # Spark's schema JSON
    doc_mapping: str  # JSON, see mapping.py
    stats_characters: int  # length at which string statistics were cut
    partition_columns: list[str]  # their statistics are never cut
    statistics: dict[str, ColumnStatistics]
    row_store: RowStoreSections
    files: dict[str, int] = {}  # name -> checksum; this and what follows is set by write_bundle
    block_bytes: int = BLOCK
    blocks: dict[str, list[int]] = {}  # name of each file of the index -> checksums of its blocks, the last may be shorter
    tails: dict[str, bytes] = {}  # name -> its last bytes
    bundle_crc32: int = 0


# At import, as above.
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
    """Put the files into one split; `destination` appears complete and durable, or not at all. Makes its folders."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = destination.parent / f".{destination.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as out:
            _write(sources, hotcache, out)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(destination.parent)


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
    """The checksums of the whole and of its blocks."""
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


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_footer(data: memoryview, path: Path) -> Footer:
    """The checked footer of a whole split's bytes; SplitCorrupted says what is wrong with it."""
    bundle_start, hot_start, hot_end = parts_of(data, path)
    hotcache = _read_hotcache(data[hot_start:hot_end], path)
    bundle = data[bundle_start : hot_start - 4]
    if zlib.crc32(bundle) != hotcache.bundle_crc32:
        raise SplitCorrupted(f"split {path} is damaged: the checksum of its file list does not fit")
    files = read_files(bundle, path)
    _check_layout(files, hotcache, bundle_start, path)
    return Footer(files, hotcache, bundle_start, len(data), hot_start, hot_end - hot_start)


def parts_of(data: memoryview, path: Path) -> tuple[int, int, int]:
    """Where the bundle part begins, and where the hotcache begins and ends."""
    hot_end = len(data) - 4
    hot_start = hot_end - _u32(data, hot_end, path)
    bundle_end = hot_start - 4
    bundle_start = bundle_end - _u32(data, bundle_end, path)
    if bundle_start < 0:
        raise SplitCorrupted(f"split {path} is damaged: its footer reaches beyond its {len(data)} bytes")
    return bundle_start, hot_start, hot_end


def has_our_hotcache(data: memoryview, path: Path) -> bool:
    """Whether it begins as ours do, be it sound or not."""
    _, hot_start, hot_end = parts_of(data, path)
    return bytes(data[hot_start:hot_end][:_OPENING_FIXED]) == _OPENING[:_OPENING_FIXED]


def _u32(data: memoryview, at: int, path: Path) -> int:
    if at < 0:
        raise SplitCorrupted(f"split {path} is damaged: it has {len(data)} bytes, too few for its footer")
    return int(struct.unpack_from("<I", data, at)[0])


def _read_hotcache(data: memoryview, path: Path) -> Hotcache:
    content = data[_OPENING_LENGTH:-1]
    if bytes(data[:_OPENING_LENGTH]) != _OPENING % zlib.crc32(content) or bytes(data[-1:]) != b"}":
        raise SplitCorrupted(f"split {path} is damaged: the checksum of its footer does not fit")
    try:
        hotcache = _HOTCACHE.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise SplitCorrupted(f"split {path} is damaged: its footer does not read: {cause}") from cause
    if hotcache.format_version != FORMAT_VERSION:
        raise SplitCorrupted(f"split {path} has format version {hotcache.format_version}, this reader knows {FORMAT_VERSION}")
    return hotcache


def read_files(bundle: memoryview, path: Path) -> dict[str, Range]:
    """The places of the files by the bundle part, which need not make sense."""
    if bytes(bundle[:8]) != struct.pack("<II", MAGIC, VERSION):
        raise SplitCorrupted(f"split {path} is damaged: its file list does not begin as it must")
    try:
        return _FILES.decode(bundle[8:]).files
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise SplitCorrupted(f"split {path} is damaged: its file list does not read: {cause}") from cause


def _check_layout(files: dict[str, Range], hotcache: Hotcache, end: int, path: Path) -> None:
    """Names are of our own pattern (they become paths), and ranges follow each other within the file."""
    position = 0
    for name, where in files.items():
        if not _FILE_NAME.fullmatch(name):
            raise SplitCorrupted(f"split {path} is damaged: it holds a file named {name!r}")
        if not position <= where.start <= where.end <= end:
            raise SplitCorrupted(f"split {path} is damaged: its file {name} lies at {where.start} to {where.end}")
        position = where.end
    if position != end:
        raise SplitCorrupted(f"split {path} is damaged: there are bytes between its files and its footer")
    if files.keys() != hotcache.files.keys() or not {ROW_STORE, INDEX_META} <= files.keys():
        raise SplitCorrupted(f"split {path} is damaged: its files are {', '.join(files) or 'none'}")
    sections = hotcache.row_store
    size = files[ROW_STORE].end - files[ROW_STORE].start
    ascending = all(a <= b for a, b in zip([0, *sections.ends], sections.ends, strict=False))
    batches = -(-hotcache.num_records // sections.batch_rows) if sections.batch_rows > 0 else -1
    if not ascending or len(sections.ends) != batches + 2 or len(sections.crc32) != len(sections.ends) or sections.ends[-1] != size:
        raise SplitCorrupted(f"split {path} is damaged: the sections of its row store do not fit its {hotcache.num_records} rows")
