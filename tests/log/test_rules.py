"""Rules of the log that no other test names, one by one, through the public interface."""

from __future__ import annotations

import gzip
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.actions.codec import decode_actions
from indextables.clock import Clock
from indextables.log.log import TransactionLog
from indextables.operations.write.create import new_metadata, write_version_zero
from indextables.paths import TableRoot
from indextables.storage import LocalStore
from indextables.table.context import TableContext
from indextables.table.transaction import Draft, transact
from tests.support.logs import SCHEMA_STRING, add, lines, log_folder, metadata, paths, protocol, remove
from tests.support.tables import SCHEMA, ids, make, rows, tree


def raw_lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return [json.loads(line) for line in text.decode().splitlines()]


def foreign(path: Path, *versions: bytes) -> Path:
    for number, text in enumerate(versions):
        (log_folder(path) / f"{number:020d}.json").write_bytes(text)
    return path


def test_the_worked_sequence(tmp_path: Path) -> None:
    """LOG-01, LOG-05, LOG-06, LOG-12, CKP-13: version 0 has protocol and metadata, 1 the first adds; then a merge and a checkpoint."""
    table = make(tmp_path / "t", appends=2, partition_by=[])
    table.merge_splits()
    log = tmp_path / "t" / "_transaction_log"
    assert [next(iter(line)) for line in raw_lines(log / f"{0:020d}.json")] == ["protocol", "metaData"]
    assert [next(iter(line)) for line in raw_lines(log / f"{1:020d}.json")] == ["commitInfo", "metaData", "add"], (
        "the first mapping comes along"
    )
    assert [next(iter(line)) for line in raw_lines(log / f"{3:020d}.json")] == ["commitInfo", "remove", "remove", "add"], "LOG-10"
    while table.version < 11:
        table.append(rows(100 + table.version, 1))
    assert TableContext.at(tmp_path / "t").log.uncached_listing().bases == (10,)
    assert sorted(int(path.name[:20]) for path in log.glob("*.json") if len(path.name) == 25) == list(range(12))
    assert it.open(tmp_path / "t").count() == 28


def test_a_version_is_never_overwritten(tmp_path: Path) -> None:
    """LOG-04, CON-01, CON-06: the second writer of a version fails, and the old bytes stay."""
    make(tmp_path / "t", appends=1)
    log = TableContext.at(tmp_path / "t").log
    before = tree(tmp_path / "t")
    assert log.write(1, decode_actions(lines(add("other.split")), "x").actions) is False
    assert tree(tmp_path / "t") == before


def test_a_missing_folder_has_no_versions(tmp_path: Path) -> None:
    """LOG-08, INI-06, ERR-01."""
    log = TransactionLog(LocalStore(TableRoot(str(tmp_path / "none"))))
    assert log.listing().versions == ()
    with pytest.raises(it.TableNotFound, match="no transaction log found"):
        it.open(tmp_path / "none")
    make(tmp_path / "t", appends=1)
    (tmp_path / "t" / "_transaction_log" / f"{0:020d}.json").unlink()
    with pytest.raises(it.IndexTablesError, match=r"no transaction log found|version 0"):
        it.open(tmp_path / "t")


@pytest.mark.parametrize(
    "path",
    [
        "splits/split-3f.split",
        "date=2024-01-01/splits/split-3f.split",
        "date=2024-01-01/3f.split",
        "part-00000-3f.split",
        "date=2024-01-01/part-00000-3f.split",
    ],
)
def test_every_layout_of_paths_is_read(tmp_path: Path, path: str) -> None:
    """LOG-13, C-22: relative, or absolute below the table."""
    here = foreign(tmp_path / "t", lines(protocol(), metadata()), lines(add(path)), lines(add(f"{tmp_path}/t/x/{path}")))
    assert paths(it.open(here)) == sorted([path, f"x/{path}"])


def test_creating_a_table(tmp_path: Path) -> None:
    """INI-02, INI-04, INI-05, PRT-07, ACT-03: the contents of version 0, and that a second creator does no damage."""
    with pytest.raises(it.SchemaMismatch, match="partition columns a, b not found in schema"):
        it.create(tmp_path / "t", SCHEMA, partition_by=["a", "date", "b"])
    assert not (tmp_path / "t").exists()
    make(tmp_path / "t")
    first, second = raw_lines(tmp_path / "t" / "_transaction_log" / f"{0:020d}.json")
    assert first["protocol"]["minReaderVersion"] == first["protocol"]["minWriterVersion"]
    described = second["metaData"]
    assert uuid.UUID(described["id"]).version == 4
    assert described["format"] == {"provider": "indextables", "options": {}}
    assert abs(described["createdTime"] - Clock().now_ms()) < 60_000
    assert json.loads(described["schemaString"])["type"] == "struct"
    assert (described["partitionColumns"], described["configuration"]) == (["date"], {})
    before = tree(tmp_path / "t")
    with pytest.raises(it.TableExists):
        make(tmp_path / "t")
    assert tree(tmp_path / "t") == before


