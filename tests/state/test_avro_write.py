"""Writing Avro states: round trips, incremental writes, tombstones, existing states, repair, mixed formats (AVR, C-38 … C-46)."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables as it
from indextables.actions import Add, columns
from indextables.actions.columns import encode
from indextables.log import names
from indextables.state.checkpoints.avro import containers, manifests
from indextables.state.checkpoints.avro.file_loader import is_loaded
from indextables.state.checkpoints.avro.manifests import Packing, decode_manifest
from tests.support.avro_tables import FEATURES, adds, commit, file, manifest_files, replayed, start, state
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.loading import loaded
from tests.support.logs import log_folder, metadata, paths, remove, skip
from tests.support.states import entry, write_manifest, write_state
from tests.support.tables import ids, make, rows, write_version

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
MAPS = st.dictionaries(TEXT, TEXT, max_size=4)
ADDS = st.builds(
    Add,
    path=st.text("abc/=", min_size=1, max_size=6).map(lambda text: f"x{text.replace('/', 'y')}x"),
    partition_values=MAPS,
    size=COUNTS,
    modification_time=LONGS,
    data_change=st.booleans(),
    added_at_version=st.none() | st.integers(1, 2**62),
    added_at_timestamp=st.none() | st.integers(1, 2**62),
    has_footer_offsets=st.none() | st.booleans(),
    num_records=st.none() | COUNTS,
    num_merge_ops=st.none() | st.integers(-(2**31), 2**31 - 1),
    split_tags=st.none() | st.lists(TEXT, max_size=3),
    **{name: st.none() | TEXT for name in ("stats", "time_range_start", "time_range_end", "doc_mapping_json", "doc_mapping_ref")},
    **{name: st.none() | MAPS for name in ("tags", "min_values", "max_values")},
    **{
        name: st.none() | LONGS
        for name in (
            *("footer_start_offset", "footer_end_offset", "hotcache_start_offset"),
            *("hotcache_length", "delete_opstamp", "uncompressed_size_bytes"),
        )
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ADDS, min_size=1, max_size=12, unique_by=lambda add: add.path), st.sampled_from(["zstandard", "snappy", "null"]))
def test_every_field_of_an_add_survives_a_round_trip(given_adds: list[Add], codec: str) -> None:
    """C-38: add -> Avro -> add, by our own reader and by fastavro, which reads record by record."""
    packing = Packing(codec, 3)
    data = manifests.assemble(manifests.encode_blocks(encode(given_adds), packing), packing)
    found, _ = decode_manifest(data, len(given_adds), lambda path: path, "m")
    assert list(columns.decode(found)) == given_adds
    slow = manifests._any_rows(data, len(given_adds), lambda path: path, "m")
    assert list(columns.decode(slow)) == given_adds


def test_every_field_of_an_add_has_an_avro_field() -> None:
    from indextables.state.checkpoints.avro.entry import FIELDS

    assert len(FIELDS) == 26
    assert [(f.name, f.number) for f in FIELDS[:18]] == [
        *(("path", 100), ("partitionValues", 101), ("size", 102), ("modificationTime", 103), ("dataChange", 104), ("stats", 110)),
        *(("minValues", 111), ("maxValues", 112), ("numRecords", 113), ("footerStartOffset", 120), ("footerEndOffset", 121)),
        *(("hasFooterOffsets", 122), ("splitTags", 130), ("numMergeOps", 131), ("docMappingRef", 132)),
        *(("uncompressedSizeBytes", 133), ("addedAtVersion", 140), ("addedAtTimestamp", 141)),
    ]
    assert len({f.number for f in FIELDS}) == len(FIELDS)


def test_a_state_contains_everything_in_the_log(tmp_path: Path) -> None:
    """AVR-01 … AVR-03, AVR-09, AVR-14, A-03 … A-05."""
    table = start(tmp_path / "t")
    commit(table, file("a", 1), file("b", 10), {"txn": {"appId": "app", "version": 7}}, skip("b", retryAfter=2**60))
    commit(table, file("c", 9), remove("a"))
    report = it.open(table).checkpoint()
    assert (report.status.value, report.metrics["num_files"], report.metrics["manifests_written"]) == ("success", 2, 1)
    document = json.loads((log_folder(table) / "state-v00000000000000000002" / "_manifest.json").read_bytes())
    numbers = ("formatVersion", "stateVersion", "version", "numFiles", "totalBytes", "totalRecords", "protocolVersion")
    assert [document[name] for name in numbers] == [1, 2, 2, 2, 2, 2, 4]
    (info,) = document["manifests"]
    assert (info["numEntries"], info["minAddedAtVersion"], info["maxAddedAtVersion"]) == (2, 1, 2)
    assert info["partitionBounds"] == {"p": {"min": "9", "max": "10", "hasNull": False}}  # compared as numbers, not as strings
    manifest = log_folder(table) / info["path"]
    assert info["path"] == manifests.path_of(manifest.read_bytes())
    assert info["sizeBytes"] == manifest.stat().st_size
    assert json.loads(document["metadata"])["metaData"]["partitionColumns"] == ["p"]
    assert (document["txn"][0]["appId"], document["mergeskip"][0]["path"]) == ("app", "b")
    assert document["protocol"]["readerFeatures"] == FEATURES
    pointer = json.loads((log_folder(table) / "_last_checkpoint").read_bytes())
    assert (pointer["format"], pointer["stateDir"], pointer["version"]) == ("avro-state", "state-v00000000000000000002", 2)
    assert adds(table) == replayed(table, tmp_path)


@pytest.mark.parametrize("options", [{}, {"state.manifestFormat": "avro"}, {"state.compression": "snappy"}, {"state.compression": "none"}])
def test_incremental_equals_full(tmp_path: Path, options: dict[str, str]) -> None:
    """AVR-05, AVR-07: after every checkpoint the table equals its version files, and only new entries were written."""
    table = start(tmp_path / "t", **{"state.compaction.tombstoneThreshold": "100", **options})
    commit(table, *(file(f"base{n}", n % 3) for n in range(40)))
    it.open(table).checkpoint()
    for step in range(6):
        gone = [remove(f"base{step}"), remove("never there")] if step % 2 else []
        version = commit(table, *(file(f"new{step}-{n}", step) for n in range(3)), *gone)
        report = it.open(table).checkpoint()
        assert report.metrics["manifests_written"] == 1
        assert report.metrics["manifests_reused"] == step + 1
        assert report.metrics["num_files"] == len(adds(table)) == state(table, version).num_files
        assert adds(table) == replayed(table, tmp_path)
    assert state(table, version).tombstones == ["base1", "base3", "base5"]


def test_a_removed_path_that_is_added_again_is_live(tmp_path: Path) -> None:
    """C-46: removed before the base, after the base, and in the same commit."""
    table = start(tmp_path / "t", **{"state.compaction.tombstoneThreshold": "100"})
    commit(table, file("a", 1), file("b", 1), file("c", 1))
    it.open(table).checkpoint()
    commit(table, remove("a"))
    it.open(table).checkpoint()
    assert state(table, 2).tombstones == ["a"]
    commit(table, file("a", 2), remove("b"), file("c", 5))
    commit(table, file("b", 3))
    assert it.open(table).describe()["num_files"] == 3
    it.open(table).checkpoint()
    assert (state(table, 4).tombstones, state(table, 4).num_files) == ([], 3)
    assert adds(table) == replayed(table, tmp_path)
    assert [a.partition_values["p"] for a in adds(table)] == ["2", "3", "5"]


def test_large_manifests_are_split_by_partition(tmp_path: Path) -> None:
    """AVR-11, CMP-06: manifests of entriesPerManifest entries from few partitions, so that reading one partition needs few manifests."""
    table = start(tmp_path / "t", **{"state.entriesPerManifest": "50"})
    commit(table, *(file(f"f{n}", n % 10) for n in range(500)), file("null", None))
    it.open(table).checkpoint()
    infos = state(table, 1).manifests
    assert len(infos) == 11
    assert max(info.num_entries for info in infos) == 50
    opened = it.open(table)
    found = opened.files("p = 3")
    assert sorted(found.column("path").to_pylist()) == sorted(f"f{n}" for n in range(3, 500, 10))
    base = opened._snapshot.layers.base
    assert base is not None
    assert sum(is_loaded(manifest) for manifest in base.manifests) <= 2
    explained = it.open(table).explain("p = 3")
    assert (explained.manifests_total, explained.manifests_read, explained.files_remaining) == (11, 2, 50)
    assert paths_of(it.open(table), "p IS NULL") == ["null"]  # upstream finds none
    assert len(paths_of(it.open(table), "p >= 8")) == 100


def paths_of(table: it.Table, where: str) -> list[str]:
    return sorted(table.files(where).column("path").to_pylist())


def numbers_of(table: it.Table) -> tuple[int, int]:
    described = table.describe()
    return described["num_files"], described["num_records"]


def test_opening_counting_and_appending_read_no_manifest(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3, **{"checkpoint.enabled": "false"})
    table.checkpoint()
    read: list[str] = []

    def watched(call: Call, perform: Perform) -> Any:
        if call.verb == "read":
            read.append(call.path)
        return perform()

    with intercepting(tmp_path / "t", watched):
        opened = it.open(tmp_path / "t")
        assert numbers_of(opened) == (6, 30)
        opened.append(rows(100, 10))
        again = it.open(tmp_path / "t")
        assert numbers_of(again) == (8, 40)
        assert again.checkpoint().metrics["manifests_reused"] == 1
    assert not [path for path in read if "manifests/" in path and read.count(path) > 1]
    assert len([path for path in read if "manifests/" in path]) == 1  # the new manifest, verified after the write


def test_compaction_rewrites_only_manifests_with_dead_entries(tmp_path: Path) -> None:
    """CMP-01, CMP-06: no live file is lost, no tombstone remains, manifests without dead entries are kept."""
    table = start(tmp_path / "t", **{"state.entriesPerManifest": "100"})
    commit(table, *(file(f"f{n:04d}", n // 100) for n in range(1000)))
    it.open(table).checkpoint()
    before = {info.path for info in state(table, 1).manifests}
    commit(table, *(remove(f"f{n:04d}") for n in range(150, 290)))
    it.open(table).checkpoint()
    after = {info.path for info in state(table, 2).manifests}
    assert state(table, 2).tombstones == []
    assert state(table, 2).num_files == 860
    assert len(before & after) == 8
    assert adds(table) == replayed(table, tmp_path)


def test_blocks_without_dead_entries_are_copied(tmp_path: Path) -> None:
    table = start(tmp_path / "t", **{"state.compaction.tombstoneThreshold": "0.00001"})
    commit(table, *(file(f"f{n:05d}", 1) for n in range(40_000)))
    it.open(table).checkpoint()
    (old,) = manifest_files(table)
    commit(table, remove("f00007"))
    it.open(table).checkpoint()
    (new,) = set(manifest_files(table)) - {old}
    blocks = [manifests.own_blocks(containers.parse(f.read_bytes(), "m"), "m") for f in (old, new)]
    packed = [[block[1] for block in found or ()] for found in blocks]
    assert len(packed[0]) == len(packed[1]) == 3
    assert packed[0][1:] == packed[1][1:]
    assert packed[0][0] != packed[1][0]
    assert len(adds(table)) == 39_999


def test_many_small_manifests_are_merged(tmp_path: Path) -> None:
    """CMP-02."""
    table = start(tmp_path / "t", **{"state.compaction.maxManifests": "4"})
    counts = []
    for step in range(6):
        version = commit(table, file(f"f{step}", step))
        it.open(table).checkpoint()
        counts.append(len(state(table, version).manifests))
    assert counts == [1, 2, 3, 4, 1, 2]
    assert adds(table) == replayed(table, tmp_path)


def test_compaction_on_demand(tmp_path: Path) -> None:
    """CMP-04, CMP-05: as requested by a merge."""
    from indextables.operations.checkpoint import run as operation

    table = start(tmp_path / "t")
    for name in ("a", "b", "c"):
        version = commit(table, file(name, 1))
        opened = it.open(table)
        bound = opened._context.for_table(opened._snapshot)
        operation.run(bound, opened._snapshot, compact=True)
        assert len(state(table, version).manifests) == 1
    assert adds(table) == replayed(table, tmp_path)


def test_legacy_paths_are_normalised(tmp_path: Path) -> None:
    """AVR-06: a manifest in the folder of another program's state is referenced by its path in the log folder."""
    table = start(tmp_path / "t")
    folder = "state-v00000000000000000001"
    write_manifest(log_folder(table), f"{folder}/manifest-a.avro", [entry("a", partitionValues={"p": "1"})])
    write_state(log_folder(table), 1, {"manifest-a.avro": 1}, metadata=json.dumps(metadata(schemaString=_schema(), partitionColumns=["p"])))
    write_version(table, 1)
    (log_folder(table) / "00000000000000000001.json").unlink()
    write_version(table, 2, file("b", 2))
    it.open(table).checkpoint()
    found = state(table, 2)
    assert next(info.path for info in found.manifests) == f"{folder}/manifest-a.avro"
    assert len(found.manifests) == 2
    assert paths(it.open(table)) == ["a", "b"]


