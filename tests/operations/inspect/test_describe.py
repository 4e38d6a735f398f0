"""`describe_state` and `describe_log` report the real content of checkpoints of every format."""

from __future__ import annotations

from pathlib import Path

import pytest

import indextables as it
from indextables.operations.inspect.log_actions import SCHEMA
from tests.support.tables import make, rows, write_version

OPTIONS = {
    "avro-state": {"state.format": "avro"},
    "json": {"state.format": "json"},
    "json-multipart": {"state.format": "json", "checkpoint.actionsPerPart": "3"},
    "parquet": {"state.format": "parquet"},
}


@pytest.mark.parametrize("form", OPTIONS)
def test_state_of_every_format(tmp_path: Path, form: str) -> None:
    """MIG-02: the numbers are those of the checkpoint, even if there are later versions."""
    table = make(tmp_path / "t", 3, 4, **OPTIONS[form])
    assert table.describe_state()["format"] == "none"
    table.checkpoint()
    files, version = table.files(), table.version
    size = sum(files.column("size").to_pylist())
    expected = {
        "table_path": str(tmp_path / "t"),
        "format": form,
        "version": version,
        "num_files": files.num_rows,
        "num_manifests": int(form == "avro-state"),
        "num_tombstones": 0,
        "tombstone_ratio": 0.0,
        "total_bytes": size,
        "needs_compaction": False,
        "status": "OK",
    }
    assert table.describe_state() == expected
    table.append(rows(100, 4))
    assert table.version == version + 1
    assert table.describe_state() == expected


def test_a_state_that_needs_compaction(tmp_path: Path) -> None:
    """The state is written without a threshold and described with one."""
    options = {"state.compaction.tombstoneThreshold": "1.0", "checkpoint.enabled": "false"}
    table = it.open(make(tmp_path / "t", 4, 4).path, options=options)
    table.checkpoint()
    paths = table.files().column("path").to_pylist()
    table.log.commit([{"remove": {"path": path, "dataChange": True}} for path in paths[:2]])
    table.checkpoint()
    found = it.open(tmp_path / "t").describe_state()
    assert (found["num_files"], found["num_manifests"], found["num_tombstones"]) == (6, 1, 2)
    assert found["tombstone_ratio"] == pytest.approx(2 / 6)
    assert found["needs_compaction"] is True
    assert table.describe_state()["needs_compaction"] is False, "the threshold of the table counts"


def test_a_broken_checkpoint_shows_in_the_status(tmp_path: Path) -> None:
    make(tmp_path / "t", 3, 4, **OPTIONS["json"]).checkpoint()
    (tmp_path / "t/_transaction_log" / f"{3:020d}.checkpoint.json").write_bytes(b"{")
    found = it.open(tmp_path / "t").describe_state()
    assert (found["format"], found["version"]) == ("none", 3)
    assert "failed to read checkpoint at version 3" in found["status"]


@pytest.mark.parametrize("form", OPTIONS)
def test_log_of_every_format(tmp_path: Path, form: str) -> None:
    table = make(tmp_path / "t", 3, 4, **OPTIONS[form])
    table.checkpoint()
    base = table.version
    first = table.files().column("path")[0].as_py()
    table.log.record_skipped_file(first, "it is broken")
    table.log.commit([{"remove": {"path": first, "dataChange": True, "deletionTimestamp": 1_700_000_000_000}}])
    found = table.describe_log()
    assert found.schema == SCHEMA
    assert found.num_columns == 47
    assert sum(name.startswith("metadata_") for name in found.schema.names) == 9
    listed = found.to_pylist()
    checkpoint = [row for row in listed if row["is_checkpoint"]]
    assert {row["version"] for row in checkpoint} == {base}
    assert [row["action_type"] for row in checkpoint[:2]] == ["protocol", "metadata"]
    assert [row["action_type"] for row in checkpoint[2:]] == ["add"] * 6
    assert all((tmp_path / "t").joinpath(row["log_file_path"]).is_file() for row in listed)
    later = [row for row in listed if not row["is_checkpoint"] and row["action_type"] in ("skip", "remove")]
    assert [(row["action_type"], row["path"]) for row in later] == [("skip", first), ("remove", first)]
    assert (later[0]["skip_reason"], later[0]["skip_count"]) == ("it is broken", 1)
    assert later[1]["deletion_timestamp"].timestamp() == 1_700_000_000
    known = {row["path"]: row for row in checkpoint if row["action_type"] == "add"}
    for file in it.open(tmp_path / "t", base).files().to_pylist():
        row = known[file["path"]]
        assert all(row[name] == file[name] for name in ("size", "num_records", "partition_values", "min_values", "max_values"))
        assert row["modification_time"] == file["modification_time"]


def test_include_all_shows_the_whole_log_in_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 2, 4, **{"checkpoint.interval": "2"})
    add = {"path": "x.split", "partitionValues": {}, "size": 0, "modificationTime": 1, "dataChange": False}
    newest = table.version
    write_version(
        tmp_path / "t", newest + 1, {"add": add}, {"remove": {"path": "y.split", "dataChange": False}}, {"add": {**add, "path": "z.split"}}
    )
    found = it.open(tmp_path / "t").describe_log(include_all=True).to_pylist()
    assert [row["version"] for row in found] == sorted(row["version"] for row in found)
    assert {row["version"] for row in found} >= set(range(newest + 2)) - {2}
    assert not any(row["is_checkpoint"] for row in found)
    last = [(row["action_type"], row["path"], row["size"], row["data_change"]) for row in found if row["version"] == newest + 1]
    assert last == [("add", "x.split", 0, False), ("remove", "y.split", None, False), ("add", "z.split", 0, False)]
