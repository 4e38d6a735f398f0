"""Each table command from its text to its effect: result columns, reported numbers, and errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import indextables as it
from indextables.cli.main import main
from tests.support.s3 import connect, ministack
from tests.support.tables import SCHEMA, ids, make, rows, tree

COLUMNS = {
    "MERGE": "table_path metrics temp_directory_path heap_size_bytes",
    "PURGE": "table_path metrics",
    "DROP": "table_path status partitions_dropped splits_removed total_size_bytes message",
    "CHECKPOINT": "table_path status checkpoint_version num_actions num_files protocol_version is_multi_part",
    "TRUNCATE": "table_path status checkpoint_version versions_deleted checkpoints_deleted files_preserved message",
    "REPAIR": "source_path target_path source_version total_splits valid_splits missing_splits status",
    "STATE": "table_path format version num_files num_manifests num_tombstones tombstone_ratio total_bytes needs_compaction status",
    "INVALIDATE": "table_path result cache_hits_before cache_misses_before hit_rate_before",
}
METRICS = (
    "status orphaned_files_found orphaned_files_deleted size_mb_deleted retention_hours tx_log_files_deleted "
    "expired_states_found expired_states_deleted dry_run duration_ms message"
)
WITHOUT_AGE_CHECK = {"purge.retentionCheckEnabled": "false"}
JSON = {"state.format": "json"}


def run_command(kind: str, text: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs a command and returns its row. Checks that it has the columns of its kind."""
    found = it.sql(text, options)
    assert found.schema.names == COLUMNS[kind].split()
    (row,) = found.to_pylist()
    return row


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Four appends of two partitions each."""
    make(tmp_path / "t", 4, 4)
    return str(tmp_path / "t")


def test_merge_splits(path: str) -> None:
    before = it.open(path).files()
    row = run_command("MERGE", f"MERGE SPLITS '{path}' TARGET SIZE 100M WHERE date = DATE '2024-01-01'")
    chosen = [
        size
        for size, values in zip(before["size"].to_pylist(), before["partition_values"].to_pylist(), strict=True)
        if "01-01" in str(values)
    ]
    after = it.open(path)
    (merged,) = after.files("date = DATE '2024-01-01'").to_pylist()
    assert row["metrics"] == {
        "status": "success",
        "merged_files": 4,
        "merge_groups": 1,
        "original_size_bytes": sum(chosen),
        "merged_size_bytes": merged["size"],
        "message": None,
    }
    assert (row["table_path"], after.files().num_rows, ids(after)) == (path, 5, list(range(16)))
    assert run_command("MERGE", f"merge splits '{path}' where date = DATE '2024-01-01'")["metrics"]["status"] == "no_action"
    assert run_command("MERGE", f"MERGE SPLITS '{path}' MAX SOURCE SPLITS PER MERGE 2 MAX DEST SPLITS 1")["metrics"]["merge_groups"] == 1


def test_merge_takes_the_maximum_number_of_sources_from_the_table(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", SCHEMA, options={"merge.maxSourceSplitsPerMerge": "2", "merge.maxPasses": "1"})
    for number in range(4):
        table.append(rows(number, 1))
    assert run_command("MERGE", f"MERGE SPLITS '{table.path}'")["metrics"]["merge_groups"] == 2
    assert run_command("MERGE", f"MERGE SPLITS '{table.path}' MAX SOURCE SPLITS PER MERGE 3")["metrics"]["merge_groups"] == 1


def test_purge_deletes_splits_that_a_merge_removed(path: str) -> None:
    """Upstream does so only if the log retention is 0, too."""
    it.sql(f"MERGE SPLITS '{path}'")
    before = tree(Path(path))
    dead = {name for name in before if name.endswith(".split")} - set(it.open(path).files().column("path").to_pylist())
    dry = run_command("PURGE", f"PURGE INDEXTABLE '{path}' OLDER THAN 0 HOURS DRY RUN", WITHOUT_AGE_CHECK)["metrics"]
    assert tree(Path(path)) == before
    assert (dry["status"], dry["dry_run"], dry["orphaned_files_found"], dry["orphaned_files_deleted"]) == ("DRY_RUN", True, 8, 0)
    assert dry["message"] == f"would delete 8 splits and {sum(len(before[name]) for name in dead)} bytes in all"
    row = run_command("PURGE", f"PURGE INDEXTABLES '{path}' OLDER THAN 0 HOURS TRANSACTION LOG RETENTION 30 DAYS", WITHOUT_AGE_CHECK)[
        "metrics"
    ]
    assert list(row) == METRICS.split()
    assert (row["status"], row["orphaned_files_found"], row["orphaned_files_deleted"]) == ("SUCCESS", 8, 8)
    assert (row["retention_hours"], row["tx_log_files_deleted"], row["expired_states_deleted"]) == (0, 0, 0)
    assert row["size_mb_deleted"] == pytest.approx(sum(len(before[name]) for name in dead) / 2**20)
    assert set(before) - set(tree(Path(path))) == dead
    assert ids(it.open(path)) == list(range(16))


def test_drop_partitions(path: str) -> None:
    size = sum(it.open(path).files("date = DATE '2024-01-02'").column("size").to_pylist())
    text = f"DROP INDEXTABLES PARTITIONS FROM '{path}' WHERE date = DATE '2024-01-02'"
    assert run_command("DROP", text) == {
        "table_path": path,
        "status": "success",
        "partitions_dropped": 1,
        "splits_removed": 4,
        "total_size_bytes": size,
        "message": None,
    }
    assert run_command("DROP", text)["status"] == "no_action"
    assert ids(it.open(path)) == list(range(0, 16, 2))


def test_checkpoint_reports_the_real_version(path: str) -> None:
    """MIG-01, MIG-03: the format is the option's, and the pointer names it. Upstream reports version 0."""
    row = run_command("CHECKPOINT", f"CHECKPOINT INDEXTABLES '{path}'")
    version = it.open(path).version
    assert version > 0
    assert row == {
        "table_path": path,
        "status": "SUCCESS",
        "checkpoint_version": version,
        "num_actions": 10,
        "num_files": 8,
        "protocol_version": 4,
        "is_multi_part": False,
    }
    pointer = json.loads((Path(path) / "_transaction_log/_last_checkpoint").read_text())
    assert (pointer["format"], pointer["version"]) == ("avro-state", version)
    assert run_command("CHECKPOINT", f"CHECKPOINT INDEXTABLES '{path}'") == row
    row = run_command("CHECKPOINT", f"CHECKPOINT INDEXTABLES '{path}'", {**JSON, "checkpoint.actionsPerPart": "3"})
    assert (row["is_multi_part"], row["checkpoint_version"]) == (True, it.open(path).version)
    assert run_command("STATE", f"DESCRIBE INDEXTABLES STATE '{path}'")["version"] == it.open(path).version


