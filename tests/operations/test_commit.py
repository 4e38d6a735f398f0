"""The log's own door: typed actions or dicts, checked like every commit; the change feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.actions import Add, Protocol
from indextables.api import create_table, open_table
from indextables.operations.commit import _Given
from indextables.table.context import TableContext
from tests.support.tables import SCHEMA, FakeTime, make, rows, tree


def spelled(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 3, "modificationTime": 1, "dataChange": True, "numRecords": 2, **more}}


def test_dicts_and_typed_actions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    assert table.log.commit([spelled("a.split"), spelled("b.split")], operation="load by hand") == 1
    typed = Add(path="c.split", partition_values={}, size=1, modification_time=1, data_change=True)
    assert table.log.commit([{"remove": {"path": "a.split"}}, typed]) == 2
    assert table.version == 2
    assert sorted(table.files().column("path").to_pylist()) == ["b.split", "c.split"]
    assert [entry["operation"] for entry in table.history().to_pylist()] == ["commit", "load by hand", "create"]
    actions = table.log.actions(1)
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add", "add"]
    assert actions[1] == spelled("a.split")


BAD: list[tuple[list[Any], type[Exception], str]] = [
    ([], it.InvalidArgument, "at least one"),
    ([{"nosuch": {}}], it.InvalidArgument, "nosuch"),
    ([{"add": {"path": "x"}}], it.InvalidArgument, "partitionValues"),
    ([{"add": 5}], it.InvalidArgument, "5"),
    ([spelled("x") | {"remove": {"path": "y"}}], it.InvalidArgument, "remove"),
    ([5], it.InvalidArgument, "5"),
    ([{"commitInfo": {"id": "x", "timestamp": 1}}], it.InvalidArgument, "x"),
    ([spelled("../x")], it.UnsafePath, "../x"),
    ([{"remove": {"path": "/etc/passwd"}}], it.UnsafePath, "passwd"),
    ([spelled("x", size=float("nan"))], it.InvalidArgument, "nan"),
    ([{"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}}], it.InvalidArgument, "only go up"),
    ([{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}], it.ProtocolUnsupported, "99"),
    ([{"metaData": {"id": "x", "schemaString": '{"fields":[]}'}}], it.SchemaMismatch, "schema"),
]


@pytest.mark.parametrize(("actions", "error", "named"), BAD)
def test_bad_actions_commit_nothing(tmp_path: Path, actions: list[Any], error: type[Exception], named: str) -> None:
    table = make(tmp_path / "t", partition_by=[])
    before = tree(tmp_path)
    with pytest.raises(error, match=named):
        table.log.commit(actions)
    assert tree(tmp_path) == before


def test_what_is_removed_must_still_be_there(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    table.log.commit([spelled("a.split")])
    table.log.commit([{"remove": {"path": "a.split"}}])
    # Decided when a.split was live, committed when it is gone.
    build = _Given([Add(path="b", partition_values={}, size=1, modification_time=1, data_change=True)], "swap", frozenset({"a.split"}))
    with pytest.raises(it.ConcurrentConflict, match=r"a\.split"):
        build(TableContext.at(tmp_path / "t").snapshot())


def test_configuration_may_change(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[], **{"state.format": "json"})
    metadata = table.log.actions(0)[1]["metaData"]
    metadata["configuration"] = {"spark.indextables.merge.targetSize": "9M"}
    table.log.commit([{"metaData": metadata}, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}])
    assert it.open(tmp_path / "t").configuration == {"spark.indextables.merge.targetSize": "9M"}
    assert table.protocol == Protocol(min_reader_version=2, min_writer_version=2)


def test_changes(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2, partition_by=[])
    table.merge_splits()
    feed = table.changes(0).to_pylist()
    assert [(row["version"], row["change"]) for row in feed] == [(1, "add"), (2, "add"), (3, "remove"), (3, "remove"), (3, "add")]
    assert [row["data_change"] for row in feed] == [True, True, False, False, False]
    assert table.changes(1, 2).column("num_records").to_pylist() == [10]
    assert table.changes(3).num_rows == 0
    for start, end, error in (
        (4, None, it.InvalidArgument),
        (0, 9, it.VersionNotFound),
        (-2, None, it.InvalidArgument),
        (2, 1, it.InvalidArgument),
    ):
        with pytest.raises(error):
            table.changes(start, end)


def test_expired_changes_are_not_guessed(tmp_path: Path) -> None:
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, options={"state.format": "json"}, clock=time.clock())
    for number in range(3):
        table.append(rows(number, 1))
    table.checkpoint()
    time.pass_days(40)
    table.append(rows(9, 1))
    table.purge(log_retention="30d")
    with pytest.raises(it.VersionNotFound, match=r"version 1 .* expired"):
        table.changes(0)
    assert open_table(tmp_path / "t").changes(3).num_rows == 1


def test_transaction_numbers_are_forgotten_after_a_while(tmp_path: Path) -> None:
    time = FakeTime()
    table = create_table(tmp_path / "t", SCHEMA, clock=time.clock())
    table.append(rows(0, 1), txn=("old", 1))
    time.pass_days(20)
    table.append(rows(1, 1), txn=("young", 1))
    time.pass_days(20)
    table.checkpoint()
    again = open_table(tmp_path / "t", clock=time.clock())
    assert again.append(rows(1, 1), txn=("young", 1)).status == "no_action"
    assert again.append(rows(0, 1), txn=("old", 1)).status == "success"
