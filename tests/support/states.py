"""Avro states and manifests as other programs write them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import fastavro

STRINGS = {"type": "map", "values": "string"}
NAMESPACE = "io.indextables.state"


def _nullable(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


FILE_ENTRY = {
    "type": "record",
    "name": "FileEntry",
    "namespace": NAMESPACE,
    "fields": [
        {"name": "path", "type": "string", "field-id": 100, "doc": "relative path"},
        {"name": "partitionValues", "type": STRINGS},
        {"name": "size", "type": "long"},
        {"name": "modificationTime", "type": "long"},
        {"name": "dataChange", "type": "boolean"},
        _nullable("stats", "string"),
        _nullable("minValues", STRINGS),
        _nullable("maxValues", STRINGS),
        _nullable("numRecords", "long"),
        _nullable("footerStartOffset", "long"),
        _nullable("footerEndOffset", "long"),
        {"name": "hasFooterOffsets", "type": "boolean", "default": False},
        _nullable("splitTags", {"type": "array", "items": "string"}),
        _nullable("numMergeOps", "int"),
        _nullable("docMappingRef", "string"),
        _nullable("uncompressedSizeBytes", "long"),
        {"name": "addedAtVersion", "type": "long"},
        {"name": "addedAtTimestamp", "type": "long"},
    ],
}
COMPANION = [_nullable("companionSourceFiles", {"type": "array", "items": "string"}), _nullable("companionDeltaVersion", "long")]
BOUNDS = {"type": "record", "name": "PartitionBoundsItem", "fields": [_nullable("min", "string"), _nullable("max", "string")]}
MANIFEST_INFO = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "numEntries", "type": "long"},
        {"name": "minAddedAtVersion", "type": "long"},
        {"name": "maxAddedAtVersion", "type": "long"},
        _nullable("partitionBounds", {"type": "map", "values": BOUNDS}),
        {"name": "tombstoneCount", "type": "long", "default": 0},
        {"name": "liveEntryCount", "type": "long", "default": -1},
    ],
}
STATE = {
    "type": "record",
    "name": "StateManifest",
    "namespace": NAMESPACE,
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {"name": "manifests", "type": {"type": "array", "items": MANIFEST_INFO}},
        {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "schemaRegistry", "type": STRINGS, "default": {}},
        {"name": "protocolVersion", "type": "int", "default": 4},
        _nullable("metadata", "string"),
        *(_nullable(name, "string") for name in ("protocol", "txn", "mergeskip")),
    ],
}


def entry(path: str, **more: Any) -> dict[str, Any]:
    base = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True, "numRecords": 2}
    return base | {"addedAtVersion": 0, "addedAtTimestamp": 1} | more


def packed(schema: Any, records: Iterable[Mapping[str, Any]], codec: str = "zstandard") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, list(records), codec=codec)
    return out.getvalue()


def state_document(version: int, manifests: Mapping[str, int], **more: Any) -> dict[str, Any]:
    infos = [{"path": path, "numEntries": n, "minAddedAtVersion": 0, "maxAddedAtVersion": 0} for path, n in manifests.items()]
    return {
        "formatVersion": 1,
        "stateVersion": version,
        "createdAt": 1000 + version,
        "numFiles": sum(manifests.values()) - len(more.get("tombstones", ())),
        "totalBytes": 1,
        "manifests": infos,
        **more,
    }


def write_manifest(
    log: Path, path: str, entries: Iterable[Mapping[str, Any]], *, codec: str = "zstandard", schema: Any = FILE_ENTRY
) -> None:
    target = log / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(packed(schema, entries, codec))


def write_state(
    log: Path, version: int, manifests: Mapping[str, int], *, form: str = "avro", folder: int | None = None, **more: Any
) -> Path:
    """Writes only the state manifest; `form` is avro or json."""
    document = state_document(version, manifests, **more)
    target = log / f"state-v{version if folder is None else folder:020d}" / f"_manifest.{form}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(packed(STATE, [document]) if form == "avro" else json.dumps(document).encode())
    return target


def write_table_state(log: Path, version: int, paths: Iterable[str], **more: Any) -> None:
    """Writes a state with one manifest that contains `paths`."""
    entries = [entry(path) for path in paths]
    name = f"manifests/manifest-{version:08x}.avro"
    write_manifest(log, name, entries)
    write_state(log, version, {name: len(entries)}, **more)
