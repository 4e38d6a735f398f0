"""The bytes of a version file or checkpoint: gzip or plain, told apart by their first bytes, and bounded when expanded."""

from __future__ import annotations

import gzip
import zlib

from indextables import limits
from indextables.errors import LogCorrupted

_GZIP = b"\x1f\x8b"
_SCALA_PREFIX = b"\x01\x01"  # Scala writers put these two bytes before the gzip header


def pack(text: bytes, *, compress: bool) -> bytes:
    """Equal texts give equal bytes: the gzip header carries no time."""
    return gzip.compress(text, compresslevel=6, mtime=0) if compress else text


def expanded_limit(size: int) -> int:
    """How many bytes a compressed log file of `size` bytes may expand to: a bomb is small and expands a thousandfold."""
    return min(limits.VERSION_FILE_BYTES, max(limits.EXPANDED_FLOOR, size * limits.EXPANDED_RATIO))


def unpack(data: bytes, source: str) -> bytes:
    """The text of a log file; LogCorrupted names the source if it is damaged, empty or too large."""
    if not data:
        raise LogCorrupted(f"{source} is empty")
    if data.startswith(_SCALA_PREFIX + _GZIP):
        data = data[len(_SCALA_PREFIX) :]
    text = _expand(data, source) if data.startswith(_GZIP) else data
    if len(text) > limits.VERSION_FILE_BYTES:
        raise LogCorrupted(f"{source} is larger than {limits.VERSION_FILE_BYTES} bytes")
    return text


def _expand(data: bytes, source: str) -> bytes:
    """Every gzip member, with length and checksum verified by zlib; never more than the limit in memory."""
    parts: list[bytes] = []
    size = 0
    most = expanded_limit(len(data))
    try:
        while data:
            member = zlib.decompressobj(wbits=31)
            parts.append(member.decompress(data, most + 1 - size))
            size += len(parts[-1])
            if size > most:
                raise LogCorrupted(f"{source} expands to more than {most} bytes")
            if not member.eof:
                raise LogCorrupted(f"{source} is cut off")
            data = member.unused_data
    except zlib.error as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error
    return b"".join(parts)
