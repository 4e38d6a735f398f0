"""R7: replay(log) = checkpoint + tail = a plain model, at every version, with and without the cache, by new and old handles."""

from __future__ import annotations

import gzip
import json
import logging
import random
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indextables.actions import codec, live
from indextables.actions.spellings import Spellings
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.errors import LogCorrupted, VersionNotFound
from indextables.log import names
from indextables.log.log import Reading, TransactionLog
from indextables.operations.checkpoint import checkpoint
from indextables.state.avro_state import state_path
from indextables.table.context import TableContext
from indextables.table.snapshot import Snapshot, advance, load_snapshot
from tests.support.memory_store import MemoryStore
from tests.support.reference_replay import State

TABLES, STEPS = 500, 40
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def metadata(number: int) -> dict[str, Any]:
    return {"metaData": {"id": f"{uuid.UUID(int=number)}", "schemaString": SCHEMA, "partitionColumns": [], "configuration": {}}}


FEATURES = ["arrowRowStore", "avroState", "schemaDeduplication"]
PROTOCOLS = {
    "json": {"minReaderVersion": 2, "minWriterVersion": 2},
    "avro": {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": FEATURES, "writerFeatures": FEATURES},
}


class Driver:
    """One table, what happens to it, and what it must amount to."""

    def __init__(self, seed: int, form: str) -> None:
        self.form = form
        self.random = random.Random(seed)
        self.store = MemoryStore()
        self.handles: list[Snapshot] = []
        self.checked = 0
        self.create()

    def log(self, **reading: Any) -> TransactionLog:
        return TransactionLog(self.store, Reading(manifests=1, **reading))  # type: ignore[arg-type]

    def create(self) -> None:
        """A new table takes the place of what was there."""
        self.store.files.clear()
        self.states: list[State] = []
        self.valid: set[int] = set()  # checkpoints
        self.commit([{"protocol": PROTOCOLS[self.form]}, metadata(self.random.getrandbits(64))])

    # ---- what happens

    def commit(self, actions: list[dict[str, Any]]) -> None:
        version = len(self.states)
        separators = self.random.choice([None, (",", ":"), (",", ":")])  # as other programs spell it, and as we do
        text = "".join(json.dumps(action, separators=separators) + "\n" for action in actions).encode()
        data = gzip.compress(text, mtime=0) if self.random.random() < 0.5 else text
        assert self.store.create(names.version_path(version), data)
        before = self.states[-1] if self.states else State()
        self.states.append(before.after(version, actions))

    def add(self) -> dict[str, Any]:
        path = (
            f"p{self.random.randrange(12)}" if self.random.random() < 0.5 else f"a={self.random.randrange(3)}/{self.random.getrandbits(40)}"
        )
        add = {"path": path, "partitionValues": {}, "size": self.random.randrange(99), "modificationTime": 1, "dataChange": True}
        if self.random.random() < 0.8:
            add["numRecords"] = self.random.randrange(9)
        if self.random.random() < 0.5:
            add |= {
                "partitionValues": {"a": "x", "b": ""},
                "minValues": {},
                "maxValues": {"id": "7"},
                "splitTags": ["t"],
                "tags": {"k": "v"},
            }
        return {"add": add}

    def append(self) -> None:
        self.commit([self.add() for _ in range(self.random.randint(1, 5))])

    def overwrite(self) -> None:
        self.commit([*({"remove": {"path": path}} for path in self.states[-1].files), self.add()])

    def merge(self) -> None:
        sources = self.random.sample(list(self.states[-1].files), min(2, len(self.states[-1].files)))
        self.commit([*({"remove": {"path": path}} for path in sources), self.add(), {"remove": {"path": "never/was"}}, {"mystery": {}}])

    def say(self) -> None:
        txn = {"txn": {"appId": self.random.choice("ab"), "version": self.random.randrange(9)}}
        self.commit([txn, *([metadata(self.random.getrandbits(64))] if self.random.random() < 0.3 else [])])

    def checkpoint(self) -> None:
        if not self.is_readable(len(self.states) - 1):
            return
        checkpoint(TableContext(self.log(), Config.of({"state.format": self.form}), SYSTEM_CLOCK))
        self.valid.add(len(self.states) - 1)

    def break_checkpoint(self) -> None:
        if not self.valid:
            return
        version = self.random.choice(sorted(self.valid))
        path = self.base_path(version)
        whole = self.store.files[path]
        others = [self.store.files[self.base_path(v)] for v in self.valid if v != version]
        self.store.files[path] = self.random.choice(
            [b"", whole[: len(whole) // 2], b"{}", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], *others]
        )
        self.valid.discard(version)

    def base_path(self, version: int) -> str:
        return names.checkpoint_path(version) if self.form == "json" else state_path(version, "json")

    def expire(self) -> None:
        if self.valid:
            for version in range(1, self.random.choice(sorted(self.valid))):
                self.store.delete(names.version_path(version))

    def make_again(self) -> None:
        if self.random.random() < 0.2:
            self.create()
            for _ in range(self.random.randrange(6)):
                self.append()

    # ---- what must hold

    def is_readable(self, version: int) -> bool:
        there = [names.version_path(v) in self.store.files for v in range(version + 1)]
        bases = [v for v in self.valid if v <= version]
        return all(there[max(bases) + 1 :]) if bases else all(there)

    def check(self) -> None:
        newest = len(self.states) - 1
        for log in (self.log(), self.log(cache_ms=0, parallelism=self.random.choice([1, 4]))):
            try:
                self.equal(load_snapshot(log), newest)
            except LogCorrupted:
                assert not self.is_readable(newest)
            else:
                # Damage that changes neither size nor time of a checkpoint is not seen by those who have read it before.
                assert self.is_readable(newest) or log.cache() is not None
        version = self.random.randint(0, newest)
        if self.is_readable(version):
            self.equal(load_snapshot(self.log(), version), version)
        elif version < newest:
            with pytest.raises((LogCorrupted, VersionNotFound)):
                load_snapshot(self.log(cache_ms=0), version)
        if self.is_readable(newest):
            self.handles = [
                advance(self.log(cache_ms=self.random.choice([0, 300_000, 300_000])), handle)
                for handle in self.handles
                if self.random.random() < 0.7
            ]
            for handle in self.handles:
                self.equal(handle, newest)
            self.handles = [*self.handles[-1:], load_snapshot(self.log())]

    def equal(self, snapshot: Snapshot, version: int) -> None:
        expected = self.states[version]
        assert snapshot.version == version
        found = [msgspec.to_builtins(add) for add in snapshot.adds()]
        assert found == list(expected.files.values())
        found = snapshot.files_table().column("path").to_pylist()
        if self.form == "json":
            assert found == list(expected.files)
        assert sorted(found) == sorted(expected.files)  # a state that was compacted has another order
        assert len(snapshot.files) == len(expected.files)
        assert snapshot.size == sum(add["size"] for add in expected.files.values())
        assert snapshot.num_records == sum(add.get("numRecords", 0) for add in expected.files.values())
        assert all((path in snapshot.files) == (path in expected.files) for path in [*expected.files, *(f"p{n}" for n in range(12))])
        assert {app: txn.version for app, txn in snapshot.txns.items()} == expected.txns
        assert expected.metadata is not None
        assert snapshot.metadata.id == expected.metadata["id"]
        self.checked += 1

    def step(self) -> None:
        happenings = [self.append] * 5 + [self.merge] * 4 + [self.overwrite, self.say, self.checkpoint, self.checkpoint]
        self.random.choice([*happenings, self.break_checkpoint, self.expire, self.make_again])()
        if self.random.random() < 0.1:
            self.check()


@pytest.mark.parametrize(("form", "tables"), [("json", TABLES), ("avro", TABLES // 5)])
def test_both_ways_of_reading_equal_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str, tables: int) -> None:
    """Small segments, so that a few files go through everything that happens to a million."""
    for name, value in {"RECENT": 5, "BATCH": 12, "SMALL": 40}.items():
        monkeypatch.setattr(live, name, value)
    monkeypatch.setattr(codec, "SPELLINGS", Spellings(patience=10))
    monkeypatch.setattr(logging.getLogger("indextables"), "disabled", True)  # thousands of broken checkpoints
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path))
    first = random.randrange(2**32)
    checked = 0
    for seed in range(first, first + tables):
        driver = Driver(seed, form)
        try:
            for _ in range(STEPS):
                driver.step()
            driver.check()
        except Exception as error:
            error.add_note(f"seed {seed}, after {len(driver.states)} versions")
            raise
        checked += driver.checked
    print(f"R7: {form}, {tables} tables x {STEPS} steps, {checked} snapshots equal to the model, seeds from {first}")
    assert checked > 10 * tables
