"""R15 for the log: any bytes in its files raise only LogCorrupted, and a damaged state is never partially read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.actions import Add
from indextables.actions.codec import decode_actions
from indextables.actions.columns import encode
from indextables.actions.replay import Replay
from indextables.errors import LogCorrupted
from indextables.log import names, packing
from indextables.log.log import ReadSettings, TransactionLog
from indextables.log.names import LogListing
from indextables.paths import TableRoot
from indextables.state.checkpoints.any_format import read_json
from indextables.state.checkpoints.avro import manifests
from indextables.state.checkpoints.avro.read import read_state
from indextables.state.checkpoints.parquet import read_parquet
from indextables.state.pointer import Pointer, read_pointer
from tests.support.logs import add, lines, metadata, protocol, remove, skip
from tests.support.states import FILE_ENTRY, STATE, entry, packed, state_document

ROOT = TableRoot("/table")
EXAMPLES = 2000


class Bytes:
    """A store of a few files in memory, with the operations that readers of the log use."""

    root = ROOT

    def __init__(self, **held: bytes) -> None:
        self.held = held

    def read(self, path: str) -> bytes:
        try:
            return self.held[path.rsplit("/", 1)[1]]
        except KeyError:
            raise FileNotFoundError(path) from None

    def list(self, folder: str) -> list[Any]:
        return []


def golden_store(name: str) -> dict[str, bytes]:
    folder = Path(__file__).resolve().parents[1] / "golden" / name
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


VERSION = lines(
    protocol(), metadata(), add("a", minValues={"id": "1"}, numRecords=3), remove("b"), skip("c"), {"txn": {"appId": "x", "version": 1}}
)
POINTER = json.dumps(
    {"version": 1, "size": 2, "sizeInBytes": 3, "numFiles": 4, "createdTime": 5, "format": "avro-state", "stateDir": "s"}
).encode()
ENTRIES = [entry(f"part-{n}.split", minValues={"id": str(n)}, splitTags=["x"], numMergeOps=n) for n in range(20)]
MANIFEST = {codec: packed(FILE_ENTRY, ENTRIES, codec) for codec in ("null", "deflate", "zstandard", "snappy")}
STATE_FILE = packed(STATE, [state_document(1, {"manifests/m.avro": 20}, metadata=json.dumps(metadata()))], "null")


@st.composite
def damaged(draw: st.DrawFn, originals: tuple[bytes, ...]) -> bytes:
    """One of the originals with bytes changed, removed, repeated or inserted, or entirely replaced."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 16))
        change = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "truncate", "replace"]))
        if change == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del data[at : at + length]
        elif change == "insert":
            data[at:at] = draw(st.binary(max_size=16))
        elif change == "repeat":
            data[at:at] = data[at : at + length]
        elif change == "truncate":
            del data[at:]
        elif change == "replace":
            data = bytearray(draw(st.binary(max_size=64)))
    return bytes(data)


JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["add", "remove", "path", "size", "metaData", "version", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())


def _is_read(read: Any) -> bool:
    """Whether reading succeeds. Errors other than LogCorrupted fail the test."""
    try:
        read()
    except LogCorrupted:
        return False
    return True


@settings(max_examples=EXAMPLES)
@given(damaged((VERSION, gzip.compress(VERSION), b"\x01\x01" + gzip.compress(VERSION))) | JSON_TEXT)
def test_a_damaged_version_file_is_read_or_refused(data: bytes) -> None:
    _is_read(lambda: decode_actions(packing.unpack(data, "version 1"), "version 1"))


@settings(max_examples=EXAMPLES)
@given(damaged((gzip.compress(VERSION, mtime=0),)))
def test_a_damaged_gzip_is_refused_or_gives_the_original_actions(data: bytes) -> None:
    original = decode_actions(VERSION, "x").actions
    try:
        actions = decode_actions(packing.unpack(data, "version 1"), "version 1").actions
    except LogCorrupted:
        return
    assert actions in ([], original) or not data.startswith(b"\x1f\x8b")


@settings(max_examples=EXAMPLES)
@given(damaged((POINTER, b'{"version":7}')) | JSON_TEXT)
def test_a_damaged_pointer_is_read_or_ignored(data: bytes) -> None:
    assert isinstance(read_pointer(Bytes(_last_checkpoint=data)), Pointer | None)  # type: ignore[arg-type]


@settings(max_examples=EXAMPLES)
@given(damaged((VERSION, gzip.compress(VERSION), json.dumps({"add": [], **metadata()}).encode(), b'{"parts":["x"]}')) | JSON_TEXT)
def test_a_damaged_checkpoint_is_read_or_refused(data: bytes) -> None:
    store = Bytes(**{names.checkpoint_path(1).rsplit("/", 1)[1]: data})
    _is_read(lambda: read_json(store, 1, ROOT.relative))  # type: ignore[arg-type]


OURS = golden_store("json")
PARTS = golden_store("json-multipart")
PARQUET = golden_store("parquet")
LIST, PART = (next(path for path in PARTS if path.endswith(ending)) for ending in ("0042.checkpoint.json", ".00002.json"))
FOREIGN_LIST = json.dumps({"version": 42, "parts": [PART.rsplit("/", 1)[1].replace("00002", "00001"), PART.rsplit("/", 1)[1]]}).encode()
ROWS, DESCRIBED = names.parquet_path(42), names.parquet_metadata_path(42)
FOREIGN_DESCRIBED = b'{"version":42,"size":2,"createdTime":5}'


def _store_of(held: dict[str, bytes], **changed: bytes) -> Bytes:
    return Bytes(**{path.rsplit("/", 1)[1]: data for path, data in {**held, **changed}.items()})


