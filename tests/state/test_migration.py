"""Tables of every protocol become V4 by a checkpoint, without touching data; `state.format=json` goes back (MIG-01, MIG-03, MIG-05)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import indextables as it
from tests.support.tables import ids, make, rows

LOG = "_transaction_log"


def json_table(path: Path, protocol: dict[str, object] | None) -> it.Table:
    """Of this protocol, or none at all, as older programs left them."""
    make(path, appends=3, **{"state.format": "json", "checkpoint.enabled": "false"})
    zero = path / LOG / f"{0:020d}.json"
    _, metadata = gzip.decompress(zero.read_bytes()).splitlines(keepends=True)
    settings = json.loads(metadata)
    settings["metaData"]["configuration"] = {}
    first = b"" if protocol is None else json.dumps({"protocol": protocol}).encode() + b"\n"
    zero.write_bytes(first + json.dumps(settings).encode() + b"\n")
    return it.open(path)


OURS = ["arrowRowStore"]
PROTOCOLS = {
    "none": None,
    "V1": {"minReaderVersion": 1, "minWriterVersion": 1},
    "V2": {"minReaderVersion": 2, "minWriterVersion": 2},
    "V3": {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": OURS, "writerFeatures": OURS},
}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_checkpoint_makes_it_v4_and_json_goes_back(tmp_path: Path, protocol: dict[str, object] | None) -> None:
    table = json_table(tmp_path / "t", protocol)
    splits = {path: path.read_bytes() for path in (tmp_path / "t").rglob("*.split")}
    old = it.open(tmp_path / "t", options={"state.format": "json"})
    old.checkpoint()
    before = ids(table)
    table.checkpoint()
    pointer = json.loads((tmp_path / "t" / LOG / "_last_checkpoint").read_bytes())
    upgraded = it.open(tmp_path / "t")
    assert (pointer["format"], pointer["version"]) == ("avro-state", upgraded.version)
    assert pointer["stateDir"] == f"state-v{upgraded.version:020d}"
    assert (upgraded.protocol.min_reader_version, upgraded.protocol.min_writer_version) == (4, 4)
    assert {"arrowRowStore", "avroState"} <= set(upgraded.protocol.reader_features or ())
    assert ids(upgraded) == before == list(range(30))
    assert {path: path.read_bytes() for path in (tmp_path / "t").rglob("*.split")} == splits, "no data was touched"
    back = it.open(tmp_path / "t", options={"state.format": "json"})
    back.append(rows(30, 5))
    back.checkpoint()
    assert json.loads((tmp_path / "t" / LOG / "_last_checkpoint").read_bytes())["format"] == "json"
    assert ids(it.open(tmp_path / "t")) == list(range(35))
    assert ids(it.open(tmp_path / "t", 3)) == list(range(30)), "and every version before is still read"
