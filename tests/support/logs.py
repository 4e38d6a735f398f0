"""Actions and log folders as other programs write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import indextables as it

SCHEMA_STRING = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def protocol(reader: int = 2, writer: int = 2, **features: list[str]) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}


def metadata(**more: Any) -> dict[str, Any]:
    base = {"id": "x", "format": {"provider": "indextables", "options": {}}, "schemaString": SCHEMA_STRING}
    return {"metaData": {**base, "partitionColumns": [], "configuration": {}, **more}}


def add(path: str, **more: Any) -> dict[str, Any]:
    base = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "numRecords": 1}
    return {"add": {**base, **more}}


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}}


def skip(path: str, **more: Any) -> dict[str, Any]:
    return {"mergeskip": {"path": path, "skipTimestamp": 1, "reason": "damaged", "operation": "merge_splits", **more}}


def lines(*actions: Any) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def log_folder(table: Path) -> Path:
    folder = table / "_transaction_log"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def paths(table: it.Table) -> list[str]:
    return sorted(table.files().column("path").to_pylist())
