"""Splits in the upstream format, made with tantivy-py: the Quickwit bundle of an index with stored documents."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tantivy

from indextables.splits.format.bundle import MAGIC
from tests.support.logs import add, metadata, protocol
from tests.support.tables import write_version

SCHEMA_JSON = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "text", "type": "string", "nullable": True, "metadata": {}},
            {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}, "nullable": True, "metadata": {}},
        ],
    }
)
Files = dict[str, bytes]


def index_files(rows: Iterable[Mapping[str, Any]], deleted: int | None = None) -> Files:
    """The files of an index with stored documents; optionally one document is deleted."""
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", stored=True, fast=True, indexed=True)
    builder.add_text_field("text", stored=True, tokenizer_name="raw")
    builder.add_json_field("tags", stored=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        index = tantivy.Index(builder.build(), name)
        writer = index.writer(15_000_000, 1)
        for row in rows:
            document = tantivy.Document()
            document.add_integer("id", row["id"])
            document.add_text("text", row["text"])
            document.add_json("tags", {"_values": row["tags"]})
            writer.add_document(document)
        writer.commit()
        if deleted is not None:
            writer.delete_documents_by_term("id", deleted)
            writer.commit()
        writer.wait_merging_threads()
        return {file.name: file.read_bytes() for file in sorted(Path(name).iterdir()) if not file.name.endswith(".lock")}


def bundle(files: Files, hotcache: bytes = b"2\xfcu\x98", alter: Callable[[dict[str, Any]], None] | None = None) -> bytes:
    body = bytearray()
    places: dict[str, Any] = {}
    for name, data in files.items():
        places[name] = {"start": len(body), "end": len(body) + len(data)}
        body += data
    if alter is not None:
        alter(places)
    listing = struct.pack("<II", MAGIC, 1) + json.dumps({"files": places}).encode()
    return bytes(body) + listing + struct.pack("<I", len(listing)) + hotcache + struct.pack("<I", len(hotcache))


def upstream_rows(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "text": f"connection {'refused' if n % 2 else 'timed out'} {n}", "tags": ["a", str(n)]} for n in range(count)]


def make_upstream_table(path: Path, splits: Iterable[tuple[bytes, int]]) -> Path:
    """Creates a table as upstream does, from pairs of a split and its number of rows."""
    write_version(path, 0, protocol(4, 4), metadata(schemaString=SCHEMA_JSON))
    for number, (data, rows) in enumerate(splits):
        (path / f"part-{number:05d}.split").write_bytes(data)
        fields = {"size": len(data), "modificationTime": number, "numRecords": rows, "docMappingJson": '[{"name":"id","type":"i64"}]'}
        write_version(path, number + 1, add(f"part-{number:05d}.split", **fields))
    return path
