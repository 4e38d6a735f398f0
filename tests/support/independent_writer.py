"""A writer of tables, written from docs/protocol.md alone. It imports nothing from indextables."""

from __future__ import annotations

import base64
import datetime as dt
import json
import secrets
import struct
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import tantivy

from tests.support.independent_reader import MAPPING, schema_hash

Row = Mapping[str, Any]
PARTITION = "day"
ARROW = {
    "day": pa.string(), "message": pa.string(), "code": pa.string(), "n": pa.int64(), "x": pa.float64(), "ok": pa.bool_(),
    "ip": pa.string(), "born": pa.date32(), "tags": pa.list_(pa.field("element", pa.string())), "user": pa.struct([("name", pa.string())]),
}  # fmt: skip
SPARK: dict[str, Any] = {
    "day": "string", "message": "string", "code": "string", "n": "long", "x": "double", "ok": "boolean", "ip": "string", "born": "date",
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "user": {"type": "struct", "fields": [{"name": "name", "type": "string", "nullable": True, "metadata": {}}]},
}  # fmt: skip
INDEXED = {
    "day": "string", "message": "text", "code": "text", "n": "i64", "x": "f64", "ok": "bool", "ip": "ip", "born": "date", "tags": "string",
    "user": "stored",
}  # fmt: skip
CONFIGURATION = {"indexing.typemap.ip": "ip", "indexing.typemap.tags": "string", "indexing.tokenizer.code": "ngram"}
FEATURES = ["arrowRowStore", "avroState", "schemaDeduplication"]
ROWS_OF_BATCH, BLOCK = 1024, 65_536


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def schema_text() -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in SPARK.items()]
    return compact({"type": "struct", "fields": fields})


def mapping_text() -> str:
    fields = [{"name": name, "type": kind} | ({"tokenizer": "ngram"} if name == "code" else {}) for name, kind in INDEXED.items()]
    return compact({"fields": fields})