def _schema() -> str:
    from tests.support.avro_tables import SCHEMA_STRING

    return SCHEMA_STRING


# ---- protocol and formats


def test_an_older_table_is_upgraded_first(tmp_path: Path) -> None:
    """PRT-08, MIG-01, MIG-05: the upgrade is a version of its own, and no split is changed."""
    table = make(tmp_path / "t", appends=2, **{"state.format": "json", "checkpoint.enabled": "false"})
    assert table.protocol.min_reader_version == 2
    splits = {p: p.stat().st_mtime_ns for p in (tmp_path / "t").rglob("*.split")}
    opened = it.open(tmp_path / "t", options={"state.format": "avro"})
    opened.checkpoint()
    table = it.open(tmp_path / "t")
    assert (table.version, table.protocol.min_reader_version, table.protocol.min_writer_version) == (3, 4, 4)
    assert {"avroState", "arrowRowStore"} <= set(table.protocol.reader_features or ())
    assert state(tmp_path / "t", 3).num_files == 4
    assert splits == {p: p.stat().st_mtime_ns for p in (tmp_path / "t").rglob("*.split")}
    assert len(ids(table)) == 20


def test_new_tables_have_the_protocol_of_their_checkpoint_format(tmp_path: Path) -> None:
    """C-23."""
    found = {form: make(tmp_path / form, **{"state.format": form}).protocol for form in ("avro", "json", "parquet")}
    assert {form: (p.min_reader_version, p.min_writer_version) for form, p in found.items()} == {
        "avro": (4, 4),
        "json": (2, 2),
        "parquet": (2, 2),
    }
    assert found["avro"].reader_features == FEATURES


