"""A reader of tables, written from docs/protocol.md alone. It imports nothing from indextables and checks all digests."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import posixpath
import re
import struct
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

ACTIONS = {"protocol", "metaData", "add", "remove", "mergeskip", "txn", "commitInfo"}
MAPPING = "docMappingSchema."
MAPS = ("partitionValues", "minValues", "maxValues", "tags")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
Files = dict[str, dict[str, Any]]


def text_of(data: bytes) -> bytes:
    """The text of a version file; its first bytes tell whether it is compressed."""
    data = data.removeprefix(b"\x01\x01") if data.startswith(b"\x01\x01\x1f\x8b") else data
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def unsealed(text: bytes, version: int) -> dict[str, Any]:
    """The content of sealed JSON. The digest covers the object without the digest field."""
    rest, digest = re.fullmatch(rb'(.*),"digest":"([0-9a-f]{64})"\}', text, re.DOTALL).groups()  # type: ignore[union-attr]
    assert hashlib.sha256(rest + b"}").hexdigest().encode() == digest
    found = json.loads(text)
    assert found["version"] == version
    return found


def without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


class Table:
    """The newest version of a table, read from the newest checkpoint and the versions after it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "_transaction_log"
        self.files: Files = {}
        self.protocol: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.txns: dict[str, int] = {}
        self.skips: dict[str, dict[str, Any]] = {}
        self.format: str | None = None
        self.parts = self.tombstones = 0
        self.base = self._read_base()
        versions = sorted(int(path.stem) for path in self.log.glob("*.json") if re.fullmatch(r"[0-9]{20}\.json", path.name))
        self.version = self.base
        for version in (version for version in versions if version > self.base):
            assert version == self.version + 1  # no gap
            self._replay(text_of((self.log / f"{version:020d}.json").read_bytes()), version)
            self.version = version

    def _replay(self, text: bytes, version: int | None) -> None:
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
        time = next((action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action), None)
        for action in actions:
            known = {kind: body for kind, body in action.items() if kind in ACTIONS and body is not None}
            if not known:
                assert not any(kind in ACTIONS for kind in action) or any(action.values())
                continue
            ((kind, body),) = known.items()
            if kind == "add":
                self._add(body if version is None else {**body, "addedAtVersion": version, "addedAtTimestamp": time})
            elif kind == "remove":
                self.files.pop(self._path(body["path"]), None)
                self.skips.pop(self._path(body["path"]), None)
            elif kind == "mergeskip":
                self._skip(body)
            elif kind == "protocol":
                self.protocol = body
            elif kind == "metaData":
                self._describe(body)
            elif kind == "txn":
                self._count(body)

    def _describe(self, body: dict[str, Any]) -> None:
        known = self.metadata.get("configuration", {})
        kept = {key: text for key, text in known.items() if key.startswith(MAPPING)}
        self.metadata = {**body, "configuration": {**kept, **body["configuration"]}}

    def _count(self, txn: dict[str, Any]) -> None:
        self.txns[txn["appId"]] = max(txn["version"], self.txns.get(txn["appId"], txn["version"]))

    def _skip(self, skip: dict[str, Any]) -> None:
        path = self._path(skip["path"])
        both = [without_nulls(one) for one in (skip, self.skips.get(path, {}))]
        times = [one["retryAfter"] for one in both if "retryAfter" in one]
        count = max(one.get("skipCount", 1) for one in both)
        self.skips[path] = {**both[0], "path": path, "skipCount": count, "retryAfter": max(times, default=None)}

    def _add(self, add: dict[str, Any]) -> None:
        path = self._path(add["path"])
        maps = {name: without_nulls(add[name]) for name in MAPS if add.get(name) is not None}
        maps["partitionValues"] = {name: value for name, value in maps["partitionValues"].items() if value != NULL_PARTITION}
        self.files.pop(path, None)
        self.files[path] = without_nulls({**add, **maps, "path": path})

    def _path(self, logged: str) -> str:
        """The path relative to the table. Refuses what could lead out of it."""
        plain = re.sub(r"^file:/+", "/", logged)
        path = plain.removeprefix(f"{self.folder}/")
        for segment in path.split("/"):
            decoded = segment
            for _ in range(4):
                decoded = unquote(decoded)
            within = posixpath.normpath(decoded)
            assert segment
            assert decoded not in (".", "..")
            assert within != ".."
            assert not within.startswith(("../", "/"))
            assert not re.search(r"[\\\x00-\x1f\x7f]", segment)
        return path

    # ---- checkpoints

    def _read_base(self) -> int:
        pointer = self.log / "_last_checkpoint"
        if not pointer.exists():
            return -1
        found = json.loads(pointer.read_bytes())
        version = found["version"]
        readers = {"avro-state": self._state, "json": self._json, "json-multipart": self._parts, "parquet": self._parquet}
        self.format = found["format"]
        readers[self.format](version)
        return int(version)

    def _take(self, found: dict[str, Any]) -> None:
        self.protocol, self.metadata = found["protocol"], found["metaData"]
        for txn in found.get("txn", ()):
            self._count(txn)
        for skip in found.get("mergeskip", ()):
            self._skip(skip)

    def _json(self, version: int) -> None:
        found = unsealed(text_of((self.log / f"{version:020d}.checkpoint.json").read_bytes()), version)
        self._take(found)
        for add in found["add"]:
            self._add(add)

    def _parts(self, version: int) -> None:
        found = unsealed((self.log / f"{version:020d}.checkpoint.json").read_bytes(), version)
        self.parts = len(found["parts"])
        for name, digest in zip(found["parts"], found["sha256"], strict=True):
            data = (self.log / name).read_bytes()
            assert hashlib.sha256(data).hexdigest() == digest
            self._replay(text_of(data), None)
        assert len(self.files) == found["numFiles"]

    def _parquet(self, version: int) -> None:
        folder = self.log / "_checkpoints"
        found = unsealed((folder / f"{version:020d}.checkpoint.json").read_bytes(), version)
        parts = found.get("parts")
        names = [f"{version:020d}.checkpoint.{f'{part:05d}.' if parts else ''}parquet" for part in range(1, (parts or 1) + 1)]
        self._take(found)
        self.parts = len(names)
        for name, digest in zip(names, found["sha256"], strict=True):
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            for row in pq.read_table(folder / name).to_pylist(maps_as_pydicts="strict"):
                kind = row.pop("actionType")
                if kind == "add":
                    self._add(row)
                else:
                    assert kind == "metadata"
                    assert row["schemaString"] == self.metadata["schemaString"]
        assert len(self.files) == found["size"]

    def _state(self, version: int) -> None:
        folder = self.log / f"state-v{version:020d}"
        if (folder / "_manifest.json").exists():
            state = unsealed((folder / "_manifest.json").read_bytes(), version)
        else:
            with open(folder / "_manifest.avro", "rb") as file:
                (record,) = fastavro.reader(file)
            state = self._opened_avro(record)
        assert (state["formatVersion"], state["stateVersion"], state["protocolVersion"]) == (1, version, 4)
        self._take({**state, "metaData": json.loads(state["metadata"])["metaData"]})
        for info in state["manifests"]:
            for entry in self._entries(info):
                self._add(entry)
        self.parts, self.tombstones = len(state["manifests"]), len(state["tombstones"])
        for path in state["tombstones"]:
            del self.files[path]  # each has an entry
        assert len(self.files) == state["numFiles"]
        assert sum(add["size"] for add in self.files.values()) == state["totalBytes"]
        prefixed = {key.removeprefix(MAPPING) for key in self.metadata["configuration"] if key.startswith(MAPPING)}
        assert set(state["schemaRegistry"]) == prefixed

    @staticmethod
    def _opened_avro(record: dict[str, Any]) -> dict[str, Any]:
        """Checks the digest of an Avro state, which covers its JSON form. Strings of JSON become values, as in `_manifest.json`."""
        ignored = ("tombstoneCount", "liveEntryCount")
        manifests = [without_nulls({name: value for name, value in info.items() if name not in ignored}) for info in record["manifests"]]
        bare = without_nulls({**record, "manifests": manifests, "digest": None})
        assert hashlib.sha256(json.dumps(bare, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest() == record["digest"]
        return {**bare, **{name: json.loads(bare[name]) for name in ("protocol", "txn", "mergeskip") if name in bare}}

    def _entries(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        data = (self.log / info["path"]).read_bytes()
        assert info["path"] == f"manifests/manifest-{hashlib.sha256(data).hexdigest()[:32]}.avro"
        assert len(data) == info["sizeBytes"]
        with open(self.log / info["path"], "rb") as file:
            entries = list(fastavro.reader(file))
        assert len(entries) == info["numEntries"]
        for entry in entries:
            if entry.pop("footerOffsetsUnstated"):
                del entry["hasFooterOffsets"]
        return entries

    # ---- rows

    def rows(self) -> pa.Table:
        return pa.concat_tables([Split(self.folder / path, add, self.metadata).rows for path, add in self.files.items()])


class Split:
    """A split file, read from its end to its beginning."""

    def __init__(self, path: Path, add: dict[str, Any], metadata: dict[str, Any]) -> None:
        data = path.read_bytes()
        hot_end = len(data) - 4
        hot_start = hot_end - struct.unpack_from("<I", data, hot_end)[0]
        bundle_end = hot_start - 4
        bundle_start = bundle_end - struct.unpack_from("<I", data, bundle_end)[0]
        assert (bundle_start, len(data)) == (add["footerStartOffset"], add["footerEndOffset"])
        assert (hot_start, hot_end - hot_start) == (add["hotcacheStartOffset"], add["hotcacheLength"])
        assert bundle_start == add["uncompressedSizeBytes"]
        assert struct.unpack_from("<II", data, bundle_start) == (403881646, 1)
        files = json.loads(data[bundle_start + 8 : bundle_end])["files"]
        crc, content = re.fullmatch(rb'\{"crc32":"([0-9a-f]{8})","content":(.*)\}', data[hot_start:hot_end], re.DOTALL).groups()  # type: ignore[union-attr]
        assert zlib.crc32(content) == int(crc, 16)
        self.hotcache = json.loads(content)
        assert self.hotcache["formatVersion"] == 1
        assert zlib.crc32(data[bundle_start:bundle_end]) == self.hotcache["bundleCrc32"]
        for name, place in files.items():
            assert re.fullmatch(r"[0-9a-f]{32}\.[a-z]{1,16}|meta\.json|rows\.arrow", name)
            self._check_file(name, data[place["start"] : place["end"]], place["start"])
        store = files["rows.arrow"]
        self.rows = pa.ipc.open_file(pa.py_buffer(data[store["start"] : store["end"]])).read_all()
        assert self.rows.num_rows == self.hotcache["numRecords"] == add["numRecords"]
        assert {name: one["min"] for name, one in self.hotcache["statistics"].items() if "min" in one} == add["minValues"]
        mapping = add.get("docMappingJson") or metadata["configuration"][MAPPING + add["docMappingRef"]]
        assert mapping == self.hotcache["docMapping"]
        assert add.get("docMappingRef") in (None, schema_hash(mapping))

    def _check_file(self, name: str, data: bytes, start: int) -> None:
        hot = self.hotcache
        assert start % 4096 == 0
        assert zlib.crc32(data) == hot["files"][name]
        assert data.endswith(base64.b64decode(hot["tails"][name]))
        if name == "rows.arrow":
            ends, sums = hot["rowStore"]["ends"], hot["rowStore"]["crc32"]
            assert [zlib.crc32(data[a:b]) for a, b in zip([0, *ends], ends, strict=False)] == sums
            assert ends[-1] == len(data)
        else:
            size = hot["blockBytes"]
            assert [zlib.crc32(data[at : at + size]) for at in range(0, len(data), size)] == hot["blocks"][name]


def schema_hash(text: str) -> str:
    def canonical(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: canonical(inner) for key, inner in value.items()}
        if isinstance(value, list):
            items = [canonical(inner) for inner in value]
            named = all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)
            return sorted(items, key=lambda item: item["name"]) if items and named else items
        return value

    digest = hashlib.sha256(json.dumps(canonical(json.loads(text)), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
    return base64.urlsafe_b64encode(digest.digest()).decode()[:16]