def test_every_field_of_every_action_round_trips(tmp_path: Path) -> None:
    """ACT-01, ACT-02, ACT-05, ACT-06, ACT-07, ACT-08, ACT-09, ACT-10, ACT-13: committed as plain JSON, read back unchanged."""
    every = {
        "path": "a.split", "partitionValues": {}, "size": 5, "modificationTime": 7, "dataChange": True, "numRecords": 2,
        "stats": '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":9}}', "tags": {"k": "v"},
        "minValues": {"id": "1"}, "maxValues": {"id": "9"},
        "footerStartOffset": 1, "footerEndOffset": 5, "hotcacheStartOffset": 2, "hotcacheLength": 3, "hasFooterOffsets": True,
        "timeRangeStart": "2024-01-01T00:00:00Z", "timeRangeEnd": "2024-01-02T00:00:00Z", "splitTags": ["x"],
        "deleteOpstamp": 4, "numMergeOps": 1, "docMappingJson": '{"a":1}', "uncompressedSizeBytes": 6,
    }  # fmt: skip
    skip = {
        "path": "a.split", "skipTimestamp": 1, "reason": "r", "operation": "merge_splits",
        "partitionValues": {}, "size": 5, "retryAfter": 2, "skipCount": 3,
    }  # fmt: skip
    gone = {
        "path": "a.split", "deletionTimestamp": 3, "dataChange": False, "extendedFileMetadata": True, "partitionValues": {}, "size": 5,
        "tags": {"k": "v"},
    }  # fmt: skip
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64())]), options={"state.format": "json"})
    for number, action in enumerate(({"add": every}, {"mergeskip": skip}, {"remove": gone}), start=1):
        table.log.commit([action])
        assert table.log.actions(number)[-1] == action
    table.log.commit([{"add": {**every, "docMappingJson": None, "docMappingRef": "0123456789abcdef"}}])
    assert table.log.actions(4)[-1]["add"]["docMappingRef"] == "0123456789abcdef"
    assert "docMappingJson" not in table.log.actions(4)[-1]["add"], "nulls are left out"
    (tmp_path / "u").mkdir()
    features = protocol(3, 3, readerFeatures=["footerOffsets"], writerFeatures=["footerOffsets", "checkpoints"])
    odd = json.dumps({"add": {**every, "newField": [1]}}).encode() + b'\n{"newAction":{"x":1}}\n'
    read = it.open(foreign(tmp_path / "u", lines(features, metadata()), odd))
    assert read.protocol.writer_features == ["footerOffsets", "checkpoints"]
    assert read.files().column("num_records").to_pylist() == [2]


