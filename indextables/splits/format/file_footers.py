"""The ends of tantivy's files: what it reads when it opens an index, before any query. All integers are little-endian.

Each file ends with JSON, its length (u32) and the number 1337 (u32); what is before that is its body. The body of a composite file (`idx`,
`pos`, `term`, `fieldnorm`) ends with its list of fields and the length of that (u32). That of a `store` ends with 24 bytes whose
first eight are the place of its skip index, that of a `fast` with the length of its dictionary of columns (u64), which stands before it,
the number of rows (u32), and eight bytes for its format.
"""

from __future__ import annotations

import json
import struct
import zlib

FOOTER_MAGIC = 1337
_COMPOSITE = ("idx", "pos", "term", "fieldnorm")
_FAST_END = struct.Struct("<QIII")
_STORE_END = 24
_UNKNOWN = 16_384  # what is kept of a file whose end is not as above


def body_end(data: memoryview) -> tuple[int, int]:
    """Where the body of one of tantivy's files ends, and its CRC-32 as the file says; ValueError where there is no such end."""
    if len(data) < 8:
        raise ValueError(f"it has {len(data)} bytes, too few for its footer")
    length, magic = struct.unpack("<II", data[-8:])
    end = len(data) - 8 - length
    if magic != FOOTER_MAGIC or end < 0:
        raise ValueError("it has no footer of tantivy's")
    try:
        crc = json.loads(bytes(data[end:-8]))["crc"]
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise ValueError("its footer does not read") from cause
    if isinstance(crc, bool) or not isinstance(crc, int):
        raise ValueError(f"its footer has the checksum {crc!r:.40}")
    return end, crc


def check_body(data: memoryview) -> None:
    """ValueError unless the checksum in the file's own footer fits."""
    end, crc = body_end(data)
    if zlib.crc32(data[:end]) != crc:
        raise ValueError("its checksum does not fit")


def opening_tail(name: str, data: memoryview) -> bytes:
    """The end of a file of an index, from the first byte that opening the index reads; all of one that is no body with an end."""
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
