"""Packs and unpacks version files and checkpoints: gzip or plain, distinguished by their first bytes, with a bound on the expanded size."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator

from indextables import limits
from indextables.errors import LogCorrupted

_CHUNK = 1024 * 1024
_GZIP = b"\x1f\x8b"
_SCALA_PREFIX = b"\x01\x01"  # Scala writers put these two bytes before the gzip header


def pack(text: bytes, *, compress: bool) -> bytes:
    """Equal texts give equal bytes: the gzip header contains no time."""
    return gzip.compress(text, compresslevel=6, mtime=0) if compress else text


class Packer:
    """Packs a text that arrives in pieces; only the packed bytes are kept in memory."""

    def __init__(self, *, compress: bool) -> None:
        self._packer = zlib.compressobj(6, zlib.DEFLATED, 31) if compress else None
        self._packed = bytearray()
        self.text_size = 0

    def write(self, text: bytes) -> None:
        self.text_size += len(text)
        self._packed += text if self._packer is None else self._packer.compress(text)

    def finish(self) -> bytes:
        if self._packer is not None:
            self._packed += self._packer.flush()
        return bytes(self._packed)


def expanded_limit(size: int) -> int:
    """Maximum expanded size of a compressed log file of `size` bytes: a decompression bomb expands a thousandfold."""
    return min(limits.VERSION_FILE_BYTES, max(limits.EXPANDED_FLOOR, size * limits.EXPANDED_RATIO))


def unpack(data: bytes, source: str) -> bytes:
    """The text of a log file; LogCorrupted names `source` if it is damaged, empty or too large."""
    data = _without_prefix(data, source)
    text = _expand(data, source) if data.startswith(_GZIP) else data
    if len(text) > limits.VERSION_FILE_BYTES:
        raise LogCorrupted(f"{source} is larger than {limits.VERSION_FILE_BYTES} bytes")
    if len(text) > limits.LOG_LINES and text.count(b"\n") > limits.LOG_LINES:
        raise LogCorrupted(f"{source} has more than {limits.LOG_LINES} lines")
    return text


def digest(data: bytes, source: str) -> bytes:
    """Digest of the text of a log file, however it is packed, in bounded memory. LogCorrupted if it is empty, damaged or a bomb."""
    hasher = hashlib.blake2b(digest_size=16)
    data = _without_prefix(data, source)
    for chunk in _bounded_chunks(data, source) if data.startswith(_GZIP) else (data,):
        hasher.update(chunk)
    return hasher.digest()


def _without_prefix(data: bytes, source: str) -> bytes:
    """The bytes without the prefix of Scala writers; LogCorrupted if there are none."""
    if not data:
        raise LogCorrupted(f"{source} is empty")
    return data[len(_SCALA_PREFIX) :] if data.startswith(_SCALA_PREFIX + _GZIP) else data


def pieces(data: bytes, source: str) -> Iterator[bytes]:
    """Yields the text of a log file of this package in pieces, without a bound; LogCorrupted if it is damaged."""
    if data.startswith(_GZIP):
        yield from _chunks(data, source)
    else:
        yield from (data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))


def _expand(data: bytes, source: str) -> bytes:
    """Expands every gzip member, with its length and checksum verified by zlib; never holds more than the limit in memory."""
    small = _small(data)
    if small is not None:
        return small
    if expanded_limit(len(data)) > limits.EXPANDED_FLOOR:
        # The limit is large: measure first, so that a bomb is refused before its text is kept.
        for _ in _bounded_chunks(data, source):
            pass
    return b"".join(_bounded_chunks(data, source))


def _small(data: bytes) -> bytes | None:
    """Expands a single member of less than one chunk, as nearly all version files are; None for anything else."""
    member = zlib.decompressobj(wbits=31)
    try:
        text = member.decompress(data, _CHUNK)
    except zlib.error:
        return None  # `_chunks` reports the error
    return text if member.eof and not member.unused_data and len(text) <= expanded_limit(len(data)) else None


def _bounded_chunks(data: bytes, source: str) -> Iterator[bytes]:
    """Like `_chunks`; LogCorrupted before a chunk that exceeds the limit."""
    size, most = 0, expanded_limit(len(data))
    for chunk in _chunks(data, source):
        size += len(chunk)
        if size > most:
            raise LogCorrupted(f"{source} expands to more than {most} bytes")
        yield chunk


def _chunks(data: bytes, source: str) -> Iterator[bytes]:
    try:
        while data:
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                chunk = member.decompress(data, _CHUNK)
                data = member.unconsumed_tail
                if not chunk and not data and not member.eof:
                    raise LogCorrupted(f"{source} is cut off")
                yield chunk
            data = member.unused_data
    except zlib.error as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error
