"""Random logs with checkpoints of every format, and the options that select each format."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec

from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.log import names
from indextables.log.log import ReadSettings, TransactionLog
from indextables.operations import verbs
from indextables.operations.checkpoint.run import checkpoint
from indextables.operations.report import Report
from indextables.state.checkpoints.contents import Format
from indextables.state.checkpoints.schema_registry import schema_hash
from indextables.table.context import TableContext
from indextables.table.snapshot import LoadedSnapshot
from tests.support.logs import add, metadata, protocol, remove, skip
from tests.support.memory_store import MemoryStore

OPTIONS: dict[Format, dict[str, Any]] = {  # formats that share no files between versions
    Format.JSON: {"state.format": "json"},
    Format.JSON_PARTS: {"state.format": "json", "checkpoint.actionsPerPart": 3},
    Format.PARQUET: {"state.format": "parquet"},
}
EVERY_FORMAT = {**OPTIONS, Format.AVRO: {"state.format": "avro", "state.entriesPerManifest": 3}}
LATER = 4_000_000_000_000  # ends after every test
MAPPINGS = ['[{"name":"id","type":"i64"}]', '[{"type":"i64","name":"id"}]', '[{"name":"t","type":"text"},{"name":"id","type":"i64"}]']


def log_of(store: MemoryStore) -> TransactionLog:
    return TransactionLog(store, ReadSettings(cache_ms=0))  # type: ignore[arg-type]


def write_checkpoint(store: MemoryStore, kind: Format, **options: Any) -> Report:
    """Writes a checkpoint of the newest version in this format."""
    return checkpoint(verbs.Checkpoint(), TableContext(log_of(store), Config.of({**EVERY_FORMAT[kind], **options}), SYSTEM_CLOCK))


def commit(store: MemoryStore, version: int, *actions: dict[str, Any]) -> None:
    text = "".join(json.dumps(action) + "\n" for action in actions).encode()
    assert store.create(names.version_path(version), text)


def full_add(path: str, chance: random.Random) -> dict[str, Any]:
    """An add in which every optional field is present or absent at random."""
    more: dict[str, Any] = {
        "partitionValues": {"a": chance.choice(["x", "", "ü/%41"]), "b": "1"},
        "stats": '{"numRecords":1}',
        "tags": {"k": "v"},
        "minValues": {"id": "-1"},
        "maxValues": {},
        "numRecords": chance.randrange(9),
        "footerStartOffset": 1,
        "footerEndOffset": 2**40,
        "hotcacheStartOffset": 3,
        "hotcacheLength": 4,
        "hasFooterOffsets": chance.random() < 0.5,
        "timeRangeStart": "2024-01-01T00:00:00Z",
        "timeRangeEnd": "2024-01-02T00:00:00Z",
        "splitTags": ["t", ""],
        "deleteOpstamp": 5,
        "numMergeOps": 6,
        "docMappingJson": chance.choice(MAPPINGS),
        "uncompressedSizeBytes": 7,
        "dataChange": chance.random() < 0.5,
    }
    return add(path, **{key: value for key, value in more.items() if chance.random() < 0.5}, size=chance.randrange(99))


def random_actions(live: set[str], chance: random.Random) -> list[dict[str, Any]]:
    """The actions of a commit: adds (some of a path that is live), removes (some of unknown paths), skips, txns, metadata."""
    actions: list[dict[str, Any]] = []
    for _ in range(chance.randint(1, 4)):
        path = chance.choice([f"p{chance.randrange(9)}", f"a=1/{chance.getrandbits(32)}.split", f"ä ü/{chance.randrange(3)}"])
        actions.append(full_add(path, chance))
        live.add(path)
    if live and chance.random() < 0.5:
        gone = chance.choice(sorted(live))
        live.discard(gone)
        actions = [action for action in actions if action["add"]["path"] != gone] + [remove(gone), remove("never/was")]
    if live and chance.random() < 0.3:
        actions.append(skip(chance.choice(sorted(live)), retryAfter=LATER, skipCount=chance.randint(1, 3)))
    if chance.random() < 0.3:
        actions.append({"txn": {"appId": chance.choice("ab"), "version": chance.randrange(9)}})
    if chance.random() < 0.1:
        actions.append(metadata(id=str(chance.getrandbits(32)), name="n", configuration={"k": "v"}, createdTime=7))
    return actions


def begin(store: MemoryStore) -> None:
    commit(store, 0, protocol(), metadata())


def snapshot_content(snapshot: LoadedSnapshot) -> dict[str, Any]:
    """The full content of a snapshot. Doc mappings are replaced by their hash, since a checkpoint may replace a text by a reference."""
    adds = [msgspec.to_builtins(found) for found in snapshot.adds()]
    for found in adds:
        found.pop("docMappingRef", None)
        if "docMappingJson" in found:
            found["docMappingJson"] = schema_hash(found["docMappingJson"])
    return {
        "version": snapshot.version,
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "adds": adds,
        "paths": snapshot.files_table().column("path").to_pylist(),
        "size": snapshot.files.size,
        "num_records": snapshot.files.num_records,
        "txns": dict(snapshot.txns),
        "skips": dict(snapshot.skips),
    }
