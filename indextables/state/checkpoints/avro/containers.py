"""Avro object container files, treated as untrusted: the writer's schema is external data, and Avro has no checksums.

Blocks are decompressed here within a size limit. Before fastavro sees a schema, it is rebuilt from the few types that tables use: no named
references (whose data can nest without end), no zero-byte items (a few bytes can declare millions of them), no logical types.
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


# Header key of our manifests: the lengths of all records, 32 bits each, little-endian, zstd, then Base64, because readers such as fastavro
# decode header values as text. The first manifests were written without Base64. Used only with our own schema: lengths that do not fit are
# damage.
LENGTHS = b"indextables.lengths"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Container:
    """The header and the blocks of a container file, still compressed."""

    header: Mapping[bytes, bytes]
    blocks: tuple[tuple[int, bytes], ...]  # number of records, compressed bytes

    @property
    def codec(self) -> str:
        return self.header.get(b"avro.codec", b"null").decode("ascii", "replace")

    @property
    def schema_text(self) -> bytes:
        return self.header.get(b"avro.schema", b"")

    @property
    def num_records(self) -> int:
        return sum(count for count, _ in self.blocks)


def records(data: bytes, source: str, *, max_bytes: int, max_records: int) -> Iterator[dict[str, Any]]:
    """The records of a container file; LogCorrupted names the source if it is damaged or exceeds a limit."""
    container = parse(data, source)
    schema = _safe_schema(container.schema_text, source)
    if container.num_records > max_records:
        raise LogCorrupted(f"{source} has more than {max_records} records")
    for count, packed in container.blocks:
        block = expand(container.codec, packed, max_bytes, source)
        max_bytes -= len(block)
        stream = io.BytesIO(block)
        for _ in range(count):
            try:
                record: Any = fastavro.schemaless_reader(stream, schema, None)
            except Exception as error:  # malformed bytes raise many types: EOFError, IndexError, UnicodeDecodeError, OverflowError …
                raise LogCorrupted(f"{source} is damaged: {type(error).__name__} in a record") from error
            yield record
        if stream.tell() != len(block):
            raise LogCorrupted(f"{source} is damaged: {len(block) - stream.tell()} bytes follow the records of a block")


def lengths_of(container: Container, source: str) -> npt.NDArray[np.uint32] | None:
    """The length of each record; None if the file has no usable list of them. The caller must check each length against the record."""
    packed = container.header.get(LENGTHS)
    if packed is None:
        return None
    try:
        packed = packed if packed.startswith(_ZSTD) else base64.b64decode(packed, validate=True)
    except ValueError:
        return None
    text = expand("zstandard", packed, 4 * container.num_records, source)
    return np.frombuffer(text, np.uint32) if len(text) == 4 * container.num_records else None


def pack(block: bytes, codec: str, level: int) -> bytes:
    """A compressed block; `codec` is null, snappy or zstandard."""
    if codec == "null":
        return block
    if codec == "snappy":
        packed: bytes = pa.Codec("snappy").compress(block, asbytes=True)
        return packed + zlib.crc32(block).to_bytes(4, "big")
    found: bytes = pa.Codec("zstd", compression_level=level).compress(block, asbytes=True)
    return found


def assemble(schema_text: bytes, codec: str, blocks: Sequence[tuple[int, bytes]], lengths: npt.NDArray[np.uint32] | None = None) -> bytes:
    """A container file of compressed blocks. Equal contents give equal bytes: the sync marker is a digest of header and blocks."""
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
    """A zigzag varint of a non-negative number."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse(data: bytes, source: str) -> Container:
    """The parts of a container file; LogCorrupted unless it is complete: a header, and blocks that end with the sync marker."""
    cursor = _Cursor(data, source)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise LogCorrupted(f"{source} is not an Avro file")
    header: dict[bytes, bytes] = {}
    while (count := cursor.long()) != 0:
        if count < 0:
            cursor.long()  # the size of this map block in bytes, for readers that skip it
        for _ in range(abs(count)):
            key = cursor.bytes()
            header[key] = cursor.bytes()
    sync = cursor.take(_SYNC_BYTES)
    blocks = []
    while cursor.position < len(data):
        count, packed = cursor.long(), cursor.bytes()
        if count < 0 or cursor.take(_SYNC_BYTES) != sync:
            raise LogCorrupted(f"{source} is damaged: a block does not end with the sync marker")
        blocks.append((count, packed))
    return Container(header, tuple(blocks))


