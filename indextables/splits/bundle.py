"""The split file: an envelope around the files of a tantivy index and an Arrow row store.

All integers are little-endian. A split is::

    file 0, file 1, …           each starting at a multiple of 4,096, zeros between them
    bundle  u32 403881646, u32 1, JSON {"files": {name: {"start": n, "end": n}}}     <- footerStartOffset
    u32     length of the bundle part (its 8 bytes and its JSON)
    hotcache                                                                         <- hotcacheStartOffset
    u32     length of the hotcache                                                   <- ends at footerEndOffset = file size

which is Quickwit's layout. `uncompressedSizeBytes` is footerStartOffset. The files are `meta.json` and `<32 hex>.<extension>` of one
tantivy index (format 7, one segment, nothing stored), and `rows.arrow`, an Arrow IPC file (lz4, every batch `batchRows` rows but the
last). Document n of the index is row n of the row store. The index has a field for each column of the doc mapping (index.py says how
values get there), `_null` with the names of the columns that are null in a document, and the i64 `_row`, which is unique in practice.

The hotcache is ours: exactly the bytes `{"crc32":"hhhhhhhh","content":`, the content, and `}`, where hhhhhhhh is the CRC-32 (as in
zlib, lowercase hex) of the content's bytes. The content is a JSON object, see `Hotcache`. Together they are one JSON document. Every byte
that is ever used is covered: the content by its checksum, the bundle part by `bundleCrc32`, each file by `files`, and the row store
also by ranges, so that a few rows can be checked without reading the rest.
"""

from __future__ import annotations

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

MAGIC = 403_881_646
VERSION = 1
FORMAT_VERSION = 1
ALIGNMENT = 4096
ROW_STORE = "rows.arrow"
INDEX_META = "meta.json"
_CHUNK = 1 << 20
_OPENING = b'{"crc32":"%08x","content":'
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
    doc_mapping: str
    stats_characters: int  # length at which string statistics were cut
    partition_columns: list[str]  # their statistics are never cut
    statistics: dict[str, ColumnStatistics]
    row_store: RowStoreSections
    files: dict[str, int] = {}  # name -> CRC-32, set by write_bundle
    bundle_crc32: int = 0  # set by write_bundle


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
    for name, path in sources:
        out.write(bytes(-out.tell() % ALIGNMENT))
        start = out.tell()
        sums[name] = _copy(path, out)
        ranges[name] = Range(start, out.tell())
    bundle = struct.pack("<II", MAGIC, VERSION) + msgspec.json.encode(Files(ranges))
    whole = msgspec.structs.replace(hotcache, files=sums, bundle_crc32=zlib.crc32(bundle))
    content = msgspec.json.encode(whole)
    hot = _OPENING % zlib.crc32(content) + content + b"}"
    out.write(bundle + struct.pack("<I", len(bundle)) + hot + struct.pack("<I", len(hot)))


def _copy(source: Path, out: BinaryIO) -> int:
    crc = 0
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
            out.write(chunk)
    return crc


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_footer(data: memoryview, path: Path) -> Footer:
    """The checked footer of a whole split's bytes; SplitCorrupted says what is wrong with it."""
    size = len(data)
    hot_end = size - 4
    hot_start = hot_end - _u32(data, hot_end, path)
    bundle_end = hot_start - 4
    bundle_start = bundle_end - _u32(data, bundle_end, path)
    if bundle_start < 0:
        raise SplitCorrupted(f"split {path} is damaged: its footer reaches beyond its {size} bytes")
    hotcache = _read_hotcache(data[hot_start:hot_end], path)
    bundle = data[bundle_start:bundle_end]
    if zlib.crc32(bundle) != hotcache.bundle_crc32 or bytes(bundle[:8]) != struct.pack("<II", MAGIC, VERSION):
        raise SplitCorrupted(f"split {path} is damaged: the checksum of its file list does not fit")
    files = _read_files(bytes(bundle[8:]), path)
    _check_layout(files, hotcache, bundle_start, path)
    return Footer(files, hotcache, bundle_start, size, hot_start, hot_end - hot_start)


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
    except (msgspec.MsgspecError, RecursionError) as cause:
        raise SplitCorrupted(f"split {path} is damaged: its footer does not read: {cause}") from cause
    if hotcache.format_version != FORMAT_VERSION:
        raise SplitCorrupted(f"split {path} has format version {hotcache.format_version}, this reader knows {FORMAT_VERSION}")
    return hotcache


def _read_files(text: bytes, path: Path) -> dict[str, Range]:
    try:
        return _FILES.decode(text).files
    except (msgspec.MsgspecError, RecursionError) as cause:
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
