"""Reading Avro states: paths, tombstones, registry, metadata from older files, and refusals (AVR-01 … AVR-09, C-28, C-38 … C-46)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from tests.support.loading import loaded
from tests.support.logs import add, log_folder, metadata, paths, protocol, skip
from tests.support.states import COMPANION, FILE_ENTRY, entry, write_manifest, write_state, write_table_state
from tests.support.tables import rows, write_version


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_version(tmp_path, 0, protocol(4, 4), metadata())
    return log_folder(tmp_path)


def test_the_newest_state_is_the_table(log: Path, tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write_table_state(log, version, [f"f{n}" for n in range(version)])
    assert {v: paths(it.open(tmp_path, v)) for v in range(4)} == {0: [], 1: ["f0"], 2: ["f0", "f1"], 3: ["f0", "f1", "f2"]}
    assert it.open(tmp_path).version == 3


def test_versions_after_a_state_are_replayed(log: Path, tmp_path: Path) -> None:
    write_table_state(log, 1, ["a"])
    write_version(tmp_path, 2, add("b"), {"remove": {"path": "a"}})
    table = it.open(tmp_path)
    assert (table.version, paths(table)) == (2, ["b"])
    assert table.files().column("added_at_version").to_pylist() == [2]


def test_a_version_file_before_the_newest_state_is_ignored(log: Path, tmp_path: Path) -> None:
    """Native writers leave such files on a table of states: version 1 next to state 5."""
    write_table_state(log, 5, ["a"])
    write_version(tmp_path, 1, add("lost"))
    assert (it.open(tmp_path).version, paths(it.open(tmp_path))) == (5, ["a"])


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_codecs(log: Path, tmp_path: Path, codec: str) -> None:
    write_manifest(log, "manifests/manifest-1.avro", [entry(f"f{n:05d}") for n in range(2000)], codec=codec)
    write_state(log, 1, {"manifests/manifest-1.avro": 2000})
    assert paths(it.open(tmp_path)) == [f"f{n:05d}" for n in range(2000)]


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize(
    ("named", "lies"),
    [
        ("manifests/manifest-a.avro", "manifests/manifest-a.avro"),
        ("state-v00000000000000000001/manifest-a.avro", "state-v00000000000000000001/manifest-a.avro"),
        ("manifest-a.avro", "state-v00000000000000000002/manifest-a.avro"),
    ],
)
def test_manifest_paths_are_resolved(log: Path, tmp_path: Path, form: str, named: str, lies: str) -> None:
    write_manifest(log, lies, [entry("a"), entry("b")])
    write_state(log, 2, {named: 2}, form=form)
    assert paths(it.open(tmp_path)) == ["a", "b"]


def test_live_files_are_entries_without_tombstones(log: Path, tmp_path: Path) -> None:
    write_manifest(log, "manifests/m1.avro", [entry("a"), entry("b")])
    write_manifest(log, "manifests/m2.avro", [entry("c")])
    write_state(log, 2, {"manifests/m1.avro": 2, "manifests/m2.avro": 1}, tombstones=["b"])
    assert paths(it.open(tmp_path)) == ["a", "c"]


def test_a_tombstone_without_an_entry_is_tolerated(log: Path, tmp_path: Path) -> None:
    write_manifest(log, "manifests/m1.avro", [entry("a"), entry("b")])
    write_state(log, 2, {"manifests/m1.avro": 2}, tombstones=["gone"])
    assert paths(it.open(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("key", ["h1", "docMappingSchema.h1"])
def test_doc_mappings_are_restored(log: Path, tmp_path: Path, key: str) -> None:
    write_manifest(log, "manifests/m1.avro", [entry("a", docMappingRef="h1"), entry("b", docMappingRef="unknown"), entry("c")])
    write_state(log, 1, {"manifests/m1.avro": 3}, schemaRegistry={key: "[1]"})
    found = loaded(it.open(tmp_path)).adds()
    assert [(add.doc_mapping_ref, add.doc_mapping_json) for add in found] == [("h1", "[1]"), ("unknown", None), (None, None)]


@pytest.mark.parametrize("wrap", [True, False])
def test_metadata_of_the_state_wins_over_version_0(log: Path, tmp_path: Path, wrap: bool) -> None:
    newer = metadata(name="newer")
    write_table_state(log, 1, ["a"], metadata=json.dumps(newer if wrap else newer["metaData"]))
    assert it.open(tmp_path).metadata.name == "newer"


def test_metadata_is_searched_backward(log: Path, tmp_path: Path) -> None:
    write_table_state(log, 1, ["a"], metadata=json.dumps(metadata(name="of state 1")))
    write_table_state(log, 2, ["a", "b"])
    write_table_state(log, 3, ["a", "b", "c"])
    assert it.open(tmp_path).metadata.name == "of state 1"
    write_version(tmp_path, 2, metadata(name="of version 2"))
    assert it.open(tmp_path).metadata.name == "of version 2"
    write_version(tmp_path, 4, metadata(name="of version 4"))
    assert it.open(tmp_path).metadata.name == "of version 4"


def test_the_protocol_of_the_log_applies_to_a_state_without_one(log: Path, tmp_path: Path) -> None:
    write_version(tmp_path, 1, protocol(4, 4, readerFeatures=["fromTheFuture"]))
    write_table_state(log, 2, ["a"], metadata=json.dumps(metadata()))
    with pytest.raises(it.ProtocolUnsupported, match="fromTheFuture to read"):
        it.open(tmp_path)


@pytest.mark.parametrize("own", [{}, {"protocol": json.dumps(protocol(4, 4)["protocol"])}])
def test_a_state_with_an_unsupported_protocol_version_is_refused(log: Path, tmp_path: Path, own: dict[str, str]) -> None:
    """It was read as protocol 4."""
    write_table_state(log, 1, ["a"], protocolVersion=9, metadata=json.dumps(metadata()), **own)
    with pytest.raises(it.ProtocolUnsupported, match="needs protocol 9 to read"):
        it.open(tmp_path)
    with pytest.raises(it.ProtocolUnsupported, match="needs protocol 9 to read"):
        it.repair(tmp_path, tmp_path / "new")


def test_a_state_raises_an_older_protocol(tmp_path: Path) -> None:
    write_version(tmp_path, 0, protocol(2, 2), metadata())
    write_table_state(log_folder(tmp_path), 1, ["a"])
    assert it.open(tmp_path).protocol.min_reader_version == 4


def test_a_state_alone_is_a_table_if_it_has_metadata(tmp_path: Path) -> None:
    log = log_folder(tmp_path)
    write_table_state(log, 7, ["a"], metadata=json.dumps(metadata()))
    assert (it.open(tmp_path).version, paths(it.open(tmp_path))) == (7, ["a"])
    write_table_state(log, 8, ["a"])
    (log / "state-v00000000000000000007" / "_manifest.avro").unlink()
    with pytest.raises(it.LogCorrupted, match="no metadata found"):
        it.open(tmp_path)


def test_our_extensions_are_read(log: Path, tmp_path: Path) -> None:
    own = protocol(4, 4, readerFeatures=["arrowRowStore"], writerFeatures=["arrowRowStore"])["protocol"]
    txn = [{"appId": "app", "version": 7, "lastUpdated": 1}]
    skips = [skip("a", retryAfter=99, skipCount=3)["mergeskip"]]
    as_text = {"protocol": json.dumps(own), "txn": json.dumps(txn), "mergeskip": json.dumps(skips)}
    write_table_state(log, 1, ["a"], **as_text)
    write_table_state(log, 2, ["a"], form="json", protocol=own, txn=txn, mergeskip=skips)
    for version in (1, 2):
        snapshot = it.open(tmp_path, version)._snapshot
        assert snapshot.protocol.reader_features == ["arrowRowStore"]
        assert (snapshot.txns["app"].version, snapshot.skips["a"].count, snapshot.skips["a"].retry_after) == (7, 3, 99)


@pytest.mark.parametrize("more", [[], COMPANION, [*COMPANION, {"name": "tags", "type": ["null", FILE_ENTRY["fields"][1]["type"]]}]])
def test_other_field_sets_are_read_by_name(log: Path, tmp_path: Path, more: list[Any]) -> None:
    schema = {**FILE_ENTRY, "fields": [*reversed(FILE_ENTRY["fields"]), *more]}
    extra = {"tags": {"k": "v"}} if any(f["name"] == "tags" for f in more) else {}
    write_manifest(log, "manifests/m.avro", [entry("a", **extra)], schema=schema)
    write_state(log, 1, {"manifests/m.avro": 1})
    assert next(iter(loaded(it.open(tmp_path)).adds())).tags == (extra.get("tags") or None)


def test_a_copied_state_folder_is_a_broken_state(log: Path, tmp_path: Path) -> None:
    write_manifest(log, "manifests/m.avro", [entry("a")])
    write_state(log, 1, {"manifests/m.avro": 1}, folder=2)
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 2"):
        it.open(tmp_path)


@pytest.mark.parametrize("declared", [0, 1, 3, 50_000])
def test_a_wrong_entry_count_is_a_broken_state(log: Path, tmp_path: Path, declared: int) -> None:
    write_manifest(log, "manifests/m.avro", [entry("a"), entry("b")])
    write_state(log, 1, {"manifests/m.avro": declared})
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 1"):
        it.open(tmp_path)


@pytest.mark.parametrize("declared", [0, 1, 3])
def test_a_wrong_file_count_is_a_broken_state(log: Path, tmp_path: Path, declared: int) -> None:
    write_manifest(log, "manifests/m.avro", [entry("a"), entry("b")])
    write_state(log, 1, {"manifests/m.avro": 2}, numFiles=declared)
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 1"):
        it.open(tmp_path)


@pytest.mark.parametrize(
    ("manifests", "more"),
    [
        ({"manifests/missing.avro": 1}, {}),
        ({"manifests/m.avro": 1}, {"formatVersion": 2}),
        ({"manifests/m.avro": 1}, {"metadata": "{"}),
        ({"manifests/m.avro": 1}, {"metadata": "[]"}),
        ({"manifests/m.avro": 1}, {"metadata": '{"metaData":{}}'}),
        ({"manifests/m.avro": 1}, {"protocol": "{}"}),
        ({"manifests/m.avro": 1}, {"txn": "{}"}),
        ({"manifests/m.avro": 1}, {"mergeskip": "[1]"}),
    ],
)
def test_a_broken_newest_state_never_falls_back_to_an_older_version(
    log: Path, tmp_path: Path, manifests: dict[str, int], more: dict[str, Any]
) -> None:
    write_table_state(log, 1, ["old"])
    write_manifest(log, "manifests/m.avro", [entry("a")])
    write_state(log, 2, manifests, **more)
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 2"):
        it.open(tmp_path)
    with pytest.raises(it.LogCorrupted, match=r"version 2 .* cannot be read"):
        it.open(tmp_path, 2)
    assert paths(it.open(tmp_path, 1)) == ["old"]


def test_a_broken_state_is_ignored_if_the_version_files_exist(log: Path, tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write_version(tmp_path, version, add(f"f{version}"))
    write_state(log, 2, {"manifests/missing.avro": 1})
    table = it.open(tmp_path)
    assert paths(table) == ["f1", "f2", "f3"]
    assert "failed to read checkpoint at version 2" in table.warnings[0]


def test_a_path_twice_in_a_manifest_is_refused(log: Path, tmp_path: Path) -> None:
    write_manifest(log, "manifests/m.avro", [entry("a"), entry("a")])
    write_state(log, 1, {"manifests/m.avro": 2})
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 1"):
        it.open(tmp_path)


def _bad_schemas() -> list[Any]:
    def with_field(kind: Any) -> Any:
        schema = copy.deepcopy(FILE_ENTRY)
        schema["fields"].append({"name": "odd", "type": kind})
        return schema

    return [
        with_field(["null", "FileEntry"]),  # an endless list
        with_field({"type": "array", "items": "null"}),  # zero-byte items
        with_field(["null", {"type": "fixed", "name": "f", "size": 4}]),
        with_field(["null", {"type": "enum", "name": "e", "symbols": ["A"]}]),
    ]


@pytest.mark.parametrize("schema", _bad_schemas())
def test_unsupported_schemas_are_refused(log: Path, tmp_path: Path, schema: Any) -> None:
    odd = [] if isinstance(schema["fields"][-1]["type"], dict) else None
    write_manifest(log, "manifests/m.avro", [entry("a", odd=odd)], schema=schema)
    write_state(log, 1, {"manifests/m.avro": 1})
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 1"):
        it.open(tmp_path)


def test_refresh_sees_states_and_versions_that_follow(log: Path, tmp_path: Path) -> None:
    write_table_state(log, 1, ["a"])
    table = it.open(tmp_path)
    write_table_state(log, 2, ["a", "b"])
    assert (table.refresh().version, paths(table)) == (2, ["a", "b"])
    write_version(tmp_path, 3, add("c"))
    assert (table.refresh().version, paths(table)) == (3, ["a", "b", "c"])
    assert table.refresh().version == 3


def test_take_over_commits_after_the_newest_state(tmp_path: Path) -> None:
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    write_version(tmp_path, 0, protocol(4, 4), metadata(schemaString=schema))
    write_table_state(log_folder(tmp_path), 15, ["part-a.split"])
    table = it.open(tmp_path, options={"storage.takeOver": "true"})
    report = table.append([{"id": row["id"]} for row in rows(0, 3)])
    assert (report.version, table.version) == (16, 16)
    assert table.protocol.reader_features == table.protocol.writer_features == ["arrowRowStore", "schemaDeduplication"]
    assert len(paths(table)) == 2
    again = it.open(tmp_path)
    assert again.append([{"id": 9}]).version == 17
    assert again.checkpoint().status == "success"
    assert (it.open(tmp_path).version, len(paths(it.open(tmp_path)))) == (18, 3)  # the state was preceded by a protocol upgrade
    assert it.open(tmp_path).protocol.reader_features == ["arrowRowStore", "avroState", "schemaDeduplication"]


def test_log_commit_needs_no_take_over(log: Path, tmp_path: Path) -> None:
    write_table_state(log, 15, ["part-a.split"])
    table = it.open(tmp_path)
    assert table.log.commit([add("part-b.split")]) == 16
    assert paths(it.open(tmp_path)) == ["part-a.split", "part-b.split"]
    assert table.protocol.reader_features is None
