"""Protocol versions and features: what may be read and written, and upgrades (PRT-01 … PRT-08, C-23, C-26, A-06)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.table.protocol import FEATURES
from tests.support.logs import add, metadata, paths, protocol
from tests.support.tables import make, rows, tree, write_version


@pytest.fixture(autouse=True)
def json_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests hold for every format, but look at the files of JSON checkpoints."""
    monkeypatch.setenv("INDEXTABLES_STATE_FORMAT", "json")


def table_with(path: Path, *first: dict[str, Any]) -> Path:
    write_version(path, 0, *first, metadata())
    write_version(path, 1, add("a"))
    return path


@pytest.mark.parametrize(("reader", "writer"), [(r, w) for r in (1, 2, 3, 4) for w in (1, 2, 3, 4)])
def test_versions_up_to_4_are_readable(tmp_path: Path, reader: int, writer: int) -> None:
    assert paths(it.open(table_with(tmp_path, protocol(reader, writer)))) == ["a"]


@pytest.mark.parametrize("reader", [5, 99, 2**31 - 1])
def test_a_newer_reader_version_is_refused(tmp_path: Path, reader: int) -> None:
    with pytest.raises(it.ProtocolUnsupported, match=f"needs protocol {reader} to read"):
        it.open(table_with(tmp_path, protocol(reader, 2)))


def test_a_newer_writer_version_is_readable_only(tmp_path: Path) -> None:
    table = it.open(table_with(tmp_path, protocol(2, 5)))
    before = tree(tmp_path)
    dry_runs = (lambda: table.merge_splits(dry_run=True), lambda: table.checkpoint(dry_run=True), lambda: table.purge(dry_run=True))
    for verb in (lambda: table.append([{"id": 1}]), lambda: table.log.commit([add("b")]), table.checkpoint, table.purge, *dry_runs):
        with pytest.raises(it.ProtocolUnsupported, match="needs protocol 5 to write"):
            verb()
    assert (paths(table), tree(tmp_path)) == (["a"], before)


def test_every_known_feature_is_supported(tmp_path: Path) -> None:
    assert {"avroState", "multiPartCheckpoint", "schemaDeduplication", "footerOffsets", "conditionalWrites", "skippedFiles"} <= FEATURES
    everything = {"readerFeatures": sorted(FEATURES), "writerFeatures": sorted(FEATURES)}
    table = it.open(table_with(tmp_path, protocol(4, 4, **everything)))
    assert (paths(table), table.log.commit([add("b")])) == (["a"], 2)


def test_an_unknown_reader_feature_prevents_reading(tmp_path: Path) -> None:
    with pytest.raises(it.ProtocolUnsupported, match="needs the features deletionVectors to read"):
        it.open(table_with(tmp_path, protocol(3, 3, readerFeatures=["avroState", "deletionVectors"])))


def test_an_unknown_writer_feature_prevents_only_writing(tmp_path: Path) -> None:
    table = it.open(table_with(tmp_path, protocol(3, 3, writerFeatures=["rowIds"])))
    assert paths(table) == ["a"]
    with pytest.raises(it.ProtocolUnsupported, match="needs the features rowIds to write"):
        table.log.commit([add("b")])


def test_a_table_without_protocol_is_readable_and_gets_one_with_the_first_write(tmp_path: Path) -> None:
    """PRT-05."""
    table = it.open(table_with(tmp_path))
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version, paths(table)) == (1, 1, ["a"])
    table.checkpoint()
    assert it.open(tmp_path).protocol.min_reader_version == 1
    table.append([{"id": 1}])
    assert [list(action) for action in table.log.actions(2)][:2] == [["commitInfo"], ["protocol"]]
    for opened in (table, it.open(tmp_path)):
        assert (opened.protocol.min_reader_version, opened.protocol.min_writer_version) == (2, 2)
    table.append([{"id": 2}])
    assert not any("protocol" in action for action in table.log.actions(3))


@pytest.mark.parametrize("start", [(1, 1), (2, 2), (1, 2)])
@pytest.mark.parametrize("to", [(1, 1), (2, 2), (1, 2), (2, 1)])
def test_an_upgrade_never_lowers_a_version(tmp_path: Path, start: tuple[int, int], to: tuple[int, int]) -> None:
    table = it.open(table_with(tmp_path, protocol(*start)))
    version = table.log.upgrade_protocol(*to)
    expected = (max(start[0], to[0]), max(start[1], to[1]))
    assert version == (None if expected == start else 2)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == expected
    assert it.open(tmp_path).protocol == table.protocol


def test_an_upgrade_is_a_commit_of_its_own(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    assert table.log.upgrade_protocol(2, 3) == 2
    assert [list(action) for action in table.log.actions(2)] == [["commitInfo"], ["protocol"]]
    assert table.history().column("operation").to_pylist()[0] == "upgrade_protocol"


def test_an_upgrade_keeps_the_feature_that_marks_our_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    table.log.upgrade_protocol(4, 4)
    assert table.protocol.reader_features == table.protocol.writer_features == ["arrowRowStore"]
    table.append(rows(100, 5))
    table.merge_splits()
    table.checkpoint()
    table.purge()
    assert it.open(tmp_path / "t").count() == 15


def test_an_upgrade_does_not_take_over_a_foreign_table(tmp_path: Path) -> None:
    table = it.open(table_with(tmp_path, protocol(2, 2)))
    table.log.upgrade_protocol(3, 3)
    assert table.protocol.reader_features is None


@pytest.mark.parametrize("bad", [(0, 2), (2, 0), (5, 5), (-1, 2), ("3", 3), (True, 2), (2.0, 2), (None, 2)])
def test_an_invalid_version_is_refused(tmp_path: Path, bad: tuple[Any, Any]) -> None:
    table = it.open(table_with(tmp_path, protocol()))
    before = tree(tmp_path)
    with pytest.raises(it.IndexTablesError, match="is not a whole number from 1 to 4"):
        table.log.upgrade_protocol(*bad)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("versions", [(3, 3), (4, 4), (2, 3), (3, 2)])
def test_a_foreign_table_is_written_only_with_take_over(tmp_path: Path, versions: tuple[int, int]) -> None:
    path = table_with(tmp_path, protocol(*versions, writerFeatures=["footerOffsets"]))
    before = tree(path)
    with pytest.raises(it.ProtocolUnsupported, match=r"storage\.takeOver"):
        it.open(path).append([{"id": 1}])
    assert tree(path) == before
    table = it.open(path, options={"storage.takeOver": True})
    table.append([{"id": 1}])
    assert "arrowRowStore" in (table.protocol.reader_features or [])
    assert table.protocol.writer_features == ["arrowRowStore", "footerOffsets", "schemaDeduplication"]
    assert it.open(path).append([{"id": 2}]).version == 3
