"""An index of which only the parts that a query looks at are there: files of full length with holes, which tantivy must never read.

What it reads to open an index is in the hotcache (tails.py). A query then reads, of the composite files, only the ranges of its fields:
`term` (dictionary), `idx` (postings) and `fieldnorm` for any word, `pos` for phrases; and `fast` for ranges and numbers. Of a word that is
known it reads only its own postings and positions, and a few places of the dictionary (dictionary.py). A range is always given whole; all
of the field where its dictionary does not read, and a whole file where its list of fields does not.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from indextables.splits.format import INDEX_META, ROW_STORE, Footer, body_end
from indextables.splits.query import FAST, POSITIONS, IndexPart
from indextables.splits.remote.dictionary import Places, find
from indextables.splits.remote.partial import PartialSplit, Piece

_DICTIONARY, _POSTINGS, _POSITIONS, _NORMS = "term", "idx", "pos", "fieldnorm"
_KNOWN = (_DICTIONARY, _POSTINGS, _POSITIONS, _NORMS, "fast", "store")
_HEAD = 8  # bytes before the postings of a field: its number of words
_FEW_BLOCKS = 4  # a field of so few is fetched as a whole
_FEW_BYTES = 32
_Bounds = tuple[int, int]
_Ranges = list[_Bounds]


def write_sparse(split: PartialSplit, footer: Footer, fields: Sequence[str], parts: Collection[IndexPart], folder: Path) -> None:
    """The files of the index in `folder`, with their ends and what is needed of them; `fields` are those of the index, in its order."""
    wanted = {name: _blocks(footer, ranges) for name, ranges in _Plan(split, footer, fields).ranges(parts).items()}
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


def _blocks(footer: Footer, ranges: _Ranges) -> list[int]:
    size = footer.hotcache.block_bytes
    return sorted({block for start, end in ranges if end > start for block in range(start // size, -(-end // size))})


class _Plan:
    """Which ranges of the files a query that reads some parts of an index may fetch, besides their tails."""

    def __init__(self, split: PartialSplit, footer: Footer, fields: Sequence[str]) -> None:
        self._split = split
        self._footer = footer
        self._fields = fields
        self._sizes = {name: where.end - where.start for name, where in footer.files.items() if name != ROW_STORE}
        self._names = {name.rpartition(".")[2]: name for name in self._sizes if name != INDEX_META}

    def ranges(self, parts: Collection[IndexPart]) -> dict[str, _Ranges]:
        found: dict[str, _Ranges] = {name: [] for name in self._sizes}
        for name, size in self._sizes.items():
            # `meta.json` is all in its tail, of a `store` nothing is ever read.
            extension = name.rpartition(".")[2]
            known = name == INDEX_META or (extension in _KNOWN and self._names[extension] == name)
            fast = extension == "fast" and any(part.kind == FAST and part.field in self._fields for part in parts)
            if not known or fast or name not in self._footer.hotcache.tails:
                found[name] = [(0, size)]
        for number, field in enumerate(self._fields):
            if mine := [part for part in parts if part.field == field and part.kind != FAST]:
                for extension, ranges in self._field(number, field, mine).items():
                    found[self._names[extension]] += ranges
        return found

    def _field(self, number: int, field: str, parts: Sequence[IndexPart]) -> dict[str, _Ranges]:
        """Its ranges by the extension of the file."""
        extensions = [_DICTIONARY, _POSTINGS, _NORMS, *([_POSITIONS] if any(part.kind == POSITIONS for part in parts) else [])]
        sections = {extension: self._part(extension, number) for extension in extensions if extension in self._names}
        whole = {extension: [] if bounds is None else [bounds] for extension, bounds in sections.items()}
        dictionary, postings = sections.get(_DICTIONARY), sections.get(_POSTINGS)
        words = [(part.kind, part.word) for part in parts if part.word is not None]
        if len(words) < len(parts) or dictionary is None or postings is None:
            return whole
        few = _FEW_BLOCKS * self._footer.hotcache.block_bytes
        if sum(end - start for extension, bounds in sections.items() if bounds and extension != _NORMS for start, end in [bounds]) <= few:
            return whole
        exact: dict[str, _Ranges] = {
            _NORMS: whole.get(_NORMS, []),
            _POSTINGS: [_within((0, _HEAD), postings)],
            _DICTIONARY: [],
            _POSITIONS: [],
        }
        try:
            for kind, word in words:
                looked_at, places = self._look_up(field, word, dictionary)
                exact[_DICTIONARY] += looked_at
                if places is not None:
                    exact[_POSTINGS].append(_within((_HEAD + places.postings[0], _HEAD + places.postings[1]), postings))
                if places is not None and kind == POSITIONS and (positions := sections.get(_POSITIONS)) is not None:
                    exact[_POSITIONS].append(_within(places.positions, positions))
        except (ValueError, IndexError, struct.error):
            return whole
        return {extension: ranges for extension, ranges in exact.items() if extension in sections}

    def _part(self, extension: str, number: int) -> _Bounds | None:
        """Where a field lies in a file: anywhere in it, where that is not known."""
        name = self._names[extension]
        known = field_ranges(self._footer.hotcache.tails.get(name, b""), self._sizes[name])
        return (0, self._sizes[name]) if known is None else next((bounds for at, bounds in known if at == number), None)

    def _look_up(self, field: str, word: bytes, dictionary: _Bounds) -> tuple[_Ranges, Places | None]:
        """What is read of the dictionary for a word, which is fetched on the way, and where the word's parts are. Remembered."""
        known = self._split.words.get((field, word))
        if known is not None:
            return known
        name = self._names[_DICTIONARY]
        base, size = dictionary[0], dictionary[1] - dictionary[0]
        start = self._footer.files[name].start + base
        looked_at: _Ranges = []

        def read(low: int, high: int) -> bytes:
            looked_at.append((base + low, base + high))
            self._split.provide(_pieces(self._footer, name, _blocks(self._footer, looked_at[-1:])))
            return bytes(memoryview(self._split.data)[start + low : start + high])

        ends = [(base, min(base + _FEW_BYTES, dictionary[1])), (max(base, dictionary[1] - _FEW_BYTES), dictionary[1])]
        self._split.provide(_pieces(self._footer, name, _blocks(self._footer, ends)))  # in one request: any look-up reads both
        places = find(word, size, read)
        self._split.words[field, word] = looked_at, places
        return looked_at, places


def _within(bounds: _Bounds, field: _Bounds) -> _Bounds:
    """Places of a field as places of its file; ValueError where the field has no such."""
    start, end = field[0] + bounds[0], field[0] + bounds[1]
    if not field[0] <= start <= end <= field[1]:
        raise ValueError(f"bytes {bounds[0]} to {bounds[1]} of a field with {field[1] - field[0]}")
    return start, end


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