def test_compact_removes_tombstones_and_small_manifests(path: str) -> None:
    options = {"state.compaction.tombstoneThreshold": "0.9"}
    for turn in range(2):
        it.sql(f"CHECKPOINT INDEXTABLES '{path}'", options)
        it.open(path).append(rows(100 + 4 * turn, 4))
    it.sql(f"CHECKPOINT INDEXTABLES '{path}'", options)
    table = it.open(path, options=options)
    gone = table.files().column("path")[0].as_py()
    table.log.commit([{"remove": {"path": gone, "dataChange": True}}])
    it.sql(f"CHECKPOINT INDEXTABLES '{path}'", options)
    before = run_command("STATE", f"DESCRIBE INDEXTABLES STATE '{path}'")
    assert (before["num_manifests"], before["num_tombstones"], before["num_files"]) == (3, 1, 11)
    assert before["tombstone_ratio"] == pytest.approx(1 / 11)
    expected, version = ids(it.open(path)), it.open(path).version
    assert run_command("CHECKPOINT", f"COMPACT INDEXTABLES '{path}'", options)["checkpoint_version"] == version
    after = run_command("STATE", f"DESCRIBE INDEXTABLES STATE '{path}'")
    assert after == {**before, "num_manifests": 1, "num_tombstones": 0, "tombstone_ratio": 0.0}
    assert ids(it.open(path)) == expected
    it.open(path).log.close()
    assert ids(it.open(path)) == expected
    assert [finding for finding in it.open(path).doctor() if finding.severity == "error"] == []


def test_truncate_dry_run_writes_nothing(path: str) -> None:
    """Upstream writes a state."""
    before, version = tree(Path(path)), it.open(path).version
    dry = run_command("TRUNCATE", f"TRUNCATE INDEXTABLES TIME TRAVEL '{path}' DRY RUN")
    assert tree(Path(path)) == before
    assert (dry["status"], dry["versions_deleted"], dry["files_preserved"]) == ("DRY_RUN", version - 1, 8)
    row = run_command("TRUNCATE", f"TRUNCATE INDEXTABLES TIME TRAVEL '{path}'")
    assert row == {**dry, "status": "SUCCESS"}
    with pytest.raises(it.VersionNotFound):
        it.open(path, 1)
    assert ids(it.open(path)) == list(range(16))


