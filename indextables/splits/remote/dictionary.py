"""Looks up one word in tantivy's term dictionary, reading only the bytes that tantivy itself reads. All integers are little-endian.

A field's part of the `term` file is::

    FST         u64 version (2), u64 type, nodes, u64 number of words, u64 offset of the root node
    locations   u64 length of the headers, u64 number of words, headers, packed bits
    u64         length of the locations
    u32, u32    version (1) and kind of the dictionary; 1 is this kind

The FST maps each word to its ordinal. A node is read backwards from its offset: a state byte whose two high bits give its form: (3) one
transition, to the node that ends right before this one; (2) one transition with target and output; (0, 1) any number of transitions, and
whether a word may end here. The sum of the outputs along the path is the ordinal. Each block of 256 words has a header: the offset of its
packed bits (u64), then for its first word the documents (u32), start and length of postings (u64, u32) and of positions (u64, u32), then
the bit widths (u8 each) of documents, postings and positions of the other words, whose starts are packed as distances from the first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

Bounds = tuple[int, int]
Read = Callable[[int, int], bytes]  # the bytes between two offsets of the field's part

# A single transition on one of these bytes stores the byte's index in this string, counted from 1, in its state byte.
_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
_END = struct.Struct("<QII")
_KIND = (1, 1)
_VERSION = 2  # of the FST
_LEAST = 32  # bytes of an FST
_INDEXED = 32  # a node with more transitions has a lookup table of 256 bytes
_ONE_STEP = 2 + 1 + 8 + 8  # maximum bytes of a node with one transition
_BLOCK = 256  # words under one header
_HEADER = struct.Struct("<QIQIQIBBB")
_WORD = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Location:
    """The ranges of a word's postings and positions in the field's parts of `idx` and `pos`."""

    postings: Bounds
    positions: Bounds


def find(word: bytes, size: int, read: Read) -> Location | None:
    """The location of a word; None if the field does not have it. ValueError if the dictionary (of `size` bytes) is not as above.

    Calls `read` for every byte that tantivy reads when it opens the dictionary and looks up the word.
    """
    length, version, kind = _END.unpack(_read(read, size - _END.size, size, size))
    start = size - _END.size - length
    if (version, kind) != _KIND or start < _LEAST:
        raise ValueError(f"unsupported dictionary: kind {kind}, version {version}")
    number = _number(word, start, read)
    headers, words = struct.unpack("<QQ", _read(read, start, start + 16, size))
    if number is None:
        return None
    if number >= words:
        raise ValueError(f"word {number} of {words}")
    return _location(number, start + 16, start + 16 + headers, size - _END.size, read)


def _read(read: Read, start: int, end: int, size: int) -> bytes:
    if not 0 <= start <= end <= size:
        raise ValueError(f"bytes {start} to {end} of {size}")
    data = read(start, end)
    if len(data) != end - start:
        raise ValueError(f"{len(data)} bytes, not {end - start}")
    return data


# --- the ordinal of a word


def _number(word: bytes, size: int, read: Read) -> int | None:
    (version,) = _WORD.unpack(_read(read, 0, 8, size))
    _, node = struct.unpack("<QQ", _read(read, size - 16, size, size))
    if version != _VERSION:
        raise ValueError(f"FST version {version}")
    total = 0
    for byte in word:
        step = _Node(node, size, read).step(byte)
        if step is None:
            return None
        node, output = step
        total += output
    last = _Node(node, size, read)
    return total + last.final_output if last.is_final else None


class _Node:
    """One node of the FST; offset 0 is the final node without transitions."""

    def __init__(self, offset: int, size: int, read: Read) -> None:
        self.is_final = offset == 0
        self.final_output = 0
        self._state = 0
        self._inputs = b""
        if offset == 0:
            return
        self._offset = offset
        self._data = self._backwards(_ONE_STEP, size, read)
        self._state = self._data[0] >> 6
        if self._state < 2:
            self._read_steps(size, read)

    def _backwards(self, length: int, size: int, read: Read) -> bytes:
        """The last `length` bytes of the node in reverse order, so that the state byte is at index 0."""
        return _read(read, max(0, self._offset + 1 - length), self._offset + 1, size)[::-1]

    def step(self, byte: int) -> tuple[int, int] | None:
        """The target and the output of the transition on a byte; None if there is none."""
        if self._state >= 2:
            return self._only_step(byte)
        found = self._inputs.find(byte)
        if found < 0:
            return None
        target = self._target(self._targets + found * self._target_size, self._target_size, self._end)
        return target, self._value(self._outputs + found * self._output_size, self._output_size)

    def _only_step(self, byte: int) -> tuple[int, int] | None:
        common = self._data[0] & 0x3F
        at = 1 if common else 2
        if byte != (_COMMON[common - 1] if common else self._data[1]):
            return None
        if self._state == 3:
            return self._offset - at, 0
        target_size, output_size = divmod(self._data[at], 16)
        end = at + 1 + target_size + output_size
        return self._target(at + 1, target_size, end), self._value(at + 1 + target_size, output_size)

    def _read_steps(self, size: int, read: Read) -> None:
        self.is_final = self._state == 1
        steps = self._data[0] & 0x3F
        at = 1 if steps else 2
        if not steps:
            steps = 256 if self._data[1] == 1 else self._data[1]
        self._target_size, self._output_size = divmod(self._data[at], 16)
        at += 1 + (256 if steps > _INDEXED else 0)
        self._targets = at + steps
        self._outputs = self._targets + steps * self._target_size
        self._end = self._outputs + (steps + self.is_final) * self._output_size
        self._data = self._backwards(self._end, size, read)
        self._inputs = self._data[at : at + steps]
        if self.is_final:
            self.final_output = self._value(self._outputs + steps * self._output_size, self._output_size)

    def _value(self, at: int, size: int) -> int:
        return int.from_bytes(self._data[at : at + size], "big")  # the bytes are reversed

    def _target(self, at: int, size: int, end: int) -> int:
        """The offset of the target node, which is stored as a distance from the first byte of this node, or 0 for the final node."""
        distance = self._value(at, size)
        target = self._offset + 1 - end - distance if distance else 0
        if target < 0 or target >= self._offset:
            raise ValueError(f"a transition from {self._offset} to {target}")
        return target


# --- the location of a word


def _location(number: int, headers: int, bits: int, size: int, read: Read) -> Location:
    block, inner = divmod(number, _BLOCK)
    header = headers + block * _HEADER.size
    if header + _HEADER.size > bits:
        raise ValueError(f"no header for word {number}")
    values = _HEADER.unpack(_read(read, header, header + _HEADER.size, size))
    offset, _, postings, postings_length, positions, positions_length = values[:6]
    document_bits, postings_bits, positions_bits = values[6:]
    if inner == 0:
        return Location((postings, postings + postings_length), (positions, positions + positions_length))
    each = document_bits + postings_bits + positions_bits
    start = bits + offset
    # tantivy reads eight bytes at a time, and takes the start of the next word as the end of this one.
    packed = int.from_bytes(_read(read, start, min(start + (_BLOCK * each + 7) // 8 + 16, size), size), "little")

    def value(at: int, width: int) -> int:
        return (packed >> at) & ((1 << width) - 1)

    here = (inner - 1) * each
    return Location(
        (postings + value(here, postings_bits), postings + value(here + each, postings_bits)),
        (positions + value(here + postings_bits, positions_bits), positions + value(here + each + postings_bits, positions_bits)),
    )
