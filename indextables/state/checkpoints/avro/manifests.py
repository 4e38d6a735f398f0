"""Manifests: the file entries of a state, in Avro files that states share, named by a digest of their bytes (A-04)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from indextables import limits
from indextables.actions import Add, Normalise, columns, encoded, nulls
from indextables.errors import LogCorrupted
from indextables.log import names, packing
from indextables.paths import NULL_PARTITION, are_plain
from indextables.state.checkpoints.avro import containers as avro
from indextables.state.checkpoints.avro import encode
from indextables.state.checkpoints.avro.decode import TooManyItems, decode_block
from indextables.state.checkpoints.avro.entry import SCHEMA_TEXT
from indextables.state.checkpoints.checked_columns import check_bounds, has_null_word

CODECS = {"zstd": "zstandard", "snappy": "snappy", "none": "null"}
_DIGESTED = re.compile(names.manifest_path("([0-9a-f]{32})").replace(".", r"\."))
_ADD = msgspec.json.Decoder(Add)  # created at import, for the reason in splits/format/bundle.py
_PLAIN = bytes(byte for byte in range(256) if are_plain([f"x{chr(byte)}x"]))
Block = tuple[int, bytes, npt.NDArray[np.uint32]]  # number of records, compressed bytes, length of each record


@dataclass(frozen=True, slots=True)
class Packing:
    codec: str  # as Avro names it
    level: int


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def digest_in(path: str) -> str | None:
    """The digest in the name of a manifest; None for manifests of other programs."""
    match = _DIGESTED.fullmatch(path)
    return match[1] if match else None


def path_of(data: bytes) -> str:
    """The path of a manifest with these bytes, relative to the log folder."""
    return names.manifest_path(digest_of(data))


def encode_blocks(rows: pa.Table, packing: Packing) -> list[Block]:
    return [(len(lengths), avro.pack(block, packing.codec, packing.level), lengths) for block, lengths in encode.blocks(rows)]


def assemble(blocks: Sequence[Block], packing: Packing) -> bytes:
    lengths = np.concatenate([lengths for _, _, lengths in blocks]) if blocks else np.zeros(0, np.uint32)
    return avro.assemble(SCHEMA_TEXT, packing.codec, [(count, packed) for count, packed, _ in blocks], lengths)


def own_blocks(container: avro.Container, source: str) -> list[Block] | None:
    """The blocks of one of our manifests; None if another program wrote it."""
    lengths = avro.lengths_of(container, source) if container.schema_text == SCHEMA_TEXT else None
    if lengths is None:
        return None
    ends = np.cumsum([count for count, _ in container.blocks])
    cuts = np.split(lengths, ends[:-1]) if len(ends) else []
    return [(count, packed, cut) for (count, packed), cut in zip(container.blocks, cuts, strict=True)]


def decode_manifest(data: bytes, num_entries: int, normalise: Normalise, source: str) -> tuple[pa.Table, bool]:
    """The entries as columns with checked paths, and whether they were returned unchanged, so that they are valid for any other table.

    Raises LogCorrupted unless the number of entries is that of the state and every path is unique, and UnsafePath.
    """
    container = avro.parse(data, source)
    if container.num_records != num_entries:
        raise LogCorrupted(f"{source} has {container.num_records} entries, but the state says {num_entries}")
    if not num_entries:
        return columns.SCHEMA.empty_table(), False
    rows = _own_rows(container, packing.expanded_limit(len(data)), source)
    if rows is None or not _is_normal(rows):
        return _any_rows(data, num_entries, normalise, source), False
    if pc.count_distinct(rows.column("path")).as_py() != num_entries:
        raise LogCorrupted(f"{source} contains a path twice")
    return rows, True


def _own_rows(container: avro.Container, max_bytes: int, source: str) -> pa.Table | None:
    """All entries, decoded by columns; None if another program wrote the manifest or a map is too large for that."""
    blocks, tables = own_blocks(container, source), []
    if blocks is None:
        return None
    try:
        for count, packed, lengths in blocks:
            block = avro.expand(container.codec, packed, max_bytes, source, int(lengths.sum()))
            max_bytes -= len(block)
            if count:
                tables.append(decode_block(block, lengths, source))
    except TooManyItems:
        return None
    rows = pa.concat_tables(tables)
    check_bounds(rows, source)
    return rows


def _is_normal(rows: pa.Table) -> bool:
    """Whether all paths are plain and no partition value is another writer's word for null, so that rows can be used unchanged."""
    for chunk in rows.column("path").chunks:
        _, buffer, data = chunk.buffers()
        offsets = np.frombuffer(buffer, np.int32, len(chunk) + 1, 4 * chunk.offset)
        if not _are_plain(data[int(offsets[0]) : int(offsets[-1])].to_pybytes(), offsets - offsets[0]):
            return False
    return not has_null_word(rows)


def _are_plain(joined: bytes, offsets: npt.NDArray[np.int32]) -> bool:
    """`paths.are_plain` for adjacent paths in one buffer: checks the first and last byte of each, and all bytes at once."""
    lengths = np.diff(offsets)
    if not lengths.all() or int(lengths.max()) > limits.PATH_CHARACTERS:
        return False
    data = np.frombuffer(joined, np.uint8)
    first, last = data[offsets[:-1]], data[offsets[1:] - 1]
    unusual = (first == 46).any() or (first == 47).any() or (last == 47).any()
    return not unusual and b"//" not in joined and b"/." not in joined and not joined.translate(None, _PLAIN)


def _any_rows(data: bytes, num_entries: int, normalise: Normalise, source: str) -> pa.Table:
    """Decodes entry by entry, for manifests of any writer."""
    adds: dict[str, Add] = {}
    for record in avro.records(data, source, max_bytes=packing.expanded_limit(len(data)), max_records=num_entries):
        try:
            add = msgspec.convert(nulls.removed(record), _ADD.type)
        except msgspec.MsgspecError as error:
            raise LogCorrupted(f"{source} is damaged: {error}") from error
        path = normalise(add.path)
        if path in adds:
            raise LogCorrupted(f"{source} contains the path {path!r} twice")
        values = {name: value for name, value in add.partition_values.items() if value != NULL_PARTITION}
        unstated = bool(record.get("footerOffsetsUnstated"))
        adds[path] = structs.replace(
            add,
            path=path,
            partition_values=values,
            has_footer_offsets=None if unstated else add.has_footer_offsets,
            # 0 means unknown: upstream always writes 0, and version 0 adds no files.
            added_at_version=add.added_at_version or None,
            added_at_timestamp=add.added_at_timestamp or None,
        )
    return encoded(list(adds.items()))
