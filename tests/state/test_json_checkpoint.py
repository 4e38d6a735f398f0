"""Writing JSON checkpoints: one object in bounded memory, or parts above a threshold (CKP, MPC)."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.config import Config
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointError,
    CheckpointValidationError,
    CheckpointWriteError,
    LogCorrupted,
    StorageError,
)
from indextables.log import names
from indextables.operations.checkpoint.plan import plan_checkpoint
from indextables.state.checkpoints import any_format
from indextables.state.checkpoints.contents import CheckpointOptions, Format
from indextables.table.loading import totals
from indextables.table.opening import load_snapshot
from tests.support.checkpoints import LATER, begin, commit, log_of, snapshot_content, write_checkpoint
from tests.support.loading import read_all
from tests.support.logs import add, metadata, paths, protocol, skip
from tests.support.memory_store import MemoryStore
from tests.support.tables import make


def table(files: int = 3) -> MemoryStore:
    store = MemoryStore()
    begin(store)
    commit(store, 1, *(add(f"f{number}") for number in range(files)), skip("f0", retryAfter=LATER), {"txn": {"appId": "a", "version": 7}})
    return store


def text_of(store: MemoryStore, version: int) -> Any:
    data = store.files[names.checkpoint_path(version)]
    return json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)


def test_a_checkpoint_is_one_object_with_everything() -> None:
    """CKP-01, CKP-02, CKP-03, CKP-09, A-03, A-05."""
    store = table()
    report = write_checkpoint(store, Format.JSON)
    document = text_of(store, 1)
    assert list(document) == ["version", "protocol", "metaData", "add", "txn", "mergeskip", "digest"]
    assert [(found["path"], found["addedAtVersion"]) for found in document["add"]] == [("f0", 1), ("f1", 1), ("f2", 1)]
    assert store.files[names.checkpoint_path(1)].startswith(b"\x1f\x8b")
    assert report.metrics["num_files"] == 3
    pointer = json.loads(store.files[names.pointer_path()])
    assert (pointer["version"], pointer["format"], pointer["numFiles"], pointer["size"]) == (1, "json", 3, 7)


@pytest.mark.parametrize("files", [0, 1, 999, 1000, 1001, 2500])
def test_any_number_of_batches_gives_a_valid_checkpoint(files: int) -> None:
    """CKP-11: adds are encoded in batches of a thousand."""
    store = table(max(files, 1)) if files else MemoryStore()
    if not files:
        begin(store)
    expected = snapshot_content(read_all(log_of(store)))
    write_checkpoint(store, Format.JSON)
    store.delete(names.version_path(0))
    store.delete(names.version_path(1))
    assert snapshot_content(read_all(log_of(store))) == expected


def test_parts_above_the_threshold(tmp_path: Path) -> None:
    """MPC-01, MPC-02, MPC-03, PRT-08: the protocol is upgraded first, in a version of its own."""
    plain = make(tmp_path / "t", 2, **{"checkpoint.actionsPerPart": 3, "state.format": "json"})
    before = paths(plain)
    report = plain.checkpoint()
    log = tmp_path / "t" / "_transaction_log"
    manifest = json.loads((log / f"{3:020d}.checkpoint.json").read_bytes())
    unique = manifest["checkpointId"]
    assert manifest["parts"] == [f"{3:020d}.checkpoint.{unique}.{number:05d}.json" for number in range(1, len(manifest["parts"]) + 1)]
    assert (len(unique), manifest["format"], manifest["version"], manifest["numFiles"]) == (12, "json-multipart", 3, 4)
    pointer = json.loads((log / "_last_checkpoint").read_bytes())
    assert (pointer["format"], pointer["parts"], pointer["checkpointId"]) == ("json-multipart", len(manifest["parts"]), unique)
    found = it.open(tmp_path / "t")
    assert (found.version, report.base_version, report.version, paths(found)) == (3, 2, 3, before)
    assert found.protocol.min_reader_version == found.protocol.min_writer_version == 3
    assert found.protocol.reader_features == ["arrowRowStore", "multiPartCheckpoint", "schemaDeduplication"]
    assert "checkpoint" in found.history().column("operation").to_pylist()


@pytest.mark.parametrize(("each", "parts"), [(2503, 1), (2502, 2), (1500, 2), (1000, 3), (999, 3), (626, 4)])
def test_parts_are_as_large_as_allowed(each: int, parts: int) -> None:
    """2,503 actions (2,500 files, protocol, metadata and a txn), independent of the batch size."""
    store = MemoryStore()
    begin(store)
    commit(store, 1, *(add(f"f{number}") for number in range(2500)), {"txn": {"appId": "a", "version": 7}})
    write_checkpoint(store, Format.JSON, **{"checkpoint.actionsPerPart": each})
    (version,) = log_of(store).listing().bases
    assert len(log_of(store).listing().checkpoint_files(version)) == (1 if parts == 1 else parts + 1)
    assert len(read_all(log_of(store)).files) == 2500


@pytest.mark.parametrize(("options", "version"), [({"checkpoint.multiPart.enabled": False}, 1), ({"checkpoint.actionsPerPart": 7}, 1)])
def test_one_file_below_the_threshold_or_without_multi_part(options: dict[str, Any], version: int) -> None:
    store = table()
    write_checkpoint(store, Format.JSON, **{"checkpoint.actionsPerPart": 3, **options})
    assert log_of(store).listing().bases == (version,)
    assert "add" in text_of(store, version)


def test_a_valid_checkpoint_of_another_writer_is_kept() -> None:
    """CKP-13: if it has the configured format; a version may have checkpoints in several any_format."""
    store = table()
    snapshot = load_snapshot(log_of(store))
    write_checkpoint(store, Format.JSON)
    before = dict(store.files)
    contents = plan_checkpoint(snapshot, totals(log_of(store), snapshot), 0, 10**15)
    written = any_format.write_checkpoint(log_of(store), contents, CheckpointOptions.of(Config.of({"state.format": "json"})))
    assert (written.format, written.bytes_written, store.files) == (Format.JSON, 0, before)
    beside = any_format.write_checkpoint(log_of(store), contents, CheckpointOptions.of(Config.of({"state.format": "parquet"})))
    assert beside.format is Format.PARQUET
    assert before.items() < store.files.items()


@pytest.mark.parametrize("style", [{}, {"indent": 0, "separators": (",", ":")}, {"indent": 2}], ids=["one line", "lines", "indented"])
def test_objects_of_other_programs_are_read_in_any_json_layout(style: dict[str, Any]) -> None:
    """C-15: `{protocol, metaData, add}`, without version and digest."""
    store = MemoryStore()
    document = {**protocol(), **metadata(), "add": [add("a")["add"], add("b")["add"]], "txn": [{"appId": "x", "version": 1}]}
    store.files[names.checkpoint_path(1)] = json.dumps(document, **style).encode()
    snapshot = read_all(log_of(store))
    assert (snapshot.version, snapshot.files.paths(), snapshot.txns["x"].version) == (1, ["a", "b"], 1)


class UnreliableStore(MemoryStore):
    """Truncates checkpoint files, or fails to write them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def create(self, path: str, data: bytes) -> bool:
        if "checkpoint" in path and self.how == "fails":
            raise StorageError("the store did not answer")
        return super().create(path, data[:-20] if "checkpoint" in path and self.how == "cuts" else data)

    def replace(self, path: str, data: bytes) -> None:
        super().replace(path, data[:-20] if ".checkpoint." in path and self.how == "cuts" else data)

    def upload(self, source: Path, path: str) -> int:
        done = super().upload(source, path)
        if self.how == "cuts":
            self.files[path] = self.files[path][:-20]
        return done


