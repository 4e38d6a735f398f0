"""Parquet checkpoints (PQC, A-07): ours, and those of a program that writes only the columns of the original format."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables as it
from indextables.errors import CheckpointCorruptionError, LogCorrupted, UnsafePath
from indextables.log import names
from indextables.state.checkpoints import any_format
from indextables.state.checkpoints.contents import Format
from indextables.state.checkpoints.seal import sealed
from tests.support.checkpoints import begin, commit, log_of, snapshot_content, write_checkpoint
from tests.support.loading import loaded, read_all
from tests.support.logs import SCHEMA_STRING, add, log_folder, metadata, paths, protocol
from tests.support.memory_store import MemoryStore
from tests.support.tables import make, rows, write_version

STRINGS = pa.map_(pa.string(), pa.string())
ENTRY = {
    "path": pa.string(),
    "partitionValues": STRINGS,
    "size": pa.int64(),
    "numRecords": pa.int64(),
    "minValues": STRINGS,
    "maxValues": STRINGS,
    "metadataId": pa.string(),
    "schemaString": pa.string(),
    "partitionColumns": pa.list_(pa.string()),
    "format": STRINGS,
    "actionType": pa.string(),
}
METADATA_ROW = {
    "metadataId": "m",
    "schemaString": SCHEMA_STRING,
    "partitionColumns": ["d"],
    "format": [("provider", "x")],
    "actionType": "metadata",
}


def entry(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "partitionValues": [("d", "1")], "size": 5, "numRecords": 2, "actionType": "add", **more}


def seed_file(path: Path, found: list[dict[str, Any]], schema: pa.Schema | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(found, schema=schema or pa.schema(list(ENTRY.items()))), path)


def seed_checkpoint(table: Path, found: list[dict[str, Any]], version: int = 3, **more: Any) -> Path:
    folder = log_folder(table) / "_checkpoints"
    seed_file(folder / f"{version:020d}.checkpoint.parquet", found)
    described = {"version": version, "size": len(found), "createdTime": 77, **more}
    described["version"] = described.pop("declared_version", version)
    (folder / f"{version:020d}.checkpoint.json").write_text(json.dumps(described, separators=(",", ":")))
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose versions 1 to 3 have expired."""
    write_version(tmp_path, 0, protocol(), metadata())
    write_version(tmp_path, 4, add("d.split", partitionValues={"d": "2"}))
    return tmp_path


def test_our_files_start_with_the_columns_of_the_seed(tmp_path: Path) -> None:
    """PQC-01, PQC-02, PQC-03, PQC-04, PQC-08, A-07: DuckDB reads them."""
    made = make(tmp_path / "t", 2, **{"state.format": "parquet"})
    made.checkpoint()
    folder = tmp_path / "t" / "_transaction_log" / "_checkpoints"
    file = folder / f"{2:020d}.checkpoint.parquet"
    assert sorted(path.name for path in folder.iterdir()) == [f"{2:020d}.checkpoint.json", file.name]
    found = pq.ParquetFile(file)
    assert found.schema_arrow.names[:11] == list(ENTRY)
    assert [found.schema_arrow.field(name).type for name in ENTRY] == list(ENTRY.values())
    assert [field.nullable for field in found.schema_arrow] == [field.name != "actionType" for field in found.schema_arrow]
    assert found.metadata.row_group(0).column(0).compression == "SNAPPY"
    counts = duckdb.sql(f"select actionType, count(*) from '{file}' group by 1 order by 1").fetchall()
    assert counts == [("add", 4), ("metadata", 1)]
    described = json.loads((folder / f"{2:020d}.checkpoint.json").read_bytes())
    assert (described["version"], described["size"], "parts" in described) == (2, 4, False)
    assert described["sha256"] == [hashlib.sha256(file.read_bytes()).hexdigest()]
    assert made.protocol.min_reader_version == 2


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
def test_parts_by_size(compression: str) -> None:
    """PQC-09: no file is lost between parts."""
    store = MemoryStore()
    begin(store)
    commit(store, 1, *(add(f"f{number}", stats="x" * number) for number in range(40)))
    expected = snapshot_content(read_all(log_of(store)))
    write_checkpoint(store, Format.PARQUET, **{"checkpoint.maxFileSize": 3000, "checkpoint.compression": compression})
    described = json.loads(store.files[names.parquet_metadata_path(1)])
    parts = [path for path in store.files if path.endswith(".parquet")]
    assert parts == [names.parquet_path(1, number) for number in range(1, described["parts"] + 1)]
    assert len(parts) >= 2
    assert json.loads(store.files[names.pointer_path()])["parts"] == len(parts)
    store.delete(names.version_path(1))
    assert snapshot_content(read_all(log_of(store))) == expected


