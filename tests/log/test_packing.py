"""The bytes of log files: plain, gzip, the prefix of Scala writers; damage and decompression bombs (LOG-09, C-37)."""

from __future__ import annotations

import gzip

import pytest

from indextables import limits
from indextables.errors import LogCorrupted
from indextables.log.packing import digest, pack, unpack

TEXT = b'{"remove":{"path":"splits/a.split"}}\n' * 5


@pytest.mark.parametrize("data", [TEXT, pack(TEXT, compress=True), b"\x01\x01" + pack(TEXT, compress=True)], ids=["plain", "gzip", "scala"])
def test_compression_is_detected_by_the_header(data: bytes) -> None:
    assert unpack(data, "v") == TEXT


def test_equal_texts_give_equal_bytes() -> None:
    assert pack(TEXT, compress=True) == pack(TEXT, compress=True)
    assert pack(TEXT, compress=False) == TEXT


def test_the_digest_does_not_depend_on_the_packing() -> None:
    packed = pack(b"text\n" * 300_000, compress=True)
    assert digest(packed, "x") == digest(b"\x01\x01" + packed, "x") == digest(b"text\n" * 300_000, "x")
    for bad in (b"", packed[:-9]):
        with pytest.raises(LogCorrupted):
            digest(bad, "x")


def test_several_gzip_members_are_read() -> None:
    assert unpack(gzip.compress(TEXT) + gzip.compress(TEXT), "v") == TEXT * 2


def test_every_bit_flip_and_truncation_of_a_version_file_is_detected() -> None:
    data = pack(TEXT, compress=True)
    wrong = tried = 0
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            tried += 1
            try:
                wrong += unpack(bytes(damaged), "v") not in (TEXT, bytes(damaged))
            except LogCorrupted:
                continue
    for end in range(2, len(data)):
        tried += 1
        with pytest.raises(LogCorrupted):
            unpack(data[:end], "v")
    assert wrong == 0
    assert tried > 500


def test_empty_files_and_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogCorrupted, match="empty"):
        unpack(b"", "version 3")
    monkeypatch.setattr(limits, "VERSION_FILE_BYTES", 10_000)
    with pytest.raises(LogCorrupted, match="version 3 expands"):
        unpack(gzip.compress(b"\0" * 1_000_000), "version 3")
    with pytest.raises(LogCorrupted, match="version 3 expands"):
        unpack(gzip.compress(b"\0" * 6000) * 3, "version 3")
    with pytest.raises(LogCorrupted, match="larger"):
        unpack(b"x" * 10_001, "version 3")