@pytest.mark.parametrize("kind", [Format.JSON, Format.JSON_PARTS, Format.PARQUET])
@pytest.mark.parametrize(("how", "error"), [("fails", CheckpointWriteError), ("cuts", CheckpointValidationError)])
def test_a_checkpoint_that_fails_verification_is_an_error_and_has_no_pointer(kind: Format, how: str, error: type[CheckpointError]) -> None:
    """PQC-14."""
    store = UnreliableStore(how)
    begin(store)
    commit(store, 1, *(add(f"f{number}") for number in range(5)))
    with pytest.raises(error) as caught:
        write_checkpoint(store, kind)
    assert caught.value.version == (2 if kind is Format.JSON_PARTS else 1)  # type: ignore[attr-defined]
    assert caught.value.retryable is (how == "fails")
    assert names.pointer_path() not in store.files
    if how == "cuts":  # the parts are deleted; if it were unknown whether the list exists, they would be kept
        assert [path for path in store.files if path.endswith((".00001.json", ".00002.json"))] == []
    assert paths_of(store) == [f"f{number}" for number in range(5)]


def paths_of(store: MemoryStore) -> list[str]:
    return read_all(log_of(store)).files.paths()


def test_checkpoint_errors_have_messages_and_can_be_pickled() -> None:
    """PQC-14: executors return them."""
    found = [
        CheckpointWriteError(3, StorageError("no answer")),
        CheckpointValidationError(3, "it is short"),
        CheckpointCorruptionError("_transaction_log/x", "it is cut"),
    ]
    for error in found:
        assert isinstance(error, CheckpointError)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.exit_code) == (type(error), str(error), error.exit_code)
    assert [str(error) for error in found] == [
        "checkpoint 3 could not be written: no answer",
        "checkpoint 3 does not read back as it was written: it is short",
        "checkpoint file '_transaction_log/x' cannot be used: it is cut",
    ]
    assert (found[0].exit_code, found[1].exit_code, isinstance(found[2], LogCorrupted)) == (75, 1, True)


