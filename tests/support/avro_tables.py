"""Tables with Avro states, made of actions only. No splits are written, so thousands of files are cheap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import indextables as it
from indextables.state.checkpoints.avro.state_files import StateManifest, read_state_manifest
from tests.support.loading import loaded
from tests.support.logs import add, log_folder, metadata, protocol
from tests.support.tables import write_version

FEATURES = ["arrowRowStore", "avroState", "schemaDeduplication"]
COLUMNS = [("id", "long"), ("p", "integer")]
SCHEMA_STRING = json.dumps({"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in COLUMNS]})


def start(path: Path, **configuration: str) -> Path:
    """Version 0 of a table that is partitioned by the number p, without automatic checkpoints."""
    options = {f"spark.indextables.{key}": value for key, value in {"checkpoint.enabled": "false", **configuration}.items()}
    about = metadata(schemaString=SCHEMA_STRING, partitionColumns=["p"], configuration=options)
    write_version(path, 0, protocol(4, 4, readerFeatures=FEATURES, writerFeatures=FEATURES), about)
    return path


def file(name: str, p: int | None = None, **more: Any) -> dict[str, Any]:
    values = {} if p is None else {"p": str(p)}
    return add(name, partitionValues=values, size=len(name), numRecords=1, minValues={"id": "1"}, maxValues={"id": "9"}, **more)


def commit(path: Path, *actions: dict[str, Any]) -> int:
    """Commits the next version, without a commitInfo action."""
    version = 1 + max(int(f.name[:20]) for f in log_folder(path).glob("0*.json") if len(f.name) == 25)
    write_version(path, version, *actions)
    return version


def state(path: Path, version: int) -> StateManifest:
    return read_state_manifest(it.open(path)._context.store, version)


def manifest_files(path: Path) -> list[Path]:
    return sorted((log_folder(path) / "manifests").glob("*.avro"))


def adds(path: Path, version: int | None = None) -> list[Any]:
    """The adds of the table, sorted by path."""
    return sorted(loaded(it.open(path, version)).adds(), key=lambda a: a.path)


def replayed(path: Path, tmp: Path) -> list[Any]:
    """The adds of the table, replayed from the version files alone."""
    bare = tmp / "bare"
    for number, source in enumerate(sorted(f for f in log_folder(path).glob("0*.json") if len(f.name) == 25)):
        target = log_folder(bare) / f"{number:020d}.json"
        target.write_bytes(source.read_bytes())
    found = adds(bare)
    for leftover in log_folder(bare).glob("*"):
        leftover.unlink()
    return found