def test_stats_as_json_text_are_accepted(tmp_path: Path) -> None:
    """ACT-15."""
    stats = json.dumps({"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 9}})
    here = foreign(tmp_path / "t", lines(protocol(), metadata()), lines(add("a.split", stats=stats)))
    assert it.open(here).files("id = 5").num_rows == 1


def test_a_removed_file_stays_until_purge(tmp_path: Path) -> None:
    """ACT-11, LOG-14, CON-10: the file stays until purge, and every retained version can be rebuilt."""
    table = make(tmp_path / "t", appends=2, partition_by=[])
    splits = set((tmp_path / "t" / "splits").iterdir())
    table.overwrite(rows(50, 3))
    assert splits < set((tmp_path / "t" / "splits").iterdir())
    assert [it.open(tmp_path / "t", version).count() for version in range(4)] == [0, 10, 20, 3]


def test_the_protocol_is_checked_first(tmp_path: Path) -> None:
    """PRT-02, PRT-03, PRT-04, ERR-06: no data is read, and there is none."""
    here = foreign(tmp_path / "t", lines(protocol(9, 9), metadata()), lines(add("missing.split")))
    with pytest.raises(it.ProtocolUnsupported, match="9") as caught:
        it.open(here)
    assert caught.value.exit_code == 78


def test_the_message_of_a_write_conflict(tmp_path: Path) -> None:
    """CON-02, CON-03, CON-04, ERR-03, A-08."""
    make(tmp_path / "t")
    context = TableContext.at(tmp_path / "t", {"transaction.retry.maxAttempts": "1"}, Clock(sleep=lambda _: None))
    base = context.snapshot()
    make_adds = decode_actions(lines(add("mine.split")), "x").actions
    it.open(tmp_path / "t").append(rows(0, 1))
    with pytest.raises(
        it.ConcurrentConflict, match=r"concurrent write conflict: failed to write transaction log version 1 - file already exists"
    ):
        transact(context.log, base, "append", lambda _: Draft(make_adds), config=context.config, clock=context.clock)


def test_version_numbers_never_decrease(tmp_path: Path) -> None:
    """CON-05, CON-12: a handle at an old version commits after the newest."""
    make(tmp_path / "t")
    old = it.open(tmp_path / "t")
    other = it.open(tmp_path / "t")
    assert [other.append(rows(n, 1)).version for n in range(3)] == [1, 2, 3]
    assert old.append(rows(9, 1)).version == 4


def test_a_reader_keeps_its_version(tmp_path: Path) -> None:
    """CON-07, RD-10: a handle shows no later commits until it is refreshed."""
    table = make(tmp_path / "t", appends=1)
    reader = it.open(tmp_path / "t")
    table.overwrite(rows(70, 2))
    assert (reader.version, ids(reader), reader.describe()["num_records"]) == (1, list(range(10)), 10)
    assert ids(reader.refresh()) == [70, 71]


def test_only_versions_after_the_checkpoint_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """RD-02, RD-03, RD-04, RD-05, ERR-04: older versions may be deleted; a damaged checkpoint is logged and the log read instead."""
    table = make(tmp_path / "t", appends=3, partition_by=[], **{"state.format": "json"})
    table.checkpoint()
    table.append(rows(30, 5))
    log = tmp_path / "t" / "_transaction_log"
    kept = (log / f"{2:020d}.json").read_bytes()
    (log / f"{2:020d}.json").unlink()
    assert ids(it.open(tmp_path / "t")) == list(range(35))
    (log / f"{2:020d}.json").write_bytes(kept)
    (log / f"{3:020d}.checkpoint.json").write_bytes(b"{")
    assert ids(it.open(tmp_path / "t")) == list(range(35))
    assert "failed to read checkpoint at version 3" in caplog.text


def test_the_newest_metadata_wins(tmp_path: Path) -> None:
    """RD-07, C-24, C-28."""
    here = foreign(
        tmp_path / "t",
        lines(protocol(), metadata(name="first")),
        lines(add("a.split")),
        lines(metadata(name="second", configuration={"k": "v"})),
        lines(add("b.split"), remove("a.split")),
    )
    table = it.open(here)
    assert (table.metadata.name, table.configuration, paths(table)) == ("second", {"k": "v"}, ["b.split"])
    assert it.open(here, 1).metadata.name == "first"


def test_a_missing_version_recovers_when_it_is_put_back(tmp_path: Path) -> None:
    """ERR-02."""
    make(tmp_path / "t", appends=3)
    gone = tmp_path / "t" / "_transaction_log" / f"{2:020d}.json"
    kept = gone.read_bytes()
    gone.unlink()
    assert it.open(tmp_path / "t").version == 1
    gone.write_bytes(kept)
    assert it.open(tmp_path / "t").version == 3


def test_cache_rules(tmp_path: Path) -> None:
    """CCH-02 … CCH-07, OPT-01, OPT-04, OBS-06: statistics, manual invalidation, disabling, closing and reopening."""
    table = make(tmp_path / "t", appends=3)
    it.open(tmp_path / "t")
    rates = table.log.cache_stats()
    assert set(rates) == {"protocolHitRate", "metadataHitRate", "versionHitRate", "filesHitRate", "versionsListHitRate"}
    assert all(0 <= rate <= 1 for rate in rates.values())
    assert rates["filesHitRate"] > 0
    table.log.invalidate_cache()
    assert it.open(tmp_path / "t").version == 3
    table.log.close()
    assert it.open(tmp_path / "t").version == 3
    for options in ({"transaction.cache.enabled": "false"}, {"transaction.useOptimized": "false"}):
        off = it.open(tmp_path / "t", options=options)
        assert off.log.cache_stats() == {}
        assert off.files().equals(table.files())


def test_minimal_metadata_of_a_foreign_table(tmp_path: Path) -> None:
    """ACT-03: metaData with its required fields only."""
    here = foreign(tmp_path / "t", lines(protocol(), {"metaData": {"id": "x", "schemaString": SCHEMA_STRING}}))
    assert it.open(here).schema == pa.schema([("id", pa.int64())])


def test_initialising_twice_writes_once(tmp_path: Path) -> None:
    """INI-03, A-08: initialising a log that has version 0 writes nothing; `it.create` raises TableExists."""
    context = TableContext.at(tmp_path / "t")
    assert write_version_zero(context, new_metadata(context, SCHEMA, [], {})).version == 0
    before = tree(tmp_path)
    with pytest.raises(it.TableExists):
        write_version_zero(context, new_metadata(context, SCHEMA, [], {}))
    with pytest.raises(it.TableExists):
        it.create(tmp_path / "t", SCHEMA)
    assert tree(tmp_path) == before