def test_mixing_checkpoint_formats_hides_nothing(tmp_path: Path) -> None:
    """MIG-03: back to json, and to avro again. In upstream this hides 20 of 30 rows."""
    make(tmp_path / "t", **{"checkpoint.enabled": "false"})
    for number, form in enumerate(["avro", "json", "parquet", "avro", "json", "avro"]):
        table = it.open(tmp_path / "t", options={"state.format": form})
        table.append(rows(number * 10, 10))
        assert table.checkpoint().status.value == "success"
        assert ids(it.open(tmp_path / "t")) == list(range(10 * (number + 1)))
    for name in list(log_folder(tmp_path / "t").glob("0*.json")):
        if len(name.name) == 25 and int(name.name[:20]) > 0:
            name.unlink()  # only the checkpoints remain
    assert ids(it.open(tmp_path / "t")) == list(range(60))


def test_the_first_checkpoint_contains_all_rows(tmp_path: Path) -> None:
    """A table with version files only gets its first checkpoint. In upstream this hides all earlier rows."""
    make(tmp_path / "t", appends=3, **{"checkpoint.enabled": "false"})
    table = it.open(tmp_path / "t", options={"checkpoint.enabled": "true", "checkpoint.interval": "1"})
    table.append(rows(30, 10))
    assert ids(it.open(tmp_path / "t")) == list(range(40))
    assert it.open(tmp_path / "t")._snapshot.checkpoint == table.version