def test_repair(path: str, tmp_path: Path) -> None:
    lost = it.open(path).files().column("path")[0].as_py()
    (Path(path) / lost).unlink()
    before = tree(Path(path))
    source, target = f"{path}/_transaction_log", str(tmp_path / "new")
    row = run_command("REPAIR", f"REPAIR INDEXFILES TRANSACTION LOG '{source}' AT LOCATION '{target}'")
    assert row == {
        "source_path": source,
        "target_path": target,
        "source_version": 4,
        "total_splits": 8,
        "valid_splits": 7,
        "missing_splits": 1,
        "status": "PARTIAL_SUCCESS",
    }
    assert tree(Path(path)) == before
    assert sorted(os.listdir(target)) == [f"{number:020d}.json" for number in (0, 1)]


def test_describe_state_without_a_checkpoint(path: str) -> None:
    """It shows version and files of the table, with the format `none`."""
    row = run_command("STATE", f"DESCRIBE INDEXTABLES STATE '{path}'")
    table = it.open(path)
    size = sum(table.files().column("size").to_pylist())
    assert (row["format"], row["version"], row["num_files"], row["total_bytes"]) == ("none", table.version, 8, size)
    assert (row["num_manifests"], row["num_tombstones"], row["needs_compaction"]) == (0, 0, False)


def test_describe_log_shows_adds_of_avro_tables(path: str) -> None:
    """Also if version files have expired. Upstream shows none."""
    it.sql(f"CHECKPOINT INDEXTABLES '{path}'")
    text = f"DESCRIBE INDEXTABLES TRANSACTION LOG '{path}'"
    everything, newest = it.sql(text + " INCLUDE ALL"), it.sql(text)
    live = sorted(it.open(path).files().column("path").to_pylist())
    assert len(everything.schema.names) == len(newest.schema.names) == 47
    for found, is_checkpoint in ((everything, False), (newest, True)):
        adds = [row for row in found.to_pylist() if row["action_type"] == "add"]
        assert sorted(row["path"] for row in adds) == live
        assert {row["is_checkpoint"] for row in adds} == {is_checkpoint}
    assert everything.column("version").to_pylist()[0] == 0
    it.sql(f"TRUNCATE INDEXTABLES TIME TRAVEL '{path}'")
    left = [row for row in it.sql(text + " INCLUDE ALL").to_pylist() if row["action_type"] == "add"]
    assert sorted(row["path"] for row in left if row["is_checkpoint"]) == live
    assert {row["version"] for row in left} == {it.open(path).version}


def test_invalidate_cache(path: str) -> None:
    for _ in range(3):
        it.open(path)
    row = run_command("INVALIDATE", f"INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR '{path}'")
    assert (row["table_path"], row["result"]) == (path, "success")
    asked = row["cache_hits_before"] + row["cache_misses_before"]
    assert row["cache_hits_before"] > 0
    assert row["hit_rate_before"] == pytest.approx(row["cache_hits_before"] / asked)
    assert run_command("INVALIDATE", "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE")["table_path"] == "all tables"
    assert ids(it.open(path)) == list(range(16))


@pytest.mark.parametrize(
    ("text", "error", "position"),
    [
        ("DROP INDEXTABLES PARTITIONS FROM '{0}' WHERE level = 'ERROR'", it.InvalidPredicate, "level"),
        ("MERGE SPLITS '{0}' TARGET SIZE 1G WHERE date >= 'soon' MAX DEST SPLITS 3", it.InvalidPredicate, "'soon'"),
        ("MERGE SPLITS '{0}' WHERE date = = 1", it.InvalidPredicate, "= 1"),
        ("MERGE SPLITS '{0}' WHERE nosuch = 1 TARGET SIZE 1G", it.InvalidPredicate, "nosuch"),
        ("MERGE SPLITS '{0}' TARGET SIZE 1K", it.InvalidCommand, "1K"),
        ("PURGE INDEXTABLE '{0}' OLDER THAN 1 HOUR", it.InvalidArgument, None),
        ("CHECKPOINT INDEXTABLES '{0}/nothing'", it.TableNotFound, None),
        ("MERGE SPLITS '{0}/nothing'", it.TableNotFound, None),
        ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR '{0}/nothing'", it.TableNotFound, None),
        ("CHECKPOINT INDEXTABLE '{0}'", it.InvalidCommand, "INDEXTABLE '"),
    ],
)
def test_errors_have_a_position_in_the_command(path: str, text: str, error: type[it.IndexTablesError], position: str | None) -> None:
    before, command = tree(Path(path)), text.format(path)
    with pytest.raises(error) as caught:
        it.sql(command)
    assert type(caught.value) is error
    assert tree(Path(path)) == before
    if position is not None:
        assert command[caught.value.position :].startswith(position)  # type: ignore[attr-defined]
        assert caught.value.text == command  # type: ignore[attr-defined]