@pytest.mark.parametrize("most", [16_000, 40_000, 200_000])
def test_no_part_is_larger_than_configured(most: int) -> None:
    """CFG-05; a file without rows takes about 6 kB."""
    store = MemoryStore()
    begin(store)
    noise = Random(most)
    commit(store, 1, *(add(f"f{number}", stats=noise.randbytes(noise.randrange(200)).hex()) for number in range(3000)))
    write_checkpoint(store, Format.PARQUET, **{"checkpoint.maxFileSize": most})
    sizes = [len(data) for path, data in store.files.items() if path.endswith(".parquet")]
    assert max(sizes) <= most
    assert sum(sizes) > (len(sizes) - 1) * most / 2, "no part is much smaller"


def test_ten_versions_make_a_checkpoint_of_version_ten(tmp_path: Path) -> None:
    """PQC-11: 15 appends, interval 10."""
    made = make(tmp_path / "t", 15, each=2, partition_by=(), **{"state.format": "parquet"})
    assert (tmp_path / "t/_transaction_log/_checkpoints" / f"{10:020d}.checkpoint.parquet").is_file()
    assert len(paths(made)) == len(paths(it.open(tmp_path / "t"))) == 15


def test_a_checkpoint_of_the_seed_is_read(table: Path) -> None:
    """PQC-06: without extra columns and digest; the modification time is that of the checkpoint."""
    seed_checkpoint(table, [METADATA_ROW, entry("a.split"), entry("b.split", minValues=[("id", "1")], partitionValues=None)])
    found = it.open(table)
    assert (found.version, paths(found), found.partition_columns) == (4, ["a.split", "b.split", "d.split"], ["d"])
    first, second, _ = loaded(found).adds()
    assert (first.partition_values, first.size, first.num_records, first.modification_time) == ({"d": "1"}, 5, 2, 77)
    assert (second.partition_values, second.min_values, second.added_at_version) == ({}, {"id": "1"}, None)
    assert found._snapshot.metadata.format.provider == "x"


def test_a_folder_written_by_spark_is_read(table: Path) -> None:
    folder = seed_checkpoint(table, [METADATA_ROW, entry("a"), entry("b")], size=2)
    file = folder / f"{3:020d}.checkpoint.parquet"
    file.unlink()
    seed_file(file / "part-00000-x.snappy.parquet", [METADATA_ROW, entry("a")])
    seed_file(file / "part-00001-x.snappy.parquet", [entry("b")])
    (file / "_SUCCESS").touch()
    assert paths(it.open(table)) == ["a", "b", "d.split"]


def test_map_entries_with_null_values_are_dropped(table: Path) -> None:
    seed_checkpoint(table, [METADATA_ROW, entry("a", partitionValues=[("d", None)], maxValues=[("x", None), ("y", "2")])])
    first = next(iter(loaded(it.open(table)).adds()))
    assert (first.partition_values, first.max_values) == ({}, {"y": "2"})


@pytest.mark.parametrize(
    ("found", "more"),
    [
        ([entry("a")], {}),  # no metadata
        ([METADATA_ROW, METADATA_ROW, entry("a")], {}),
        ([METADATA_ROW, entry("a"), entry("a")], {}),
        ([METADATA_ROW, entry("a", size=-1)], {}),
        ([METADATA_ROW, entry("a", numRecords=-1)], {}),
        ([METADATA_ROW, {**entry("a"), "path": None}], {}),
        ([METADATA_ROW, {**entry("a"), "size": None}], {}),
        ([METADATA_ROW, entry("a", actionType="mystery")], {}),
        ([{**METADATA_ROW, "schemaString": None}], {}),
        ([METADATA_ROW, entry("a")], {"size": 7}),
        ([METADATA_ROW, entry("a")], {"declared_version": 4}),
        ([METADATA_ROW, entry("a")], {"parts": 0}),
        ([METADATA_ROW, entry("a")], {"parts": 2}),
        ([METADATA_ROW, entry("a")], {"parts": 10**12}),
        ([METADATA_ROW, entry("a")], {"sha256": ["0" * 64]}),
        ([METADATA_ROW, entry("a")], {"digest": "0" * 64}),
    ],
)
def test_invalid_contents_are_a_broken_checkpoint(table: Path, found: list[dict[str, Any]], more: dict[str, Any]) -> None:
    seed_checkpoint(table, found, **more)
    with pytest.raises(LogCorrupted, match="broken checkpoints: 3"):
        it.open(table)