def test_a_checkpoint_that_cannot_be_read_names_its_file() -> None:
    """ERR-04, RD-05: the version files are read instead."""
    store = table()
    write_checkpoint(store, Format.JSON)
    store.files[names.checkpoint_path(1)] = b"x"
    with pytest.raises(CheckpointCorruptionError, match=r"00000000000000000001\.checkpoint\.json"):
        any_format.read_checkpoint(log_of(store), log_of(store).listing(), 1)
    found = read_all(log_of(store))
    assert (found.checkpoint, found.files.paths()) == (None, ["f0", "f1", "f2"])
    assert found.warnings[0].startswith("failed to read checkpoint at version 1")


MEMORY = """
import resource, sys
from indextables.actions import Add, Metadata
from indextables.actions.edit import Edit
from indextables.actions.layers import EMPTY
from indextables.state.checkpoints.contents import Contents
from indextables.state.checkpoints.json.single import write_json
from tests.support.checkpoints import log_of
from tests.support.memory_store import MemoryStore

edit = Edit(EMPTY)
for n in range(int(sys.argv[1])):
    path = f"a={n % 7}/splits/split-{n:036d}.split"
    low = {"i": str(n)}
    edit.put(path, Add(path=path, partition_values={"a": str(n % 7)}, size=n, modification_time=n, data_change=True, min_values=low))
files = edit.done()
files.complete.table()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_json(MemoryStore(), Contents(1, None, Metadata(id="x", schema_string="{}"), files, files.complete.totals, [], []), compress=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_table() -> None:
    """CKP-11: writing adds the compressed file and a batch to the peak, not all adds: 150,000 of them would take 200 MB."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", MEMORY, "150000"], cwd=root, capture_output=True, text=True, check=True, timeout=300)
    print(f"CKP-11: {int(done.stdout) / 1024:.0f} MiB more at the peak for 150,000 files")
    assert int(done.stdout) < 64 * 1024