@settings(max_examples=EXAMPLES)
@given(damaged((OURS[names.checkpoint_path(42)], gzip.decompress(OURS[names.checkpoint_path(42)]))))
def test_a_damaged_checkpoint_of_ours_is_read_or_refused(data: bytes) -> None:
    _is_read(lambda: read_json(_store_of({}, **{names.checkpoint_path(42): data}), 42, ROOT.relative))  # type: ignore[arg-type]


@settings(max_examples=EXAMPLES)
@given(damaged((PARTS[LIST], FOREIGN_LIST)) | JSON_TEXT)
def test_a_damaged_list_of_parts_is_read_or_refused(data: bytes) -> None:
    _is_read(lambda: read_json(_store_of(PARTS, **{LIST: data}), 42, ROOT.relative))  # type: ignore[arg-type]


@settings(max_examples=EXAMPLES)
@given(damaged((PARTS[PART], gzip.decompress(PARTS[PART]))))
def test_a_damaged_part_without_a_digest_is_read_or_refused(data: bytes) -> None:
    _is_read(lambda: read_json(_store_of(PARTS, **{LIST: FOREIGN_LIST, PART: data}), 42, ROOT.relative))  # type: ignore[arg-type]


@settings(max_examples=EXAMPLES)
@given(damaged((PARQUET[DESCRIBED], FOREIGN_DESCRIBED)) | JSON_TEXT)
def test_damaged_metadata_of_a_parquet_checkpoint_is_read_or_refused(data: bytes) -> None:
    _is_read(lambda: read_parquet(_store_of(PARQUET, **{DESCRIBED: data}), 42, ROOT.relative))  # type: ignore[arg-type]


@settings(max_examples=EXAMPLES)
@given(damaged((PARQUET[ROWS],)))
def test_a_damaged_parquet_file_without_a_digest_is_read_or_refused(data: bytes) -> None:
    _is_read(lambda: read_parquet(_store_of(PARQUET, **{DESCRIBED: FOREIGN_DESCRIBED, ROWS: data}), 42, ROOT.relative))  # type: ignore[arg-type]


def test_a_parquet_string_that_is_not_utf8_is_refused() -> None:
    rows = pq.ParquetFile(pa.BufferReader(PARQUET[ROWS])).read()
    at = rows.schema.get_field_index("metadataId")
    bad = pa.array([b"\xb0"] * rows.num_rows).view(pa.string())
    written = pa.BufferOutputStream()
    pq.write_table(rows.set_column(at, rows.schema.field(at), bad), written)
    held = _store_of(PARQUET, **{DESCRIBED: FOREIGN_DESCRIBED, ROWS: written.getvalue().to_pybytes()})
    with pytest.raises(LogCorrupted, match="is damaged"):
        read_parquet(held, 42, ROOT.relative)  # type: ignore[arg-type]


def _state_of(store: Bytes) -> Replay:
    """Reads the state of version 1, with its manifest in the listing."""
    log = TransactionLog(store, ReadSettings(cache_ms=0, manifests=1))  # type: ignore[arg-type]
    return read_state(log, LogListing((), (), False, (1,), stamps={"manifests/m.avro": (0, 0)}), 1)


@settings(max_examples=EXAMPLES)
@given(damaged((STATE_FILE, packed(STATE, [state_document(1, {"manifests/m.avro": 20})]))))
def test_a_damaged_state_manifest_is_read_or_refused(data: bytes) -> None:
    store = Bytes(**{"_manifest.avro": data, "m.avro": MANIFEST["zstandard"]})
    _is_read(lambda: _state_of(store))


@settings(max_examples=EXAMPLES)
@given(damaged((json.dumps(state_document(1, {"manifests/m.avro": 20})).encode(),)) | JSON_TEXT)
def test_a_damaged_state_manifest_in_json_is_read_or_refused(data: bytes) -> None:
    store = Bytes(**{"_manifest.json": data, "m.avro": MANIFEST["zstandard"]})
    _is_read(lambda: _state_of(store))


@settings(max_examples=EXAMPLES)
@given(damaged(tuple(MANIFEST.values())))
def test_a_damaged_manifest_is_read_or_refused(data: bytes) -> None:
    """Avro has no checksums, so a flipped bit may give another value; the number of entries always matches the state."""
    store = Bytes(**{"_manifest.avro": STATE_FILE, "m.avro": data})
    replay: list[Any] = []
    if _is_read(lambda: replay.append(_state_of(store))):
        assert replay[0].num_files == len(ENTRIES)


@settings(max_examples=200)
@given(st.sampled_from(sorted(MANIFEST)), st.integers(0, 4000))
def test_a_truncated_manifest_is_refused(codec: str, length: int) -> None:
    data = MANIFEST[codec][:length]
    if len(data) < len(MANIFEST[codec]):
        assert not _is_read(lambda: _state_of(Bytes(**{"_manifest.avro": STATE_FILE, "m.avro": data})))


OUR_ENTRIES = encode([msgspec.convert(fields, Add) for fields in ENTRIES])
OWN_MANIFESTS = tuple(
    manifests.assemble(manifests.encode_blocks(OUR_ENTRIES, packing), packing)
    for packing in (manifests.Packing(c, 3) for c in ("null", "zstandard"))
)


@settings(max_examples=EXAMPLES)
@given(damaged(OWN_MANIFESTS))
def test_a_damaged_manifest_of_ours_is_read_or_refused(data: bytes) -> None:
    """The digest is not checked here, since a hostile writer can compute it: the columnar reader raises only LogCorrupted."""
    found: list[Any] = []
    if _is_read(lambda: found.append(manifests.decode_manifest(data, len(ENTRIES), ROOT.relative, "m"))):
        assert found[0][0].num_rows == len(ENTRIES)