@pytest.mark.parametrize(
    "kinds",
    [
        {"path": pa.int64()},
        {"size": pa.string()},
        {"partitionValues": pa.string()},
        {"actionType": None},
        {"partitionValues": pa.map_(pa.string(), pa.list_(pa.string()))},
    ],
)
def test_columns_of_other_types_are_a_broken_checkpoint(table: Path, kinds: dict[str, Any]) -> None:
    folder = seed_checkpoint(table, [METADATA_ROW])
    schema = pa.schema([(name, kinds.get(name, kind)) for name, kind in ENTRY.items() if kinds.get(name, kind) is not None])
    values = {"path": 7, "size": "x", "partitionValues": "y" if kinds.get("partitionValues") == pa.string() else [("d", ["1"])]}
    changed = {**entry("a"), **{name: values[name] for name in kinds if name in values}}
    seed_file(folder / f"{3:020d}.checkpoint.parquet", [METADATA_ROW, changed], schema)
    with pytest.raises(LogCorrupted, match="broken checkpoints: 3"):
        it.open(table)


def test_a_path_out_of_the_table_is_refused(table: Path) -> None:
    seed_checkpoint(table, [METADATA_ROW, entry("../../etc/passwd")])
    with pytest.raises(UnsafePath):
        it.open(table)


def test_invalid_utf8_is_a_broken_checkpoint(table: Path) -> None:
    folder = seed_checkpoint(table, [METADATA_ROW, entry("PATHPATH")])
    file = folder / f"{3:020d}.checkpoint.parquet"
    pq.write_table(pq.read_table(file), file, compression="none", use_dictionary=False)
    file.write_bytes(file.read_bytes().replace(b"PATHPATH", b"\xff\xfe\xfd\xfcPATH"))
    with pytest.raises(LogCorrupted, match="broken checkpoints: 3"):
        it.open(table)


def test_more_rows_than_bytes_are_refused_before_they_are_read(table: Path) -> None:
    """R14: nulls take no space in a file, but a lot of memory."""
    folder = seed_checkpoint(table, [METADATA_ROW])
    nulls = pa.Table.from_arrays([pa.nulls(3_000_000, kind) for kind in ENTRY.values()], schema=pa.schema(list(ENTRY.items())))
    pq.write_table(nulls, folder / f"{3:020d}.checkpoint.parquet", compression="zstd")
    with pytest.raises(LogCorrupted, match="broken checkpoints: 3"):
        it.open(table)


@pytest.mark.parametrize("repeated", [False, True], ids=["in each row", "in a dictionary"])
def test_a_decompression_bomb_is_refused(repeated: bool) -> None:
    """R14: with a valid digest, as an attacker would add it."""
    sink = pa.BufferOutputStream()
    paths_ = ["x" * 1_000_000] * 50_000 if repeated else ["x" * 1_000_000 + str(number) for number in range(100)]
    text = pa.DictionaryArray.from_arrays(pa.array([0] * len(paths_), pa.int32()), pa.array(paths_[:1])) if repeated else pa.array(paths_)
    bomb = pa.table({"path": text, "actionType": ["add"] * len(paths_)})
    pq.write_table(bomb, sink, compression="zstd", use_dictionary=repeated, row_group_size=50_000 if repeated else 10)
    data = sink.getvalue().to_pybytes()
    assert len(data) < 1_000_000
    store = MemoryStore()
    store.files[names.parquet_path(1)] = data
    described = json.dumps({"version": 1, "size": 100, "sha256": [hashlib.sha256(data).hexdigest()]}, separators=(",", ":"))
    store.files[names.parquet_metadata_path(1)] = sealed(described.encode())
    with pytest.raises(CheckpointCorruptionError, match="expands to more than"):
        any_format.read_checkpoint(log_of(store), log_of(store).listing(), 1)


def test_parquet_files_without_metadata_are_ignored(table: Path) -> None:
    """PQC-07: the metadata is written last."""
    folder = seed_checkpoint(table, [METADATA_ROW, entry("a")])
    (folder / f"{3:020d}.checkpoint.json").unlink()
    (log_folder(table) / f"{4:020d}.json").unlink()
    assert (it.open(table).version, paths(it.open(table))) == (0, [])


def test_all_formats_of_a_table_agree(tmp_path: Path) -> None:
    """PQC-13: mixing formats hides nothing."""
    made = make(tmp_path / "t", 1, each=10)
    for number, options in enumerate(
        [{"state.format": "json"}, {"state.format": "parquet"}, {"checkpoint.actionsPerPart": 2, "state.format": "json"}], 1
    ):
        it.open(tmp_path / "t", options=options).checkpoint()
        it.open(tmp_path / "t").append(rows(10 * number, 10))
    assert made.count() == 10
    found = it.open(tmp_path / "t")
    assert found.count() == 40
    for version in range(1, found.version):
        (tmp_path / "t/_transaction_log" / f"{version:020d}.json").unlink(missing_ok=True)
    assert it.open(tmp_path / "t").count() == 40