def test_a_checkpoint_reports_its_version(tmp_path: Path) -> None:
    """Upstream reports 0."""
    table = make(tmp_path / "t", appends=2, **{"checkpoint.enabled": "false"})
    assert table.checkpoint().base_version == 2
    assert [p.name for p in log_folder(tmp_path / "t").glob("state-v*")] == [names.state_folder(2)]


# ---- damage


def _other_file_of_same_type(file: Path) -> Path:
    """Another state manifest, or another manifest."""
    return next(other for other in sorted(file.parent.parent.rglob(file.name if file.suffix == ".json" else "manifest-*")) if other != file)


DAMAGES = {
    "missing": lambda f: f.unlink(),
    "empty": lambda f: f.write_bytes(b""),
    "cut": lambda f: f.write_bytes(f.read_bytes()[:-9]),
    "flipped": lambda f: f.write_bytes(f.read_bytes()[:-30] + bytes([f.read_bytes()[-30] ^ 4]) + f.read_bytes()[-29:]),
    "foreign": lambda f: f.write_bytes(b"x" * f.stat().st_size),
    "exchanged": lambda f: f.write_bytes(_other_file_of_same_type(f).read_bytes()),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", ["state", "manifest", "shared manifest"])
def test_a_damaged_state_loses_no_file_and_is_repaired(tmp_path: Path, damage: str, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """R8: a state can be rebuilt from the log; the next checkpoint replaces a damaged one."""
    table = start(tmp_path / "t")
    commit(table, *(file(f"a{n}", n) for n in range(30)))
    it.open(table).checkpoint()
    first = manifest_files(table)
    commit(table, *(file(f"b{n}", n) for n in range(30)))
    it.open(table).checkpoint()
    newer = next(f for f in manifest_files(table) if f not in first)
    places = {"state": log_folder(table) / names.state_folder(2) / "_manifest.json", "manifest": newer, "shared manifest": first[0]}
    expected = adds(table)
    _forget_caches(tmp_path, table)
    DAMAGES[damage](places[what])
    with caplog.at_level(logging.WARNING):
        assert adds(table) == expected
        assert it.open(table).describe()["num_files"] == 60
        assert paths_of(it.open(table), "p = 3") == ["a3", "b3"]
    assert "failed to read" in caplog.text or (what, damage) == ("state", "missing")
    assert it.open(table).checkpoint().status.value == "success"
    caplog.clear()
    _forget_caches(tmp_path, table)
    assert adds(table) == expected
    assert "failed to read" not in caplog.text


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))


