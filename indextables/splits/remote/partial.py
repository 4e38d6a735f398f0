"""A split of which only the bytes in use are fetched: each piece is fetched once, and verified against its checksum before use."""

from __future__ import annotations

import mmap
import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from indextables import limits
from indextables.errors import SplitCorrupted, StorageError
from indextables.splits.format import ROW_STORE, Footer, read_footer
from indextables.splits.remote.dictionary import Location
from indextables.storage import PartialFile


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """Bytes of a split under one checksum."""

    start: int
    end: int
    crc32: int


class PartialSplit:
    """`data` is as long as the split. Its bytes are valid from the footer on, and wherever `provide` was called."""

    def __init__(self, file: PartialFile) -> None:
        self._file = file
        try:
            # Shared, so that later writes to the file are visible.
            mapped = mmap.mmap(file.descriptor, file.size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        except (OSError, ValueError) as cause:
            raise StorageError(f"split {file.name!r} cannot be cached in {file.local.parent}: {cause}") from cause
        self.data: pa.Buffer = pa.py_buffer(mapped)
        self._view = memoryview(self.data)
        self._present: set[Piece] = set()
        # By field and word: the ranges read of the dictionary, and the location of the word. The calls in sparse.py bound its size.
        self.words: dict[tuple[str, bytes], tuple[list[tuple[int, int]], Location | None]] = {}
        self._lock = threading.Lock()

    def footer(self) -> Footer:
        """The verified footer. Also stores the tail of the row store, which is part of it. FileNotFoundError if the file is missing."""
        try:
            footer = read_footer(self._view, self._file.local)
        except SplitCorrupted:  # not fetched yet
            self._fetch_footer()
            footer = read_footer(self._view, self._file.local)
        _check_blocks(footer, self._file.name)
        tail = footer.hotcache.tails.get(ROW_STORE, b"")
        if len(tail) <= footer.files[ROW_STORE].end:
            self._file.write(footer.files[ROW_STORE].end - len(tail), memoryview(tail))
        return footer

    def _fetch_footer(self) -> None:
        """Fetches the footer and one byte beyond the logged size, which must not exist."""
        start, size = self._file.tail_start, self._file.size
        (data,) = self._file.fetch([(start, size + 1)])
        if start + len(data) != size:
            found = f"at most {start}" if not data else f"more than {size}" if start + len(data) > size else str(start + len(data))
            raise SplitCorrupted(f"split {self._file.name!r} has {found} bytes, but the log says {size}")
        self._file.write(start, memoryview(data))

    def provide(self, pieces: Iterable[Piece]) -> None:
        """Fetches the missing pieces; SplitCorrupted if one does not match its checksum, or if the file is missing from the store."""
        with self._lock:
            new = sorted(set(pieces) - self._present)
            missing = [piece for piece in new if zlib.crc32(self._view[piece.start : piece.end]) != piece.crc32]
            runs = _runs(missing)
            try:
                fetched = self._file.fetch([(run[0].start, run[-1].end) for run in runs]) if runs else []
            except FileNotFoundError:
                raise SplitCorrupted(f"split {self._file.name!r} is missing from the table") from None
            for run, data in zip(runs, fetched, strict=True):
                self._keep(run, memoryview(data))
            self._present.update(new)

    def _keep(self, run: Sequence[Piece], data: memoryview) -> None:
        base = run[0].start
        for piece in run:
            part = data[piece.start - base : piece.end - base]
            if zlib.crc32(part) != piece.crc32 or len(part) != piece.end - piece.start:
                raise SplitCorrupted(
                    f"split {self._file.name!r} is damaged: the checksum of its bytes {piece.start} to {piece.end} does not match"
                )
            self._file.write(piece.start, part)


def _check_blocks(footer: Footer, name: str) -> None:
    """Checks that the footer has a checksum for each block of each index file."""
    size, sums = footer.hotcache.block_bytes, footer.hotcache.blocks
    for file, span in footer.files.items():
        if file != ROW_STORE and (size < 1 or len(sums.get(file, ())) != -(-(span.end - span.start) // size)):
            raise SplitCorrupted(f"split {name!r} is damaged: the checksums of its file {file} do not match its size")


def _runs(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Groups pieces to fetch with one request: close to each other, and up to a maximum size."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and piece.start - runs[-1][-1].end <= limits.RANGE_GAP and piece.end - runs[-1][0].start <= limits.RANGE_BYTES:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs
