"""Avro object containers, read with suspicion: the writer's schema is data from outside, and Avro has no integrity of its own.

Blocks are expanded here, each within a bound, and a schema is rebuilt from the few shapes that tables use before fastavro sees it:
no references (whose data can nest without end), no items of zero bytes (of which a few bytes can promise millions), no logical types.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import msgspec
import pyarrow as pa

from indextables import limits
from indextables.errors import LogCorrupted

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, slots=True)
class Container:
    """The parts of a container file; nothing is expanded yet."""

    schema: Any  # rebuilt from known shapes
    codec: str
    blocks: tuple[tuple[int, bytes], ...]  # number of records, bytes


def records(data: bytes, source: str, *, most_bytes: int, most_records: int) -> Iterator[dict[str, Any]]:
    """The records of a container file, one after the other; LogCorrupted names the source where it is damaged or beyond the bounds."""
    container = _parse(data, source)
    if sum(count for count, _ in container.blocks) > most_records:
        raise LogCorrupted(f"{source} has more than {most_records} records")
    left = most_bytes
    for count, packed in container.blocks:
        block = _expand(container.codec, packed, left, source)
        left -= len(block)
        yield from _decode(block, count, container.schema, source)


def _decode(block: bytes, count: int, schema: Any, source: str) -> Iterator[dict[str, Any]]:
    stream = io.BytesIO(block)
    for _ in range(count):
        try:
            record: Any = fastavro.schemaless_reader(stream, schema, None)
        except Exception as error:  # whatever hostile bytes provoke in fastavro: EOFError, IndexError, UnicodeDecodeError, OverflowError …
            raise LogCorrupted(f"{source} is damaged: {type(error).__name__} in a record") from error
        yield record
    if stream.tell() != len(block):
        raise LogCorrupted(f"{source} is damaged: {len(block) - stream.tell()} bytes follow the records of a block")


def _parse(data: bytes, source: str) -> Container:
    cursor = _Cursor(data, source)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise LogCorrupted(f"{source} is not an Avro file")
    header: dict[bytes, bytes] = {}
    while (count := cursor.long()) != 0:
        if count < 0:
            cursor.long()  # the bytes of this part, for readers that skip it
        for _ in range(abs(count)):
            key = cursor.bytes()
            header[key] = cursor.bytes()
    sync = cursor.take(_SYNC_BYTES)
    blocks = []
    while not cursor.at_end:
        count, packed = cursor.long(), cursor.bytes()
        if count < 0 or cursor.take(_SYNC_BYTES) != sync:
            raise LogCorrupted(f"{source} is damaged: a block does not end where it should")
        blocks.append((count, packed))
    codec = header.get(b"avro.codec", b"null").decode("ascii", "replace")
    return Container(_safe_schema(header.get(b"avro.schema", b""), source), codec, tuple(blocks))


@dataclass(slots=True)
class _Cursor:
    data: bytes
    source: str
    position: int = 0

    @property
    def at_end(self) -> bool:
        return self.position == len(self.data)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.position:
            raise LogCorrupted(f"{self.source} is cut off")
        self.position += size
        return self.data[self.position - size : self.position]

    def bytes(self) -> bytes:
        return self.take(self.long())

    def long(self) -> int:
        """Zigzag, seven bits a byte, low bits first."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise LogCorrupted(f"{self.source} is damaged: a number has more than 10 bytes")


def _expand(codec: str, packed: bytes, most: int, source: str) -> bytes:
    """A block's bytes; never more than `most` in memory."""
    try:
        if codec == "null":
            block = packed
        elif codec == "deflate":
            inflater = zlib.decompressobj(wbits=-15)
            block = inflater.decompress(packed, most + 1)
            if len(block) <= most and not inflater.eof:
                raise LogCorrupted(f"{source} is damaged: a block is cut off")
        elif codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                block = stream.read(most + 1)
        elif codec == "snappy":
            block = _unsnap(packed, most, source)
        else:
            raise LogCorrupted(f"{source} is packed with {codec[:40]!r}, which is not supported (null, deflate, snappy, zstandard are)")
    except (zlib.error, pa.ArrowException, OSError, ValueError) as error:
        raise LogCorrupted(f"{source} is damaged: a block does not expand") from error
    if len(block) > most:
        raise LogCorrupted(f"{source} expands to more than the {most} bytes that are left for it")
    return block


def _unsnap(packed: bytes, most: int, source: str) -> bytes:
    """Raw snappy, its length in front and a big-endian CRC-32 of the expanded bytes behind."""
    length = 0
    for index, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if length > most:
        raise LogCorrupted(f"{source} expands to more than the {most} bytes that are left for it")
    block: bytes = pa.Codec("snappy").decompress(packed[:-4], decompressed_size=length, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(packed[-4:], "big"):
        raise LogCorrupted(f"{source} is damaged: the checksum of a block does not match")
    return block


def _safe_schema(text: bytes, source: str) -> Any:
    try:
        given = msgspec.json.decode(text)
        if not isinstance(given, dict) or given.get("type") != "record":
            raise LogCorrupted(f"{source} does not hold records")
        return fastavro.parse_schema(_rebuilt(given, [0]))
    except (msgspec.MsgspecError, ValueError, RecursionError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise LogCorrupted(f"{source} has a schema that tables do not use: {str(error)[:120]}") from error


def _rebuilt(given: Any, made: list[int], depth: int = 0) -> Any:
    """The same shape, with nothing in it but names and types; ValueError where the shape is none of ours."""
    if depth > limits.AVRO_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(given, list):
        if not 1 <= len(given) <= limits.AVRO_BRANCHES:
            raise ValueError("a union of too many types, or none")
        return ["null" if branch == "null" else _rebuilt(branch, made, depth + 1) for branch in given]
    if isinstance(given, dict) and isinstance(given.get("type"), str):
        kind = given["type"]
        if kind == "record":
            return _rebuilt_record(given, made, depth)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {"type": kind, inner: _rebuilt(given[inner], made, depth + 1)}
        given = kind
    if given in _PRIMITIVES:
        return given
    raise ValueError(f"type {str(given)[:60]!r}")


def _rebuilt_record(given: Any, made: list[int], depth: int) -> Any:
    """Has at least one field that takes a byte, since none of the shapes but null takes no byte, and null stands in unions only."""
    fields = given["fields"]
    if not isinstance(fields, list) or not 1 <= len(fields) <= limits.AVRO_FIELDS:
        raise ValueError("a record with too many fields, or none")
    made[0] += 1
    name = f"r{made[0]}"
    return {"type": "record", "name": name, "fields": [{"name": f["name"], "type": _rebuilt(f["type"], made, depth + 1)} for f in fields]}
