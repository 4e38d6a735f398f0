"""A checkpoint upgrades tables of every protocol to V4 without changing data; `state.format=json` goes back (MIG-01, MIG-03, MIG-05)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import indextables as it
from indextables.state.checkpoints.contents import Format
from tests.support.checkpoints import EVERY_FORMAT
from tests.support.tables import ids, make, rows

LOG = "_transaction_log"


def json_table(path: Path, protocol: dict[str, object] | None) -> it.Table:
    """A table with this protocol, or without one, as older programs wrote it."""
    make(path, appends=3, **{"state.format": "json", "checkpoint.enabled": "false"})
    zero = path / LOG / f"{0:020d}.json"
    _, metadata = gzip.decompress(zero.read_bytes()).splitlines(keepends=True)
    settings = json.loads(metadata)
    settings["metaData"]["configuration"] = {}
    first = b"" if protocol is None else json.dumps({"protocol": protocol}).encode() + b"\n"
    zero.write_bytes(first + json.dumps(settings).encode() + b"\n")
    return it.open(path)


OURS, SEEDS = ["arrowRowStore"], ["multiPartCheckpoint", "schemaDeduplication"]
PROTOCOLS = {
    "none": None,
    "V1": {"minReaderVersion": 1, "minWriterVersion": 1},
    "V2": {"minReaderVersion": 2, "minWriterVersion": 2},
    "V3": {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": OURS, "writerFeatures": OURS},
    "V3 of others": {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": SEEDS, "writerFeatures": SEEDS},
    "V3 without features": {"minReaderVersion": 3, "minWriterVersion": 3},
}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_checkpoint_upgrades_to_v4_and_json_goes_back(tmp_path: Path, protocol: dict[str, object] | None) -> None:
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
    assert "avroState" in (upgraded.protocol.reader_features or ())
    assert ids(upgraded) == before == list(range(30))
    assert {path: path.read_bytes() for path in (tmp_path / "t").rglob("*.split")} == splits, "no data was changed"
    back = it.open(tmp_path / "t", options={"state.format": "json"})
    back.append(rows(30, 5))
    back.checkpoint()
    assert json.loads((tmp_path / "t" / LOG / "_last_checkpoint").read_bytes())["format"] == "json"
    assert ids(it.open(tmp_path / "t")) == list(range(35))
    assert ids(it.open(tmp_path / "t", 3)) == list(range(30)), "every earlier version is still readable"


@pytest.mark.parametrize("name", ["V3 of others", "V3 without features"])
def test_a_foreign_table_is_taken_over_only_when_its_program_cannot_read_it_any_more(tmp_path: Path, name: str) -> None:
    """MIG-01: CHECKPOINT upgrades a V3 table to V4. Its program reads `_manifest.avro`, but not our JSON checkpoints."""
    table = json_table(tmp_path / "t", PROTOCOLS[name])
    report = table.checkpoint()
    upgraded = it.open(tmp_path / "t")
    assert (report.status, report.version, upgraded.protocol.min_reader_version) == ("success", 4, 4)
    assert not {"arrowRowStore"} & set(upgraded.protocol.reader_features or ())
    state = tmp_path / "t" / LOG / f"state-v{4:020d}"
    assert sorted(path.name for path in state.iterdir()) == ["_manifest.avro", "_manifest.json"]
    assert (ids(upgraded), upgraded.checkpoint().status) == (list(range(30)), "no_action")
    back = it.open(tmp_path / "t", options={"state.format": "json"})
    assert back.checkpoint().status == "success"
    assert "arrowRowStore" in (it.open(tmp_path / "t").protocol.reader_features or ()), "its program would miss rows"
    assert json.loads((tmp_path / "t" / LOG / "_last_checkpoint").read_bytes())["format"] == "json"
    assert ids(it.open(tmp_path / "t")) == list(range(30))


@pytest.mark.parametrize("kind", EVERY_FORMAT)
def test_a_lost_pointer_is_restored(tmp_path: Path, kind: Format) -> None:
    """LCP-02, MPC-02: with parts, id or folder of the existing checkpoint, which is not written again."""
    options = {"checkpoint.enabled": "false", **EVERY_FORMAT[kind]}
    make(tmp_path / "t", appends=3, **options).checkpoint()
    table, place = it.open(tmp_path / "t", options=options), tmp_path / "t" / LOG / "_last_checkpoint"
    before = json.loads(place.read_bytes())
    place.unlink()
    assert (table.checkpoint().metrics["bytes_written"], table.checkpoint().status) == (0, "no_action")
    assert {**json.loads(place.read_bytes()), "createdTime": 0} == {**before, "createdTime": 0}


def test_one_version_can_have_checkpoints_in_all_formats(tmp_path: Path) -> None:
    """MIG-01, MIG-03: the pointer and DESCRIBE show the format that was requested last, even if that checkpoint existed before."""
    make(tmp_path / "t", appends=3)
    formats_in_pointer = []
    for form in ("avro", "json", "parquet", "avro", "json"):
        it.open(tmp_path / "t", options={"state.format": form}).checkpoint()
        pointer = json.loads((tmp_path / "t" / LOG / "_last_checkpoint").read_bytes())
        described = it.sql(f"DESCRIBE INDEXTABLES STATE '{tmp_path / 't'}'").to_pylist()[0]
        assert (pointer["version"], pointer["format"]) == (described["version"], described["format"])
        assert ("stateDir" in pointer, described["num_manifests"]) == ((True, 1) if form == "avro" else (False, 0))
        formats_in_pointer.append(pointer["format"])
    assert formats_in_pointer == ["avro-state", "json", "parquet", "avro-state", "json"]
    assert ids(it.open(tmp_path / "t")) == list(range(30))


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_a_broken_checkpoint_is_replaced_even_if_another_format_is_valid(tmp_path: Path, form: str) -> None:
    """PQC-15."""
    make(tmp_path / "t", appends=3)
    for one in ("avro", "json", "parquet", form):
        it.open(tmp_path / "t", options={"state.format": one}).checkpoint()
    log = tmp_path / "t" / LOG
    places = {
        "avro": log / f"state-v{3:020d}" / "_manifest.json",
        "json": log / f"{3:020d}.checkpoint.json",
        "parquet": log / "_checkpoints" / f"{3:020d}.checkpoint.parquet",
    }
    places[form].write_bytes(places[form].read_bytes()[:-9])
    asked = it.open(tmp_path / "t", options={"state.format": form})
    assert (ids(asked), asked.checkpoint().status, asked.checkpoint().status) == (list(range(30)), "success", "no_action")
    for other in set(places) - {form}:
        places[other].unlink()
    for number in (1, 2):
        (log / f"{number:020d}.json").unlink()
    assert ids(it.open(tmp_path / "t")) == list(range(30))


def test_a_state_in_json_form_gets_the_avro_form_on_request(tmp_path: Path) -> None:
    """C-40: for upstream 0.5 and later. Both share the manifests, and repeating the request does nothing."""
    make(tmp_path / "t", appends=3).checkpoint()
    asked = it.open(tmp_path / "t", options={"state.manifestFormat": "avro"})
    report = asked.checkpoint()
    assert (report.status, report.metrics["manifests_written"], report.metrics["manifests_reused"]) == ("success", 0, 1)
    state = tmp_path / "t" / LOG / f"state-v{3:020d}"
    assert sorted(path.name for path in state.iterdir()) == ["_manifest.avro", "_manifest.json"]
    for form in ("_manifest.json", "_manifest.avro"):
        assert asked.checkpoint().status == "no_action"
        assert it.open(tmp_path / "t", options={"state.manifestFormat": form.rpartition(".")[2]}).checkpoint().status == "no_action"
        hidden = (state / form).rename(tmp_path / "hidden")
        assert ids(it.open(tmp_path / "t")) == list(range(30))
        hidden.rename(state / form)
