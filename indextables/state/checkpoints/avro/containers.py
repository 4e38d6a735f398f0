"""Avro object containers, read with suspicion: the writer's schema is data from outside, and Avro has no integrity of its own.

Blocks are expanded here, each within a bound, and a schema is rebuilt from the few shapes that tables use before fastavro sees it:
no references (whose data can nest without end), no items of zero bytes (of which a few bytes can promise millions), no logical types.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables import limits
from indextables.errors import LogCorrupted

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


# Lengths of all records, in our manifests: 32 bits each, little-endian, zstd, and Base64, since readers such as fastavro take whatever
# stands in a header for text. The first ones were without that.
LENGTHS = b"indextables.lengths"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Container:
    """The parts of a container file; nothing is expanded yet."""

    header: Mapping[bytes, bytes]
    blocks: tuple[tuple[int, bytes], ...]  # number of records, bytes

    @property
    def codec(self) -> str:
        return self.header.get(b"avro.codec", b"null").decode("ascii", "replace")

    @property
    def schema_text(self) -> bytes:
        return self.header.get(b"avro.schema", b"")

    @property
    def num_records(self) -> int:
        return sum(count for count, _ in self.blocks)


def records(data: bytes, source: str, *, most_bytes: int, most_records: int) -> Iterator[dict[str, Any]]:
    """The records of a container file, one after the other; LogCorrupted names the source where it is damaged or beyond the bounds."""
    container = parse(data, source)
    schema = _safe_schema(container.schema_text, source)
    if container.num_records > most_records:
        raise LogCorrupted(f"{source} has more than {most_records} records")
    for count, block in expanded(container, most_bytes, source):
        yield from _decode(block, count, schema, source)


def expanded(
    container: Container, most_bytes: int, source: str, lengths: npt.NDArray[np.uint32] | None = None
) -> Iterator[tuple[int, bytes]]:
    """The number of records of each block, and their bytes; LogCorrupted as soon as all together are more than `most_bytes`.

    With the `lengths` of all records a block must have just the bytes that they add up to; its size is known then before it is expanded.
    """
    left, start = most_bytes, 0
    for count, packed in container.blocks:
        size = None if lengths is None else int(lengths[start : start + count].sum())
        block = _expand(container.codec, packed, left, source, size)
        left, start = left - len(block), start + count
        yield count, block


def lengths_of(container: Container, source: str) -> npt.NDArray[np.uint32] | None:
    """How long each record is, where the file says it; it is a hint, and may be wrong."""
    packed = container.header.get(LENGTHS)
    if packed is None:
        return None
    try:
        packed = packed if packed.startswith(_ZSTD) else base64.b64decode(packed, validate=True)
    except ValueError:
        return None
    text = _expand("zstandard", packed, 4 * container.num_records, source)
    return np.frombuffer(text, np.uint32) if len(text) == 4 * container.num_records else None


def pack(block: bytes, codec: str, level: int) -> bytes:
    """A block as it stands in a file; `codec` is null, snappy or zstandard."""
    if codec == "null":
        return block
    if codec == "snappy":
        packed: bytes = pa.Codec("snappy").compress(block, asbytes=True)
        return packed + zlib.crc32(block).to_bytes(4, "big")
    found: bytes = pa.Codec("zstd", compression_level=level).compress(block, asbytes=True)
    return found


def assemble(schema_text: bytes, codec: str, blocks: Sequence[tuple[int, bytes]], lengths: npt.NDArray[np.uint32] | None = None) -> bytes:
    """A container file of packed blocks. Equal contents give equal bytes: the marks between blocks are a digest of what is in them."""
    header = {b"avro.schema": schema_text, b"avro.codec": codec.encode()}
    if lengths is not None:
        header[LENGTHS] = base64.b64encode(pack(lengths.astype("<u4").tobytes(), "zstandard", 3))
    digest = hashlib.sha256(b"".join(header.values()))
    for _, packed in blocks:
        digest.update(packed)
    sync = digest.digest()[:_SYNC_BYTES]
    parts = [_MAGIC, _long(len(header))]
    for key, value in header.items():
        parts += [_long(len(key)), key, _long(len(value)), value]
    parts += [_long(0), sync]
    for count, packed in blocks:
        parts += [_long(count), _long(len(packed)), packed, sync]
    return b"".join(parts)


def _long(value: int) -> bytes:
    """Zigzag of a number that is not negative."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


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


def parse(data: bytes, source: str) -> Container:
    """LogCorrupted unless the file is whole: a header, and blocks that end where they should."""
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
    return Container(header, tuple(blocks))


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


def _expand(codec: str, packed: bytes, most: int, source: str, size: int | None = None) -> bytes:
    """A block's bytes; never more than `most` in memory. With `size` it must have just that many."""
    try:
        if codec == "zstandard" and size is not None and size <= most:
            known: bytes = pa.Codec("zstd").decompress(packed, decompressed_size=size, asbytes=True)
            return known
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
