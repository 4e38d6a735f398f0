"""An index of which only the parts that a query looks at are there: files of full length with holes, which tantivy must never read.

What it reads to open an index is in the hotcache (tails.py). A query then reads, of the composite files, only the ranges of its fields:
`term` (dictionary), `idx` (postings) and `fieldnorm` for any word, `pos` for phrases; and `fast` for ranges and numbers. A range is always
given whole, and a whole file where its list of fields does not read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from indextables.splits.bundle import INDEX_META, ROW_STORE, Footer
from indextables.splits.partial import PartialSplit, Piece
from indextables.splits.tails import body_end

WORDS = "words"
POSITIONS = "positions"
FAST = "fast"
Need = tuple[str, str]  # field, and one of these
_PARTS = {"term": (WORDS, POSITIONS), "idx": (WORDS, POSITIONS), "fieldnorm": (WORDS, POSITIONS), "pos": (POSITIONS,), "fast": (FAST,)}
_Ranges = list[tuple[int, int]]


def write_sparse(split: PartialSplit, footer: Footer, fields: Sequence[str], needs: Collection[Need], folder: Path) -> None:
    """The files of the index in `folder`, with their ends and what is needed of them; `fields` are those of the index, in its order."""
    wanted = {name: _blocks(footer, name, _ranges(footer, name, fields, needs)) for name in footer.files if name != ROW_STORE}
    starts = {name: footer.files[name].start for name in wanted}
    split.provide(piece for name, blocks in wanted.items() for piece in _pieces(footer, name, blocks))
    data = memoryview(split.data)
    for name, blocks in wanted.items():
        size = footer.files[name].end - starts[name]
        tail = footer.hotcache.tails.get(name, b"")[-size:] if size else b""
        with (folder / name).open("xb") as file:
            file.truncate(size)
            for block in blocks:
                start = block * footer.hotcache.block_bytes
                file.seek(start)
                file.write(data[starts[name] + start : starts[name] + min(start + footer.hotcache.block_bytes, size)])
            file.seek(size - len(tail))
            file.write(tail)


def _pieces(footer: Footer, name: str, blocks: Iterable[int]) -> list[Piece]:
    where, size, sums = footer.files[name], footer.hotcache.block_bytes, footer.hotcache.blocks[name]
    return [Piece(where.start + n * size, min(where.start + (n + 1) * size, where.end), sums[n]) for n in blocks]


def _blocks(footer: Footer, name: str, ranges: _Ranges) -> list[int]:
    size = footer.hotcache.block_bytes
    return sorted({block for start, end in ranges if end > start for block in range(start // size, -(-end // size))})


def _ranges(footer: Footer, name: str, fields: Sequence[str], needs: Collection[Need]) -> _Ranges:
    """What a query with these needs may read of a file, besides its tail."""
    size = footer.files[name].end - footer.files[name].start
    tail = footer.hotcache.tails.get(name)
    if tail is None:
        return [(0, size)]
    extension = name.rpartition(".")[2]
    if name == INDEX_META or extension == "store":  # all of it is in the tail, or nothing of it is ever read
        return []
    if extension not in _PARTS:
        return [(0, size)]
    numbers = {fields.index(field) for field, part in needs if part in _PARTS[extension] and field in fields}
    if not numbers:
        return []
    if extension == "fast":
        return [(0, size)]
    known = field_ranges(tail, size)
    return [(0, size)] if known is None else [bounds for number, bounds in known if number in numbers]


def field_ranges(tail: bytes, size: int) -> list[tuple[int, tuple[int, int]]] | None:
    """Where each field lies in a composite file of `size` bytes, by its tail; None where that does not read."""
    data = memoryview(tail)
    try:
        end, _ = body_end(data)
        start = end - 4 - struct.unpack_from("<I", data, end - 4)[0]
        count, at = _vint(data, start)
        offsets: list[int] = []
        numbers: list[int] = []
        for _ in range(count):
            step, at = _vint(data, at)
            offsets.append((offsets[-1] if offsets else 0) + step)
            numbers.append(struct.unpack_from("<I", data, at)[0])
            _, at = _vint(data, at + 4)
    except (ValueError, IndexError, struct.error):
        return None
    offsets.append(size - len(tail) + start)
    if start < 0 or any(a > b for a, b in pairwise(offsets)) or offsets[-1] > size:
        return None
    return list(zip(numbers, pairwise(offsets), strict=False))


def _vint(data: memoryview, at: int) -> tuple[int, int]:
    """tantivy's variable integers: seven bits a byte, the last has its high bit set."""
    if at < 0:
        raise IndexError(at)
    value, shift = 0, 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            return value, at
        shift += 7
    raise ValueError("a number that does not end")
