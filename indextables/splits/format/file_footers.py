"""The tails of tantivy's files: what tantivy reads when it opens an index, before any query. docs/protocol.md describes them."""

from __future__ import annotations

import json
import struct
import zlib

FOOTER_MAGIC = 1337
_COMPOSITE = ("idx", "pos", "term", "fieldnorm")
_FAST_END = struct.Struct("<QIII")
_STORE_END = 24
_UNKNOWN = 16_384  # bytes kept of a file whose tail is not as above


def body_end(data: memoryview) -> tuple[int, int]:
    """The offset at which the body of a tantivy file ends, and its CRC-32 according to the footer; ValueError without a valid footer."""
    if len(data) < 8:
        raise ValueError(f"it has {len(data)} bytes, too few for its footer")
    length, magic = struct.unpack("<II", data[-8:])
    end = len(data) - 8 - length
    if magic != FOOTER_MAGIC or end < 0:
        raise ValueError("it has no tantivy footer")
    try:
        crc = json.loads(bytes(data[end:-8]))["crc"]
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise ValueError("its footer cannot be parsed") from cause
    if isinstance(crc, bool) or not isinstance(crc, int):
        raise ValueError(f"its footer has the invalid checksum {crc!r:.40}")
    return end, crc


def check_body(data: memoryview) -> None:
    """ValueError unless the body matches the checksum in the file's footer."""
    end, crc = body_end(data)
    if zlib.crc32(data[:end]) != crc:
        raise ValueError("its checksum does not match")


def opening_tail(name: str, data: memoryview) -> bytes:
    """The tail of an index file, from the first byte that opening the index reads; the complete file if it has no tantivy footer."""
    extension = name.rpartition(".")[2]
    try:
        end, _ = body_end(data)
    except ValueError:
        return bytes(data)
    start = _start(extension, data, end)
    return bytes(data[start if 0 <= start <= end else max(0, len(data) - _UNKNOWN) :])


def _start(extension: str, data: memoryview, end: int) -> int:
    if extension in _COMPOSITE and end >= 4:
        return int(end - 4 - struct.unpack_from("<I", data, end - 4)[0])
    if extension == "store" and end >= _STORE_END:
        return int(struct.unpack_from("<Q", data, end - _STORE_END)[0])
    if extension == "fast" and end >= _FAST_END.size:
        return int(end - _FAST_END.size - _FAST_END.unpack_from(data, end - _FAST_END.size)[0])
    return -1