class TableWriter:
    """A new table; `append` adds the rows of one partition as one split."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, -1
        self.metadata: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "indextables", "options": {}},
            "schemaString": schema_text(),
            "partitionColumns": [PARTITION],
            "configuration": {f"spark.indextables.{name}": word for name, word in CONFIGURATION.items()},
            "createdTime": int(time.time() * 1000),
        }
        features = {"readerFeatures": FEATURES, "writerFeatures": FEATURES}
        self._commit({"protocol": {"minReaderVersion": 4, "minWriterVersion": 4, **features}}, {"metaData": self.metadata})

    def append(self, rows: list[Row], fields: Mapping[str, str] = INDEXED) -> None:
        """`fields` are those of the index: only in the order of INDEXED do they fit the doc mapping."""
        day = rows[0][PARTITION]
        path = f"{PARTITION}={day}/splits/split-{uuid.uuid4()}.split"
        split, add = split_of(rows, fields)
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(split)
        key = f"{MAPPING}{add['docMappingRef']}"
        described = [] if key in self.metadata["configuration"] else [{"metaData": self.metadata}]
        self.metadata["configuration"][key] = mapping_text()
        now = int(time.time() * 1000)
        info = {"id": str(uuid.uuid4()), "timestamp": now, "operation": "append", "readVersion": self.version}
        add = {"path": path, "partitionValues": {PARTITION: day}, "modificationTime": now, "dataChange": True, **add}
        self._commit({"commitInfo": info}, *described, {"add": add})

    def _commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        log = self.folder / "_transaction_log"
        log.mkdir(parents=True, exist_ok=True)
        with (log / f"{self.version:020d}.json").open("x") as file:
            file.writelines(compact(action) + "\n" for action in actions)


def split_of(rows: list[Row], fields: Mapping[str, str]) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a split, and the fields of its `add` that describe them."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        first = write_index(folder, rows, fields)
        ends = write_rows(folder / "rows.arrow", rows)
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}
    data, places = b"", {}
    for name, content in files.items():
        data += bytes(-len(data) % 4096)
        places[name] = {"start": len(data), "end": len(data) + len(content)}
        data += content
    bundle = struct.pack("<II", 403881646, 1) + compact({"files": places}).encode()
    statistics = {name: bounds([row[name] for row in rows], cut=name != PARTITION) for name in ARROW}
    store = files["rows.arrow"]
    hotcache = sealed(
        {
            "formatVersion": 1,
            "numRecords": len(rows),
            "firstRow": first,
            "lastRow": first + len(rows) - 1,
            "schema": schema_text(),
            "docMapping": mapping_text(),
            "statsCharacters": 32,
            "partitionColumns": [PARTITION],
            "statistics": statistics,
            "rowStore": {
                "batchRows": ROWS_OF_BATCH,
                "ends": ends,
                "crc32": [zlib.crc32(store[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)],
            },
            "files": {name: zlib.crc32(content) for name, content in files.items()},
            "blockBytes": BLOCK,
            "blocks": {
                name: [zlib.crc32(content[at : at + BLOCK]) for at in range(0, len(content), BLOCK)]
                for name, content in files.items()
                if name != "rows.arrow"
            },
            "tails": {name: base64.b64encode(tail(name, content, ends)).decode() for name, content in files.items()},
            "bundleCrc32": zlib.crc32(bundle),
        }
    )
    footer = len(data)
    data += bundle + struct.pack("<I", len(bundle))
    hotcache_start = len(data)
    data += hotcache + struct.pack("<I", len(hotcache))
    return data, {
        "size": len(data),
        "numRecords": len(rows),
        "minValues": {name: one["min"] for name, one in statistics.items() if "min" in one},
        "maxValues": {name: one["max"] for name, one in statistics.items() if "max" in one},
        "footerStartOffset": footer,
        "footerEndOffset": len(data),
        "hotcacheStartOffset": hotcache_start,
        "hotcacheLength": len(hotcache),
        "hasFooterOffsets": True,
        "uncompressedSizeBytes": footer,
        "docMappingRef": schema_hash(mapping_text()),
    }


def sealed(content: dict[str, Any]) -> bytes:
    text = compact(content).encode()
    return b'{"crc32":"%08x","content":' % zlib.crc32(text) + text + b"}"


def tail(name: str, content: bytes, ends: list[int]) -> bytes:
    """What is read when the file is opened."""
    if name == "meta.json":
        return content
    if name == "rows.arrow":
        return content[ends[-2] :]
    length, magic = struct.unpack("<II", content[-8:])
    assert magic == 1337
    end = len(content) - 8 - length
    extension = name.rpartition(".")[2]
    if extension == "store":
        return content[struct.unpack_from("<Q", content, end - 24)[0] :]
    if extension == "fast":
        return content[end - 20 - struct.unpack_from("<Q", content, end - 20)[0] :]
    assert extension in ("idx", "pos", "term", "fieldnorm")
    return content[end - 4 - struct.unpack_from("<I", content, end - 4)[0] :]


def bounds(values: list[Any], *, cut: bool) -> dict[str, Any]:
    given = [value for value in values if value is not None]
    nulls = {"nulls": len(values) - len(given)}
    if not given or isinstance(given[0], list | dict):
        return nulls
    low, high = min(given), max(given)
    if isinstance(low, str) and cut:
        return {**nulls, "min": low[:32], "max": high if len(high) <= 32 else high[:31] + chr(ord(high[31]) + 1)}
    spell: Callable[[Any], str] = {bool: lambda one: str(one).lower(), float: repr, dt.date: dt.date.isoformat}.get(type(low), str)
    return {**nulls, "min": spell(low), "max": spell(high)}


def write_rows(path: Path, rows: list[Row]) -> list[int]:
    """Writes the Arrow file and returns the ends of its sections."""
    schema = pa.schema(list(ARROW.items()))
    with pa.OSFile(str(path), "wb") as sink:
        with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            ends = [sink.tell()]
            for start in range(0, len(rows), ROWS_OF_BATCH):
                writer.write_batch(pa.RecordBatch.from_pylist([dict(row) for row in rows[start : start + ROWS_OF_BATCH]], schema))
                ends.append(sink.tell())
        return [*ends, sink.tell()]


def write_index(folder: Path, rows: list[Row], fields: Mapping[str, str]) -> int:
    """Writes the index and returns the `_row` of the first document."""
    builder = tantivy.SchemaBuilder()
    exact, kinds = {"stored": False, "tokenizer_name": "raw", "index_option": "basic"}, {**fields, "_null": "string", "_row": "i64"}
    for name, kind in kinds.items():  # queries refer to fields by number, so that the order matters
        if kind == "string":
            builder.add_text_field(name, **exact)
        elif kind == "text":
            tokenizer = "words_ngram" if name == "code" else "words"
            builder.add_text_field(name, stored=False, tokenizer_name=tokenizer, index_option="position")
        elif kind in ("i64", "date"):
            builder.add_integer_field(name, fast=True)
        elif kind == "f64":
            builder.add_float_field(name, fast=True)
        elif kind == "bool":
            builder.add_boolean_field(name, indexed=True)
        elif kind == "ip":
            builder.add_ip_addr_field(name, fast=True, indexed=True)
    index = tantivy.Index(builder.build(), str(folder))
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()
    index.register_tokenizer("words", words)
    index.register_tokenizer("words_ngram", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.ngram(3, 3)).build())
    writer = index.writer(100_000_000, 1)
    first = secrets.randbelow(2**62)
    for number, row in enumerate(rows, start=first):
        document = tantivy.Document()
        for name, value in row.items():
            if value is None:
                document.add_text("_null", name)
            elif INDEXED[name] != "stored":
                add_value(document, name, value)
        document.add_integer("_row", number)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    return first


def add_value(document: tantivy.Document, name: str, value: Any) -> None:
    if name == "code":
        lower = value.lower()
        grams = [tantivy.Token(lower[at : at + 3], at, at, at + 3) for at in range(len(lower) - 2)]
        document.add_pre_tokenized_text(name, tantivy.PreTokenizedString(lower, grams))
    elif name == "born":
        document.add_integer(name, (value - dt.date(1970, 1, 1)).days)
    elif name == "tags":
        for one in value:
            document.add_text(name, one)
    else:
        adders = {"n": document.add_integer, "x": document.add_float, "ok": document.add_boolean, "ip": document.add_ip_addr}
        adders.get(name, document.add_text)(name, value)
