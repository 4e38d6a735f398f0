"""R17: `deltalake` replays random logs with the same actions to the same files, at every version."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from indextables.log.log import ReadSettings, TransactionLog
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.loading import load
from indextables.table.opening import advance, load_snapshot
from tests.support.loading import read_all
from tests.support.seeds import random_seed
from tests.support.tables import write_version

TABLES, LONG_TABLES = 100, 5_000
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
METADATA = {"id": "x", "schemaString": SCHEMA, "partitionColumns": [], "configuration": {}}


def add(path: str, size: int) -> dict[str, Any]:
    return {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}


def write_both(folder: Path, version: int, actions: list[dict[str, Any]]) -> None:
    """Writes a version to our log and to a Delta log; only protocol and metadata differ."""
    ours = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}, {"metaData": METADATA}]
    delta = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**METADATA, "format": {"provider": "parquet", "options": {}}, "createdTime": 1}},
    ]
    write_version(folder, version, *(ours if version == 0 else ()), *actions)
    target = folder / "_delta_log" / f"{version:020d}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(json.dumps(action) + "\n" for action in [*(delta if version == 0 else ()), *actions]))


def random_commit(chance: random.Random, live: set[str]) -> list[dict[str, Any]]:
    """Each path at most once, as Delta requires; includes removes of absent files and adds of live ones."""
    paths = chance.sample([f"f{n}.parquet" for n in range(15)], chance.randint(1, 5))
    actions = []
    for path in paths:
        if chance.random() < (0.6 if path in live else 0.2):
            actions.append({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}})
            live.discard(path)
        else:
            actions.append({"add": add(path, chance.randrange(1, 1000))})
            live.add(path)
    return actions


def compare(tmp_path: Path, tables: int) -> None:
    seed = random_seed()
    chance = random.Random(seed)
    compared = 0
    for number in range(tables):
        folder = tmp_path / str(number)
        live: set[str] = set()
        versions = chance.randint(2, 8)
        handle = None
        for version in range(versions):
            write_both(folder, version, [] if version == 0 else random_commit(chance, live))
            log = TransactionLog(LocalStore(TableRoot(str(folder))))
            handle = load_snapshot(log) if handle is None else advance(log, handle)
            assert set(load(log, handle).files_table().column("path").to_pylist()) == live, f"seed {seed}"
        plain = TransactionLog(LocalStore(TableRoot(str(folder))), ReadSettings(parallelism=1, cache_ms=0))
        theirs = DeltaTable(folder)
        for version in range(versions):
            theirs.load_as_version(version)
            rows = read_all(plain, version).files_table().select(["path", "size"]).to_pylist()
            found = theirs.get_add_actions(flatten=True)
            expected = dict(zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), strict=True))
            assert {row["path"]: row["size"] for row in rows} == expected, f"seed {seed}, table {number}, version {version}"
            compared += 1
    print(f"R17: {tables} tables, {compared} versions equal, seed {seed}")
    assert compared > 2 * tables


def test_deltalake_finds_the_same_files(tmp_path: Path) -> None:
    compare(tmp_path, TABLES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_deltalake_finds_the_same_files_many_rounds(tmp_path: Path) -> None:
    compare(tmp_path, LONG_TABLES)
