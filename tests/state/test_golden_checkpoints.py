"""R16: golden checkpoints of every format are read correctly, and current writers produce the same files.

Files in `tests/golden` are never changed; a new layout gets a new folder. `json-1` and `json-multipart-1` are the first layouts of JSON
checkpoints, and `parquet-1` has no column for the commit time.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables.actions import Add, Metadata, Protocol, Skip, Txn
from indextables.actions.edit import Edit
from indextables.actions.layers import EMPTY
from indextables.clock import Clock
from indextables.config import Config
from indextables.log import names
from indextables.log.log import ReadSettings, TransactionLog
from indextables.state.checkpoints import any_format
from indextables.state.checkpoints.contents import CheckpointOptions, Contents, Format
from indextables.state.pointer import read_pointer, write_pointer
from tests.support.checkpoints import OPTIONS
from tests.support.memory_store import MemoryStore

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
VERSION = 42
NOW_MS = 1_700_000_000_000
ADDS = [
    Add(
        path="a=x/splits/split-0.split",
        partition_values={"a": "x"},
        size=10,
        modification_time=NOW_MS,
        data_change=True,
        stats='{"numRecords":3}',
        tags={"k": "ü"},
        min_values={"id": "1"},
        max_values={"id": "3"},
        num_records=3,
        footer_start_offset=1,
        footer_end_offset=10,
        hotcache_start_offset=4,
        hotcache_length=5,
        has_footer_offsets=True,
        time_range_start="2024-01-01T00:00:00Z",
        time_range_end="2024-01-02T00:00:00Z",
        split_tags=["t"],
        delete_opstamp=6,
        num_merge_ops=7,
        doc_mapping_ref="z7TwwZ-tDWGD-uX5",
        uncompressed_size_bytes=8,
        added_at_version=41,
    ),
    Add(path="b", partition_values={}, size=0, modification_time=0, data_change=False, doc_mapping_json="[]"),
]


def contents(kind: Format) -> Contents:
    edit = Edit(EMPTY)
    for add in ADDS:
        edit.put(add.path, add)
    files = edit.done()
    features = ["arrowRowStore", "multiPartCheckpoint"] if kind is Format.JSON_PARTS else None
    return Contents(
        VERSION,
        Protocol(min_reader_version=3, min_writer_version=3, reader_features=features, writer_features=features),
        Metadata(
            id="00000000-0000-4000-8000-000000000000",
            schema_string='{"type":"struct","fields":[]}',
            partition_columns=["a"],
            configuration={"k": "v"},
            created_time=1,
            name="n",
        ),
        files,
        files.complete.totals,
        [Txn(app_id="x", version=7, last_updated=NOW_MS)],
        [Skip(path="b", skip_timestamp=1, reason="damaged", retry_after=2, skip_count=2)],
    )


def log_of(store: MemoryStore) -> TransactionLog:
    clock = Clock(lambda: NOW_MS, lambda _: None, lambda: "00000000-0000-4000-8000-0123456789ab")
    return TransactionLog(store, ReadSettings(cache_ms=0), clock)  # type: ignore[arg-type]


def store_of(folder: Path) -> MemoryStore:
    store = MemoryStore()
    store.files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return store


def write(kind: Format) -> MemoryStore:
    store = MemoryStore()
    log = log_of(store)
    written = any_format.write_checkpoint(log, contents(kind), CheckpointOptions.of(Config.of(OPTIONS[kind])))
    write_pointer(store, written, [], NOW_MS)  # type: ignore[arg-type]
    return store


FOLDERS = {
    **{kind.value: kind for kind in OPTIONS},
    "json-1": Format.JSON,
    "json-multipart-1": Format.JSON_PARTS,
    "parquet-1": Format.PARQUET,
}


@pytest.mark.parametrize("name", FOLDERS)
def test_golden_checkpoints_are_read(name: str) -> None:
    kind = FOLDERS[name]
    log = log_of(store_of(GOLDEN / name))
    replay, found = any_format.read_checkpoint(log, log.listing(), VERSION)
    expected = contents(kind)
    assert found is kind
    assert (replay.protocol, replay.metadata) == (expected.protocol, expected.metadata)
    assert (list(replay.txns.values()), list(replay.skips.values())) == (expected.txns, expected.skips)
    assert list(replay.files().complete.adds()) == ADDS


@pytest.mark.parametrize("kind", OPTIONS)
def test_current_writers_produce_the_golden_files(kind: Format) -> None:
    """JSON is compared decompressed and Parquet by its rows, because zlib and the Parquet library may change their output."""
    golden, fresh = store_of(GOLDEN / kind.value), write(kind)
    assert sorted(fresh.files) == sorted(golden.files)
    for path, data in fresh.files.items():
        if path.endswith(".parquet"):
            ours, theirs = (pq.ParquetFile(pa.BufferReader(found)) for found in (data, golden.files[path]))
            assert ours.read().equals(theirs.read())
            assert ours.schema_arrow.equals(theirs.schema_arrow)
        elif kind is Format.JSON or ".0000" in path:
            assert _text(data) == _text(golden.files[path])


def test_golden_pointers_are_read() -> None:
    for kind in OPTIONS:
        pointer = read_pointer(store_of(GOLDEN / kind.value))  # type: ignore[arg-type]
        assert pointer is not None
        assert (pointer.version, pointer.format, pointer.num_files, pointer.created_time) == (VERSION, kind.value, len(ADDS), NOW_MS)


def test_a_checkpoint_without_a_protocol() -> None:
    """For a table without a protocol action (PRT-05)."""
    store = MemoryStore()
    options = CheckpointOptions.of(Config.of(OPTIONS[Format.JSON]))
    any_format.write_checkpoint(log_of(store), replace(contents(Format.JSON), protocol=None), options)
    assert b'"protocol"' not in _text(store.files[names.checkpoint_path(VERSION)])
    replay, _ = any_format.read_checkpoint(log_of(store), log_of(store).listing(), VERSION)
    assert replay.protocol is None


def _text(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
