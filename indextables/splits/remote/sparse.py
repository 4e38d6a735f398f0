"""Writes the parts of an index that a query reads: sparse files of full length, whose holes tantivy must never read.

What tantivy reads to open an index is in the hotcache (format/file_footers.py). A query then reads only the ranges of its fields in the
composite files: `term` (dictionary), `idx` (postings) and `fieldnorm` for any word, `pos` for phrases; and `fast` for ranges and numbers.
For a given word it reads only the word's postings and positions, and a few parts of the dictionary (dictionary.py). Where the dictionary
cannot be parsed, the complete field is provided, and where the list of fields of a file cannot be parsed, the complete file.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from indextables.splits.format import INDEX_META, ROW_STORE, Footer, body_end
from indextables.splits.query import FAST, POSITIONS, IndexPart
from indextables.splits.remote.dictionary import Location, find
from indextables.splits.remote.partial import PartialSplit, Piece

_DICTIONARY, _POSTINGS, _POSITIONS, _NORMS = "term", "idx", "pos", "fieldnorm"
_KNOWN = (_DICTIONARY, _POSTINGS, _POSITIONS, _NORMS, "fast", "store")
_HEAD = 8  # bytes before the postings of a field, which hold its number of words
_FEW_BLOCKS = 4  # a field of at most this many blocks is fetched completely
_FEW_BYTES = 32
_Bounds = tuple[int, int]
_Ranges = list[_Bounds]


def write_sparse(split: PartialSplit, footer: Footer, fields: Sequence[str], parts: Collection[IndexPart], folder: Path) -> None:
    """Writes the index files to `folder`, with their tails and what a query that reads `parts` needs; `fields` are in index order."""
    blocks_by_file = {name: _blocks(footer, ranges) for name, ranges in _Plan(split, footer, fields).ranges(parts).items()}
    starts = {name: footer.files[name].start for name in blocks_by_file}
    split.provide(piece for name, blocks in blocks_by_file.items() for piece in _pieces(footer, name, blocks))
    data = memoryview(split.data)
    for name, blocks in blocks_by_file.items():
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
    span, size, sums = footer.files[name], footer.hotcache.block_bytes, footer.hotcache.blocks[name]
    return [Piece(span.start + n * size, min(span.start + (n + 1) * size, span.end), sums[n]) for n in blocks]


def _blocks(footer: Footer, ranges: _Ranges) -> list[int]:
    size = footer.hotcache.block_bytes
    return sorted({block for start, end in ranges if end > start for block in range(start // size, -(-end // size))})


class _Plan:
    """Computes the ranges of the index files that a query may read, besides their tails."""

    def __init__(self, split: PartialSplit, footer: Footer, fields: Sequence[str]) -> None:
        self._split = split
        self._footer = footer
        self._fields = fields
        self._sizes = {name: span.end - span.start for name, span in footer.files.items() if name != ROW_STORE}
        self._names = {name.rpartition(".")[2]: name for name in self._sizes if name != INDEX_META}

    def ranges(self, parts: Collection[IndexPart]) -> dict[str, _Ranges]:
        found: dict[str, _Ranges] = {name: [] for name in self._sizes}
        for name, size in self._sizes.items():
            # The tail of `meta.json` is the complete file, and a `store` is never read.
            extension = name.rpartition(".")[2]
            is_known = name == INDEX_META or (extension in _KNOWN and self._names[extension] == name)
            fast = extension == "fast" and any(part.kind == FAST and part.field in self._fields for part in parts)
            if not is_known or fast or name not in self._footer.hotcache.tails:
                found[name] = [(0, size)]
        for number, field in enumerate(self._fields):
            if of_field := [part for part in parts if part.field == field and part.kind != FAST]:
                for extension, ranges in self._field(number, field, of_field).items():
                    found[self._names[extension]] += ranges
        return found

    def _field(self, number: int, field: str, parts: Sequence[IndexPart]) -> dict[str, _Ranges]:
        """The ranges of one field, by file extension."""
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
                dictionary_ranges, location = self._look_up(field, word, dictionary)
                exact[_DICTIONARY] += dictionary_ranges
                if location is not None:
                    exact[_POSTINGS].append(_within((_HEAD + location.postings[0], _HEAD + location.postings[1]), postings))
                if location is not None and kind == POSITIONS and (positions := sections.get(_POSITIONS)) is not None:
                    exact[_POSITIONS].append(_within(location.positions, positions))
        except (ValueError, IndexError, struct.error):
            return whole
        return {extension: ranges for extension, ranges in exact.items() if extension in sections}

    def _part(self, extension: str, number: int) -> _Bounds | None:
        """The range of a field in a file: the complete file if its list of fields cannot be parsed, None if it lacks the field."""
        name = self._names[extension]
        fields = field_ranges(self._footer.hotcache.tails.get(name, b""), self._sizes[name])
        return (0, self._sizes[name]) if fields is None else next((bounds for at, bounds in fields if at == number), None)

    def _look_up(self, field: str, word: bytes, dictionary: _Bounds) -> tuple[_Ranges, Location | None]:
        """The ranges of the dictionary that were fetched to look up a word, and the word's location. Cached per split."""
        cached = self._split.words.get((field, word))
        if cached is not None:
            return cached
        name = self._names[_DICTIONARY]
        base, size = dictionary[0], dictionary[1] - dictionary[0]
        start = self._footer.files[name].start + base
        ranges: _Ranges = []

        def read(low: int, high: int) -> bytes:
            ranges.append((base + low, base + high))
            self._split.provide(_pieces(self._footer, name, _blocks(self._footer, ranges[-1:])))
            return bytes(memoryview(self._split.data)[start + low : start + high])

        ends = [(base, min(base + _FEW_BYTES, dictionary[1])), (max(base, dictionary[1] - _FEW_BYTES), dictionary[1])]
        self._split.provide(_pieces(self._footer, name, _blocks(self._footer, ends)))  # one request: every lookup reads both
        location = find(word, size, read)
        self._split.words[field, word] = ranges, location
        return ranges, location


def _within(bounds: _Bounds, field: _Bounds) -> _Bounds:
    """Converts offsets within a field to offsets within its file; ValueError if they lie outside the field."""
    start, end = field[0] + bounds[0], field[0] + bounds[1]
    if not field[0] <= start <= end <= field[1]:
        raise ValueError(f"bytes {bounds[0]} to {bounds[1]} of a field of {field[1] - field[0]} bytes")
    return start, end


def field_ranges(tail: bytes, size: int) -> list[tuple[int, tuple[int, int]]] | None:
    """The number and range of each field in a composite file of `size` bytes, from its tail; None if that cannot be parsed."""
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
    """Decodes a tantivy variable-length integer: seven bits per byte, the high bit marks the last byte."""
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
    raise ValueError("a variable-length integer does not end")
