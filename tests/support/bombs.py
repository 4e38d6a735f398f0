"""Small log files that claim or expand to huge content. A child process opens each; its memory and CPU time are measured."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import resource
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

import indextables as it
from tests.support.logs import add, lines, log_folder, metadata, protocol
from tests.support.states import FILE_ENTRY, STATE, entry, packed, state_document, write_manifest, write_state
from tests.support.tables import write_version

MIB = 2**20
Plant = Callable[[Path], None]  # into the log folder


def _long(number: int) -> bytes:
    """A long in the zigzag encoding of Avro."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _bytes(data: bytes) -> bytes:
    return _long(len(data)) + data


def container(schema: Any, codec: str, *blocks: tuple[int, bytes]) -> bytes:
    """An Avro file of these blocks; their counts need not be true."""
    sync = b"s" * 16
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    header = b"Obj\x01" + _long(2) + _bytes(b"avro.codec") + _bytes(codec.encode()) + _bytes(b"avro.schema") + _bytes(text) + _long(0)
    return header + sync + b"".join(_long(count) + _bytes(data) + sync for count, data in blocks)


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def _zstd(data: bytes) -> bytes:
    packed_data: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed_data


def _repeated(piece: bytes, size: int) -> bytes:
    """At least `size` bytes of `piece` repeated, compressed as a stream."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as file:
        chunk = piece * max(1, MIB // len(piece))
        for _ in range(size // len(chunk) + 1):
            file.write(chunk)
    return out.getvalue()


def version(data: bytes) -> Plant:
    return lambda log: _put(log / f"{1:020d}.json", data)


def checkpoint(data: bytes) -> Plant:
    return lambda log: _put(log / f"{1:020d}.checkpoint.json", data)


def state(data: bytes, form: str = "avro") -> Plant:
    return lambda log: _put(log / f"state-v{1:020d}" / f"_manifest.{form}", data)


def manifest(data: bytes, entries: int = 1) -> Plant:
    def plant(log: Path) -> None:
        _put(log / "manifests" / "m.avro", data)
        write_state(log, 1, {"manifests/m.avro": entries})

    return plant


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _record(schema: Any, document: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, document)
    return out.getvalue()


def _state_with(array: str, count: int, item: bytes) -> bytes:
    """A state record whose `array` claims `count` items, each with the bytes `item`."""
    empty = _record(STATE, state_document(1, {}))
    head = _record({**STATE, "fields": STATE["fields"][:5]}, state_document(1, {}))
    block = _long(count) + item * count + _long(0)
    return head + (block + empty[len(head) + 1 :] if array == "manifests" else _long(0) + block + empty[len(head) + 2 :])


def _many_parts(log: Path) -> None:
    _put(log / f"{1:020d}.checkpoint.json", gzip.compress(json.dumps({"parts": ["x"] * 5_000_000}).encode()))


def _deep_metadata(log: Path) -> None:
    write_manifest(log, "manifests/m.avro", [entry("a")])
    write_state(log, 1, {"manifests/m.avro": 1}, metadata='{"metaData":' + "[" * 100_000)


def _deep_schema_string(log: Path) -> None:
    nested = '{"type":"array","elementType":' * 20_000 + '"long"' + "}" * 20_000
    text = '{"type":"struct","fields":[{"name":"a","type":' + nested + "}]}"
    _put(log / f"{1:020d}.json", gzip.compress(lines(metadata(schemaString=text))))


def _json_bombs() -> Iterator[tuple[str, Plant]]:
    line = lines(add("a"))
    zeros = _repeated(b"\0", 1024 * MIB)
    yield "gzip of zeros", version(zeros)
    yield "gzip of zeros with the prefix of the Scala program", version(b"\x01\x01" + zeros)
    yield "gzip twice", version(gzip.compress(zeros))
    yield "gzip three times", version(gzip.compress(gzip.compress(zeros)))
    yield "gzip of many members", version(gzip.compress(b"\n" * MIB) * 600)
    yield "gzip of newlines", version(_repeated(b"\n", 200 * MIB))
    yield "plain newlines", version(b"\n" * (64 * MIB))
    yield "plain unknown actions", version(b'{"new":1}\n' * (6 * MIB))
    yield "gzip of spaces", version(_repeated(b" ", 200 * MIB))
    yield "gzip of one long string", version(_repeated(b"x", 200 * MIB))
    yield "gzip of brackets", version(_repeated(b"[", 200 * MIB))
    yield "gzip of the same add", version(_repeated(line, 600 * MIB))
    yield "gzip of unknown actions", version(_repeated(b'{"new":1}\n', 200 * MIB))
    yield "an add with millions of tags", version(gzip.compress(lines(add("a", splitTags=[""] * 3_000_000))))
    yield "an add with a map of a million", version(gzip.compress(lines(add("a", tags={str(n): "" for n in range(1_000_000)}))))
    yield "metadata with millions of partition columns", version(gzip.compress(lines(metadata(partitionColumns=[""] * 3_000_000))))
    yield "a protocol with millions of features", version(gzip.compress(lines(protocol(3, 3, readerFeatures=["x"] * 3_000_000))))
    yield "arrays in arrays", version(b'{"add":{"x":' + b"[" * 5_000_000)
    yield "objects in objects", version(b'{"a":' * 1_000_000)
    yield "a number of a million digits", version(b'{"txn":{"appId":"a","version":' + b"9" * 1_000_000 + b"}}")
    yield "a schema nested 20,000 deep", _deep_schema_string
    yield "checkpoint, gzip of zeros", checkpoint(zeros)
    yield "checkpoint, gzip of brackets", checkpoint(_repeated(b'{"add":[', 200 * MIB))
    yield "checkpoint of empty adds", checkpoint(gzip.compress(b'{"add":[' + b"{}," * 8_000_000 + b"{}]}"))
    yield "checkpoint of millions of parts", _many_parts


def _state_bombs() -> Iterator[tuple[str, Plant]]:
    yield "state, zstd of zeros", state(container(STATE, "zstandard", (1, _zstd(bytes(600 * MIB)))))
    yield "state, deflate of zeros", state(container(STATE, "deflate", (1, _deflated(bytes(600 * MIB)))))
    yield "state of millions of manifests", state(container(STATE, "zstandard", (1, _zstd(_state_with("manifests", 20_000_000, bytes(7))))))
    yield (
        "state of millions of tombstones",
        state(container(STATE, "zstandard", (1, _zstd(_state_with("tombstones", 100_000_000, bytes(1)))))),
    )
    yield "state of millions of records", state(container(STATE, "null", (2**62, b"")))
    yield "state.json, gzip of zeros", state(_repeated(b"\0", 200 * MIB), "json")
    yield "state.json, brackets", state(b"[" * 1_000_000, "json")
    yield "state with deep metadata", _deep_metadata


def _manifest_bombs() -> Iterator[tuple[str, Plant]]:
    yield "snappy block that claims 4 GiB", manifest(container(FILE_ENTRY, "snappy", (1, b"\xff\xff\xff\xff\x0f" + bytes(8))))
    nothing = {"type": "record", "name": "r", "fields": []}
    yield "records of no bytes", manifest(container(nothing, "null", (2**62, b"")), 2**62)
    nulls = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    yield "an array of nulls", manifest(container(nulls, "null", (1, _long(2**40) + _long(0))))
    endless = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
    yield "an endless list", manifest(container(endless, "zstandard", (1, _zstd(b"\x02" * MIB))))
    yield "a schema nested 100,000 deep", manifest(container(b'{"type":' * 100_000, "null", (1, b"")))
    wide = {"type": "record", "name": "r", "fields": [{"name": f"f{n}", "type": "long"} for n in range(100_000)]}
    yield "a schema of 100,000 fields", manifest(container(wide, "null", (1, b"")))
    one = _record(FILE_ENTRY, entry("a"))
    yield "manifest, zstd of zeros", manifest(container(FILE_ENTRY, "zstandard", (1, _zstd(bytes(600 * MIB)))))
    yield "manifest of the same entry", manifest(container(FILE_ENTRY, "zstandard", (10_000_000, _zstd(one * 10_000_000))), 10_000_000)
    yield "manifest of entries without a path", manifest(container(FILE_ENTRY, "zstandard", (2**40, _zstd(bytes(100 * MIB)))), 2**40)
    yield "manifest that claims 2^62 entries", manifest(container(FILE_ENTRY, "null", (2**62, one)), 2**62)
    yield "a string that claims 2^60 bytes", manifest(container(FILE_ENTRY, "null", (1, _long(2**60))))
    yield "a map that claims 2^60 entries", manifest(container(FILE_ENTRY, "null", (1, _bytes(b"a") + _long(2**60) + bytes(8))))
    yield "many blocks of zstd", manifest(container(FILE_ENTRY, "zstandard", *[(1, _zstd(one + bytes(10 * MIB)))] * 100), 100)
    yield "a header that claims 2^60 keys", manifest(b"Obj\x01" + _long(2**60) + bytes(64))
    yield "a block that claims 2^60 bytes", manifest(packed(FILE_ENTRY, []) + _long(1) + _long(2**60))


def _open(path: Path) -> str:
    try:
        table = it.open(path)
        table.files()
        table.describe()
    except it.IndexTablesError as error:
        return f"{type(error).__name__}: {error}"
    return "opened"


def _peak_mib() -> int:
    """Peak memory of this process alone: `ru_maxrss` includes what the parent had when it forked."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(folder: str) -> None:
    """Opens the tables of a folder one by one. Prints a JSON line for each: outcome, CPU seconds, peak memory so far in MiB."""
    for path in sorted(Path(folder).iterdir()):
        started = time.process_time()
        outcome = _open(path)
        peak = _peak_mib()
        print(json.dumps({"name": path.name, "outcome": outcome, "cpu": time.process_time() - started, "peak": peak}), flush=True)


def plant_all(folder: Path) -> list[str]:
    names = []
    for number, (name, plant) in enumerate(itertools.chain(_json_bombs(), _state_bombs(), _manifest_bombs())):
        table = folder / f"{number:03d} {name.replace('/', ' ')}"
        write_version(table, 0, protocol(), metadata())
        plant(log_folder(table))
        names.append(table.name)
    return names


if __name__ == "__main__":
    main(sys.argv[1])