def test_an_unknown_option_is_refused(path: str) -> None:
    with pytest.raises(it.ConfigError, match="nosuch"):
        it.sql(f"CHECKPOINT INDEXTABLES '{path}'", {"nosuch": "1"})


def test_terminal(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`indextables sql "…"`: output as a table, as JSON and in files, and exit codes."""
    assert main(["sql", f"describe indextables state '{path}'", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["format"], row["num_files"]) == ("none", 8)
    assert main(["sql", f"MERGE SPLITS '{path}' TARGET SIZE 100M"]) == 0
    out = capsys.readouterr().out
    assert "status=success" in out
    assert "table_path" in out
    target = tmp_path / "log.parquet"
    assert main(["sql", f"DESCRIBE INDEXTABLES TRANSACTION LOG '{path}' INCLUDE ALL", "--output", str(target)]) == 0
    assert pq.read_table(target).num_columns == 47
    assert main(["sql", f"CHECKPOINT INDEXTABLES '{path}'", "-o", "state.format=json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["status"] == "SUCCESS"
    assert main(["sql", "MERGE SPLITS t TARGETSIZE 3"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: expected MAX DEST SPLITS")
    assert lines[1:] == ["  MERGE SPLITS t TARGETSIZE 3", "                 ^"]
    assert main(["sql", f"MERGE SPLITS '{path}/nothing'"]) == 78


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with ministack() as found:
        yield found


def test_every_command_on_s3(server: Any) -> None:
    """Runs every command once on an S3 server."""
    place, options = server.place(), server.options
    table = it.create(place, SCHEMA, partition_by=["date"], options=options)
    for number in range(3):
        table.append(rows(4 * number, 4))
    now = {**options, **WITHOUT_AGE_CHECK}

    def keys() -> set[str]:
        return set(connect(server.url).find(place.removeprefix("s3://")))

    expected = ids(table)
    assert run_command("MERGE", f"MERGE SPLITS '{place}'", options)["metrics"]["merged_files"] == 6
    assert run_command("DROP", f"DROP INDEXTABLES PARTITIONS FROM {place} WHERE date = DATE '2024-01-02'", options)["splits_removed"] == 1
    assert run_command("CHECKPOINT", f"CHECKPOINT INDEXTABLES '{place}'", options)["num_files"] == 1
    before = keys()
    assert run_command("TRUNCATE", f"TRUNCATE INDEXTABLES TIME TRAVEL '{place}' DRY RUN", options)["versions_deleted"] > 0
    assert run_command("PURGE", f"PURGE INDEXTABLE '{place}' OLDER THAN 0 HOURS DRY RUN", now)["metrics"]["orphaned_files_found"] == 7
    assert keys() == before
    assert run_command("PURGE", f"PURGE INDEXTABLE '{place}' OLDER THAN 0 HOURS", now)["metrics"]["orphaned_files_deleted"] == 7
    assert len([key for key in keys() if key.endswith(".split")]) == 1
    row = run_command("TRUNCATE", f"TRUNCATE INDEXTABLES TIME TRAVEL '{place}'", options)
    log = [key.rpartition("/")[2] for key in keys() if key.endswith(".json") and "state-v" not in key]
    assert sorted(log) == [f"{number:020d}.json" for number in (0, row["checkpoint_version"])]
    assert run_command("STATE", f"DESCRIBE INDEXTABLES STATE '{place}'", options)["num_files"] == 1
    assert it.sql(f"DESCRIBE INDEXTABLES TRANSACTION LOG '{place}'", options).num_rows == 3
    repaired = run_command("REPAIR", f"REPAIR INDEXFILES TRANSACTION LOG '{place}/_transaction_log' AT LOCATION '{place}-new'", options)
    assert (repaired["valid_splits"], repaired["status"]) == (1, "SUCCESS")
    assert ids(it.open(place, options=options)) == expected[::2]
