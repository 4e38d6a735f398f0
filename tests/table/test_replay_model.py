"""R7: replay(log) = checkpoint + tail = a plain model, at every version, with and without the cache, with new and old handles.

Checkpoints have one of the four formats, or a random one each time; any of their files may be lost or changed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import random
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indextables.actions import codec, edit, segments
from indextables.actions.add_patterns import AddPatterns
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.errors import LogCorrupted, VersionNotFound
from indextables.log import names
from indextables.log.log import ReadSettings, TransactionLog
from indextables.operations import verbs
from indextables.operations.checkpoint.run import checkpoint
from indextables.state.checkpoints.avro import containers as avro
from indextables.state.checkpoints.avro import file_loader
from indextables.table.context import TableContext
from indextables.table.loading import load, totals
from indextables.table.opening import advance, load_snapshot
from indextables.table.snapshot import Snapshot
from tests.support.memory_store import MemoryStore
from tests.support.reference_replay import State
from tests.support.seeds import random_seed

TABLES, STEPS = 100, 40  # per checkpoint format: 500 in all
LONG_STEPS = 60
LONG_TABLES = {
    "json": 15_000,
    "parts": 15_000,
    "parquet": 2_500,
    "avro": 10_000,
    "mixed": 7_500,
}  # a table with Parquet takes six times as long
EXHAUSTIVE = 8  # every eighth table, all versions are compared instead of a sample
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def metadata(number: int) -> dict[str, Any]:
    return {"metaData": {"id": f"{uuid.UUID(int=number)}", "schemaString": SCHEMA, "partitionColumns": [], "configuration": {}}}


FEATURES = ["arrowRowStore", "avroState", "schemaDeduplication"]
PROTOCOLS = [
    {"minReaderVersion": 2, "minWriterVersion": 2},
    {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": FEATURES, "writerFeatures": FEATURES},
]
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "json": {"state.format": ["json"]},
    "parts": {"state.format": ["json"], "checkpoint.actionsPerPart": [2, 3]},
    "parquet": {"state.format": ["parquet"], "checkpoint.maxFileSize": [1, 134_217_728]},
    "avro": {
        "state.format": ["avro"],
        "state.manifestFormat": ["json", "json", "avro"],
        "state.compression": ["zstd", "snappy", "none"],
        "state.entriesPerManifest": [1, 3, 50_000, 50_000],
        "state.compaction.tombstoneThreshold": [0, 0.1, 100, 100],
        "state.compaction.maxManifests": [1, 3, 20],
        "state.compaction.largeRemoveThreshold": [1, 2_147_483_647],
    },
}
FORMS = [*OPTIONS, "mixed"]


def files_of(store: MemoryStore, version: int) -> list[list[str]]:
    """The files that each checkpoint of a version needs, independent of the product code: one list per checkpoint."""
    head = names.checkpoint_path(version)
    found = []
    if head in store.files:
        parts = re.findall(rb"[0-9]{20}\.checkpoint\.[0-9a-f]{12}\.[0-9]{5}\.json", store.files[head])
        found.append([head, *(f"_transaction_log/{name.decode()}" for name in parts)])
    folder, place = "_transaction_log/_checkpoints/", f"_transaction_log/state-v{version:020d}/"
    described = f"{folder}{version:020d}.checkpoint.json"
    if described in store.files:
        # The folder may also contain parts of an earlier checkpoint of this version; only those that are counted belong to it.
        count = re.search(rb'"parts":([0-9]+)', store.files[described])
        parts = [f".{number:05d}" for number in range(1, int(count[1]) + 1)] if count else [""]
        found.append([described, *(f"{folder}{version:020d}.checkpoint{part}.parquet" for part in parts)])
    for path in (path for path in store.files if path.startswith(place)):
        named = re.findall(rb"manifests/manifest-[0-9a-f]{32}\.avro", _text(store.files[path]))
        found.append([path, *(f"_transaction_log/{name.decode()}" for name in named)])
    return found


def _text(data: bytes) -> bytes:
    """The text of a state manifest; an Avro manifest is decompressed, so that paths can be searched for.

    A damaged one may lie beside a new checkpoint of another form. It names nothing, and `is_right` leaves it out.
    """
    if not data.startswith(b"Obj"):
        return data
    try:
        found = avro.parse(data, "state")
        return b"".join(avro.expand(found.codec, packed, 10_000_000, "state") for _, packed in found.blocks)
    except LogCorrupted:
        return b""


class Driver:
    """A table, random operations on it, and its expected states."""

    def __init__(self, seed: int, form: str, *, keeps_manifests: bool) -> None:
        self.form = form
        self.keeps_manifests = keeps_manifests  # in the local cache: damage to a manifest that was read before is not noticed
        self.random = random.Random(seed)
        self.store = MemoryStore()
        self.handles: list[Snapshot] = []
        self.checked = self.broken = 0
        self.is_blind = False  # a manifest was damaged that this process had verified and does not read again
        self.is_flipped = False  # a bit of a state manifest changed: it has no digest, so damage to an unused field is harmless
        self.create()

    def log(self, **reading: Any) -> TransactionLog:
        return TransactionLog(self.store, ReadSettings(manifests=1, **reading))  # type: ignore[arg-type]

    def create(self) -> None:
        """Replaces the table by a new one."""
        self.store.files.clear()
        self.states: list[State] = []
        self.damaged: dict[str, str] = {}
        self.written: dict[int, list[dict[str, str]]] = {}  # version -> files of each checkpoint, with their digests
        self.commit([{"protocol": self.random.choice(PROTOCOLS)}, metadata(self.random.getrandbits(64))])

    # ---- operations

    def commit(self, actions: list[dict[str, Any]]) -> None:
        version = len(self.states)
        separators = self.random.choice([None, (",", ":"), (",", ":")])  # as other programs write it, and as we do
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

    def commit_txn(self) -> None:
        txn = {"txn": {"appId": self.random.choice("ab"), "version": self.random.randrange(9)}}
        self.commit([txn, *([metadata(self.random.getrandbits(64))] if self.random.random() < 0.3 else [])])

    def checkpoint(self) -> None:
        if not self.is_readable(len(self.states) - 1):
            return
        form = self.random.choice(list(OPTIONS)) if self.form == "mixed" else self.form
        options = {key: self.random.choice(values) for key, values in OPTIONS[form].items()}
        checkpoint(verbs.Checkpoint(), TableContext(self.log(), Config.of(options), SYSTEM_CLOCK))
        version = len(self.states)
        if names.version_path(version) in self.store.files:  # a protocol upgrade was committed first (PRT-08)
            self.states.append(self.states[-1].after(version, []))
        kept = [files for files in self.written.get(len(self.states) - 1, []) if self.is_whole(files)]
        made = [{path: self.digest(path) for path in files} for files in files_of(self.store, len(self.states) - 1)]
        self.written[len(self.states) - 1] = [*kept, *(files for files in made if self.is_right(files))]
        assert len(self.states) - 1 in self.valid or self.is_blind, options

    def digest(self, path: str) -> str:
        return hashlib.sha256(self.store.files.get(path, b"none")).hexdigest()

    def is_whole(self, files: dict[str, str]) -> bool:
        return all(self.digest(path) == digest for path, digest in files.items())

    def is_right(self, files: dict[str, str]) -> bool:
        """Whether manifests match the digests in their names, and no file still has the contents of an earlier damage."""
        wrong = any("/manifest-" in path and digest[:32] not in path for path, digest in files.items())
        return not wrong and not any(self.damaged.get(path) == digest for path, digest in files.items())

    @property
    def valid(self) -> set[int]:
        return {version for version, found in self.written.items() if any(map(self.is_whole, found))}

    def break_checkpoint(self) -> None:
        """Damages a random file of a checkpoint: empty, truncated, changed, exchanged, or deleted."""
        files = sorted({path for version in self.valid for one in self.written[version] for path in one if self.store.files.get(path)})
        if not files:
            return
        path = self.random.choice(files)
        whole = self.store.files[path]
        at = self.random.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << self.random.randrange(8)]) + whole[at + 1 :]
        other = self.store.files[self.random.choice(files)]
        new = self.random.choice([b"", whole[: len(whole) // 2], b"{}", flipped, flipped, other, None])
        if new is None:
            del self.store.files[path]
        elif new != whole:
            self.store.files[path] = new
            self.damaged[path] = self.digest(path)
        self.is_flipped |= new is flipped and path.endswith("/_manifest.avro")
        self.broken += 1
        if self.random.random() < 0.7:
            file_loader._VERIFIED.clear()  # as in a new process
            self.is_blind = False
        else:
            self.is_blind |= "/manifest-" in path

    def expire(self) -> None:
        if self.valid:
            for version in range(1, self.random.choice(sorted(self.valid))):
                self.store.delete(names.version_path(version))

    def make_again(self) -> None:
        if self.random.random() < 0.2:
            self.create()
            for _ in range(self.random.randrange(6)):
                self.append()

    # ---- checks

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
                # Damage that changes neither size nor time of a checkpoint is not noticed by a process that has read it before.
                assert self.is_readable(newest) or log.cache() is not None or self.keeps_manifests or self.is_flipped
        version = self.random.randint(0, newest)
        if self.is_readable(version):
            self.equal(load_snapshot(self.log(), version), version)
        elif version < newest:
            errors = LogCorrupted, VersionNotFound
            with suppress(*errors) if self.keeps_manifests or self.is_flipped else pytest.raises(errors):
                self.equal(load_snapshot(self.log(cache_ms=0), version), version)
        if self.is_readable(newest):
            self.handles = [
                advance(self.log(cache_ms=self.random.choice([0, 300_000, 300_000])), handle)
                for handle in self.handles
                if self.random.random() < 0.7
            ]
            for handle in self.handles:
                self.equal(handle, newest)
            self.handles = [*self.handles[-1:], load_snapshot(self.log())]

    def check_every_version(self) -> None:
        """Ascending with the cache, descending without."""
        versions = [version for version in range(len(self.states)) if self.is_readable(version)]
        for version in versions:
            self.equal(load_snapshot(self.log(), version), version)
        for version in reversed(versions):
            self.equal(load_snapshot(self.log(cache_ms=0, parallelism=1), version), version)

    def equal(self, unloaded: Snapshot, version: int) -> None:
        snapshot = load(self.log(), unloaded)
        expected = self.states[version]
        assert snapshot.version == version
        found = {add.path: msgspec.to_builtins(add) for add in snapshot.adds()}
        assert found == expected.files
        paths = snapshot.files_table().column("path").to_pylist()
        assert sorted(paths) == sorted(expected.files)  # compaction of a state changes the order
        assert self.form in ("avro", "mixed") or paths == list(found) == list(expected.files)
        assert totals(self.log(), unloaded) == snapshot.files.totals
        assert len(snapshot.files) == len(expected.files)
        assert snapshot.files.size == sum(add["size"] for add in expected.files.values())
        assert snapshot.files.num_records == sum(add.get("numRecords", 0) for add in expected.files.values())
        assert all((path in snapshot.files) == (path in expected.files) for path in [*expected.files, *(f"p{n}" for n in range(12))])
        assert {app: txn.version for app, txn in snapshot.txns.items()} == expected.txns
        assert expected.metadata is not None
        assert snapshot.metadata.id == expected.metadata["id"]
        self.checked += 1

    def step(self) -> None:
        operations = [self.append] * 5 + [self.merge] * 4 + [self.overwrite, self.commit_txn, self.checkpoint, self.checkpoint]
        self.random.choice([*operations, self.break_checkpoint, self.expire, self.make_again])()
        if self.random.random() < 0.1:
            self.check()


def model(monkeypatch: pytest.MonkeyPatch, cache: Path, form: str, tables: int, first: int, steps: int = STEPS) -> None:
    """Runs random histories with small segments, so that a few files exercise the code paths of a million."""
    for module, name, value in ((edit, "RECENT", 5), (edit, "BATCH", 12), (segments, "SMALL", 40)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(codec, "ADD_PATTERNS", AddPatterns(patience=10))
    monkeypatch.setattr(logging.getLogger("indextables"), "disabled", True)  # thousands of broken checkpoints
    checked = broken = 0
    for seed in range(first, first + tables):
        # Without a cache of manifests every answer comes from the bytes that are there.
        monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(cache) if seed % 2 else "/dev/null/nowhere")
        driver = Driver(seed, form, keeps_manifests=seed % 2 == 1)
        try:
            for _ in range(steps):
                driver.step()
            driver.check()
            if seed % EXHAUSTIVE == 0:
                driver.check_every_version()
        except Exception as error:
            error.add_note(f"seed {seed}, after {len(driver.states)} versions")
            raise
        checked += driver.checked
        broken += driver.broken
    print(f"R7: {form}, {tables} tables x {steps} steps, {checked} snapshots equal to the model, {broken} damages, seeds from {first}")
    assert checked > 10 * tables
    assert broken > tables


@pytest.mark.parametrize("form", FORMS)
def test_both_ways_of_reading_equal_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str) -> None:
    model(monkeypatch, tmp_path, form, TABLES, random_seed())


def test_history_3432141256_reads_a_state_manifest_with_a_harmless_flipped_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", "/dev/null/nowhere")
    driver = Driver(3432141256, "avro", keeps_manifests=False)
    for _ in range(STEPS):
        driver.step()
    driver.check()
    assert driver.is_flipped


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("form", FORMS)
def test_both_ways_of_reading_equal_the_model_many_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str) -> None:
    model(monkeypatch, tmp_path, form, LONG_TABLES[form], random_seed(), LONG_STEPS)