@dataclass(slots=True)
class _Cursor:
    data: bytes
    source: str
    position: int = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.position:
            raise LogCorrupted(f"{self.source} is truncated")
        self.position += size
        return self.data[self.position - size : self.position]

    def bytes(self) -> bytes:
        return self.take(self.long())

    def long(self) -> int:
        """A zigzag varint: seven bits per byte, low bits first."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise LogCorrupted(f"{self.source} is damaged: a number has more than 10 bytes")


def expand(codec: str, packed: bytes, most: int, source: str, size: int | None = None) -> bytes:
    """The decompressed bytes of a block, never more than `most`. With `size`, it must have exactly that many bytes."""
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
                raise LogCorrupted(f"{source} is damaged: a block is truncated")
        elif codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                block = stream.read(most + 1)
        elif codec == "snappy":
            block = _expand_snappy(packed, most, source)
        else:
            raise LogCorrupted(f"{source} uses codec {codec[:40]!r}, which is not supported; null, deflate, snappy and zstandard are")
    except (zlib.error, pa.ArrowException, OSError, ValueError) as error:
        raise LogCorrupted(f"{source} is damaged: a block cannot be decompressed") from error
    if len(block) > most:
        raise LogCorrupted(f"{source} expands to more than the remaining limit of {most} bytes")
    return block


def _expand_snappy(packed: bytes, most: int, source: str) -> bytes:
    """Decompresses raw snappy: preceded by its length, followed by a big-endian CRC-32 of the decompressed bytes."""
    length = 0
    for index, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if length > most:
        raise LogCorrupted(f"{source} expands to more than the remaining limit of {most} bytes")
    block: bytes = pa.Codec("snappy").decompress(packed[:-4], decompressed_size=length, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(packed[-4:], "big"):
        raise LogCorrupted(f"{source} is damaged: the checksum of a block does not match")
    return block


def _safe_schema(text: bytes, source: str) -> Any:
    try:
        given = msgspec.json.decode(text)
        if not isinstance(given, dict) or given.get("type") != "record":
            raise LogCorrupted(f"{source} does not contain records")
        return fastavro.parse_schema(_rebuild(given, [0]))
    except (msgspec.MsgspecError, ValueError, RecursionError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise LogCorrupted(f"{source} has an unsupported schema: {str(error)[:120]}") from error


def _rebuild(given: Any, counter: list[int], depth: int = 0) -> Any:
    """The schema reduced to names and types; ValueError if it uses anything that tables do not."""
    if depth > limits.AVRO_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(given, list):
        if not 1 <= len(given) <= limits.AVRO_BRANCHES:
            raise ValueError(f"a union must have 1 to {limits.AVRO_BRANCHES} types")
        return ["null" if branch == "null" else _rebuild(branch, counter, depth + 1) for branch in given]
    if isinstance(given, dict) and isinstance(given.get("type"), str):
        kind = given["type"]
        if kind == "record":  # at least one field, so that it takes at least one byte: only null takes none, and is allowed only in unions
            fields = given["fields"]
            if not isinstance(fields, list) or not 1 <= len(fields) <= limits.AVRO_FIELDS:
                raise ValueError(f"a record must have 1 to {limits.AVRO_FIELDS} fields")
            counter[0] += 1
            name = f"r{counter[0]}"
            inner = [{"name": field["name"], "type": _rebuild(field["type"], counter, depth + 1)} for field in fields]
            return {"type": kind, "name": name, "fields": inner}
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            return {"type": kind, key: _rebuild(given[key], counter, depth + 1)}
        given = kind
    if given in _PRIMITIVES:
        return given
    raise ValueError(f"type {str(given)[:60]!r}")