def _forget_caches(tmp_path: Path, table: Path) -> None:
    it.open(table)._context.log.close()
    for found in (tmp_path / "cache").rglob("*.arrow"):
        found.unlink()


def test_a_damaged_state_after_expired_versions_is_an_error(tmp_path: Path) -> None:
    table = start(tmp_path / "t")
    commit(table, file("a", 1))
    it.open(table).checkpoint()
    (log_folder(table) / "00000000000000000001.json").unlink()
    (manifest,) = manifest_files(table)
    DAMAGES["flipped"](manifest)
    opened = it.open(table)
    message = (
        r"the log of .* is incomplete: version 1 is missing.*broken checkpoints: 1 \(.*does not match the digest.*"
        r"restore it or a valid checkpoint.*indextables repair"
    )
    with pytest.raises(it.LogCorrupted, match=message):
        opened.files()


def test_a_checkpoint_of_a_lost_version_fails_too(tmp_path: Path) -> None:
    """Opening the version by its number fails with the same error: it exists, but is unreadable."""
    table = start(tmp_path / "t")
    commit(table, file("a", 1))
    it.open(table).checkpoint()
    commit(table, file("b", 1))
    (log_folder(table) / "00000000000000000001.json").unlink()
    (manifest,) = manifest_files(table)
    DAMAGES["flipped"](manifest)
    with pytest.raises(it.LogCorrupted, match="does not match the digest"):
        it.open(table).files()
    broken = r"the log of .* is incomplete: version 1 is missing.*broken checkpoints: 1 \(state 1 is damaged or incomplete"
    with pytest.raises(it.LogCorrupted, match=broken):
        it.open(table).checkpoint()
    manifest.unlink()
    with pytest.raises(it.LogCorrupted, match=r"the log of .* is incomplete: version 1 is missing.*of state 1 is missing\)"):
        it.open(table, version=2)


