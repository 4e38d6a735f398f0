"""R16: golden files of Avro states decode to the expected values, and the same values encode to these bytes.

A change that breaks this needs new golden files in addition to the old ones, which must remain readable. The golden manifest is not
compressed, because the output of zstd may differ between releases of Arrow.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec import structs

from indextables.actions import Add, columns
from indextables.actions.columns import encode
from indextables.state.checkpoints.avro import manifests
from indextables.state.checkpoints.avro.manifests import Packing, decode_manifest
from indextables.state.checkpoints.avro.state_files import StateManifest, encode_json, read_state_manifest
from tests.support.memory_store import MemoryStore

GOLDEN = Path(__file__).parents[1] / "golden" / "avro"
PLAIN = Packing("null", 3)


def golden_adds() -> list[Add]:
    return msgspec.json.decode((GOLDEN / "adds.json").read_bytes(), type=list[Add])


def read(data: bytes, count: int) -> list[Add]:
    return list(columns.decode(decode_manifest(data, count, lambda path: path, "golden")[0]))


def test_manifest() -> None:
    data = (GOLDEN / "manifest-v2.avro").read_bytes()
    first, *others = golden_adds()
    expected = [structs.replace(first, added_at_timestamp=1_704_067_201_234), *others]
    assert read(data, len(expected)) == expected
    assert manifests.assemble(manifests.encode_blocks(encode(expected), PLAIN), PLAIN) == data


def test_the_first_manifest() -> None:
    """It contains the time of each file instead of the time of its commit (AVR-09)."""
    data = (GOLDEN / "manifest-v1.avro").read_bytes()
    expected = [structs.replace(add, added_at_timestamp=add.modification_time or None) for add in golden_adds()]
    assert read(data, len(expected)) == expected
    assert manifests.path_of(data) == json.loads((GOLDEN / "state-v1.json").read_bytes())["manifests"][0]["path"]


def test_state_manifests() -> None:
    text = (GOLDEN / "state-v1.json").read_bytes()
    state = msgspec.json.decode(text, type=StateManifest)
    assert encode_json(state) == text
    store = MemoryStore()
    place = "_transaction_log/state-v00000000000000000042/_manifest"
    found = []
    for form in ("json", "avro"):
        store.files = {f"{place}.{form}": (GOLDEN / f"state-v1.{form}").read_bytes()}
        read = read_state_manifest(store, 42)  # type: ignore[arg-type]
        found.append((read.num_files, read.total_records, read.manifests, read.tombstones, read.schema_registry, read.metadata))
    assert found[0] == found[1]
    assert structs.replace(state, digest=None) == structs.replace(msgspec.json.decode(text, type=StateManifest), digest=None)