def test_a_hostile_path_is_refused_when_the_manifest_is_read(tmp_path: Path) -> None:
    table = start(tmp_path / "t")
    commit(table, file("a", 1))
    it.open(table).checkpoint()
    evil = encode([Add(path="../../etc/passwd", partition_values={}, size=1, modification_time=1, data_change=True)])
    packing = Packing("zstandard", 3)
    data = manifests.assemble(manifests.encode_blocks(evil, packing), packing)
    (log_folder(table) / manifests.path_of(data)).write_bytes(data)
    found = state(table, 1)
    from msgspec import structs

    from indextables.state.checkpoints.avro.state_files import encode_json

    info = structs.replace(found.manifests[0], path=manifests.path_of(data), size_bytes=len(data))
    place = log_folder(table) / names.state_folder(1) / "_manifest.json"
    place.write_bytes(encode_json(structs.replace(found, manifests=[info])))
    with pytest.raises(it.UnsafePath, match="etc/passwd"):
        it.open(table).files()


def test_a_valid_state_of_another_writer_is_kept(tmp_path: Path) -> None:
    """C-45, CON-08."""
    table = start(tmp_path / "t")
    commit(table, file("a", 1))
    late = it.open(table)
    it.open(table).checkpoint()
    place = log_folder(table) / names.state_folder(1) / "_manifest.json"
    before = place.read_bytes()
    from indextables.operations.checkpoint import run as operation

    bound = late._context.for_table(late._snapshot)
    report = operation.run(bound, late._snapshot)
    assert (report.metrics["bytes_written"], place.read_bytes()) == (0, before)


def test_slices_keep_the_order_of_the_log() -> None:
    """Row numbers ascend within a slice, as `take` requires."""
    from indextables.state.checkpoints.avro.layout import slices

    table = encode(
        [Add(path=f"f{n}", partition_values={"p": str(n % 3)}, size=n, modification_time=n, data_change=True) for n in range(30)]
    )
    found = list(slices(table, {"p": pa.int32()}, 10))
    assert [set(s.column("size").to_numpy() % 3) for s in found] == [{0}, {1}, {2}]
    assert all((np.diff(s.column("size").to_numpy()) > 0).all() for s in found)


def test_entries_have_the_version_and_time_of_their_commit(tmp_path: Path) -> None:
    """AVR-09: of the transaction, not of the file; kept by compaction and by every format, and readable by fastavro."""
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64())]), options={"checkpoint.enabled": "false"})
    for number in range(4):
        table.log.commit([file(f"f{number}", modificationTime=7)], operation="append")
    history = {row["version"]: row["timestamp"].timestamp() * 1000 for row in table.history().to_pylist()}
    expected = {f"f{number}": (number + 1, round(history[number + 1])) for number in range(4)}
    for options in ({"state.format": "json"}, {"state.format": "parquet"}, {"state.format": "avro"}):
        it.open(tmp_path / "t", options=options).checkpoint()
        opened = it.open(tmp_path / "t", options={"transaction.cache.enabled": "false"})
        assert {a.path: (a.added_at_version, a.added_at_timestamp) for a in loaded(opened).adds()} == expected
    commit(tmp_path / "t", file("g"))  # a commit without a commitInfo
    it.open(tmp_path / "t", options={"state.compaction.maxManifests": "1"}).checkpoint()
    (manifest,) = state(tmp_path / "t", 5).manifests
    with (log_folder(tmp_path / "t") / manifest.path).open("rb") as stream:
        found = {r["path"]: (r["addedAtVersion"], r["addedAtTimestamp"]) for r in fastavro.reader(stream)}
    assert found == {**expected, "g": (5, 0)}
