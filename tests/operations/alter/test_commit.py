"""`table.log.commit`, which takes typed actions or dicts and checks them like every commit, and the change feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import indextables as it
from indextables.actions import Add, Protocol
from indextables.api import create_table, open_table
from tests.support.tables import SCHEMA, FakeTime, make, rows, tree


def add_action(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 3, "modificationTime": 1, "dataChange": True, "numRecords": 2, **more}}


def test_dicts_and_typed_actions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    assert table.log.commit([add_action("a.split"), add_action("b.split")], operation="manual load") == 1
    typed = Add(path="c.split", partition_values={}, size=1, modification_time=1, data_change=True)
    assert table.log.commit([{"remove": {"path": "a.split"}}, typed]) == 2
    assert table.version == 2
    assert sorted(table.files().column("path").to_pylist()) == ["b.split", "c.split"]
    assert [entry["operation"] for entry in table.history().to_pylist()] == ["commit", "manual load", "create"]
    actions = table.log.actions(1)
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add", "add"]
    assert actions[1] == add_action("a.split")


BAD: list[tuple[list[Any], type[Exception], str]] = [
    ([], it.InvalidArgument, "at least one"),
    ([{"nosuch": {}}], it.InvalidArgument, "nosuch"),
    ([{"add": {"path": "x"}}], it.InvalidArgument, "partitionValues"),
    ([{"add": 5}], it.InvalidArgument, "5"),
    ([add_action("x") | {"remove": {"path": "y"}}], it.InvalidArgument, "remove"),
    ([5], it.InvalidArgument, "5"),
    ([{"commitInfo": {"id": "x", "timestamp": 1}}], it.InvalidArgument, "x"),
    ([add_action("../x")], it.UnsafePath, "../x"),
    ([{"remove": {"path": "/etc/passwd"}}], it.UnsafePath, "passwd"),
    ([add_action("x", size=float("nan"))], it.InvalidArgument, "nan"),
    ([{"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}}], it.InvalidArgument, "cannot be lowered"),
    ([{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}], it.ProtocolUnsupported, "99"),
    ([{"metaData": {"id": "x", "schemaString": '{"fields":[]}'}}], it.SchemaMismatch, "schema"),
    ([{"protocol": {"minReaderVersion": 4, "minWriterVersion": 4}}], it.InvalidArgument, "removes arrowRowStore, avroState"),
    ([{"txn": {"appId": name, "version": 1}} for name in "ab"], it.InvalidArgument, "at most one txn"),
    ([{"protocol": {"minReaderVersion": 4, "minWriterVersion": 4}}] * 2, it.InvalidArgument, "at most one protocol"),
    ([add_action("a\udc00")], it.InvalidArgument, "is not an action"),
    ([Add(path="a\udc00", partition_values={}, size=1, modification_time=1, data_change=True)], it.InvalidArgument, "not written"),
    ([Add(path="a", partition_values={}, size=-1, modification_time=1, data_change=True)], it.InvalidArgument, "not written"),
    ([Add(path="a", partition_values={}, size="1", modification_time=1, data_change=True)], it.InvalidArgument, "not written"),  # type: ignore[arg-type]
    ([Add(path="a", partition_values={}, size=1, modification_time=2**70, data_change=True)], it.InvalidArgument, "not written"),
    ([add_action("a", docMappingJson="x" * (9 << 20))], it.InvalidArgument, "longer than"),
    (None, it.InvalidArgument, "None is not a list of actions"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("actions", "error", "named"), BAD, ids=range(len(BAD)))
def test_bad_actions_commit_nothing(tmp_path: Path, actions: list[Any], error: type[Exception], named: str) -> None:
    table = make(tmp_path / "t", partition_by=[])
    before = tree(tmp_path)
    with pytest.raises(error, match=named):
        table.log.commit(actions)
    assert tree(tmp_path) == before


def test_a_removed_file_must_be_live(tmp_path: Path) -> None:
    make(tmp_path / "t", partition_by=[]).log.commit([add_action("a.split")])
    stale = it.open(tmp_path / "t")
    it.open(tmp_path / "t").log.commit([{"remove": {"path": "a.split"}}])
    before = tree(tmp_path)
    with pytest.raises(it.ConcurrentConflict, match=r"swap read 'a\.split', which another commit up to version 2 removed"):
        stale.log.commit([{"remove": {"path": "a.split"}}, add_action("b.split")], operation="swap")
    assert tree(tmp_path) == before


def described(table: it.Table, **changed: Any) -> dict[str, Any]:
    """The metadata of a handle in its log form, with changes."""
    return {"metaData": {**msgspec.to_builtins(table.metadata), **changed}}


def test_a_concurrent_change_of_metadata_is_a_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    stale = it.open(tmp_path / "t")
    table.append(rows(0, 3))  # adds a doc mapping to the metadata, which is no conflict
    first = described(stale, name="logs", configuration={"spark.indextables.merge.targetSize": "9M"})
    assert stale.log.commit([first]) == 2
    before = tree(tmp_path)
    mine = described(table, configuration={"spark.indextables.checkpoint.interval": "7"})
    with pytest.raises(it.ConcurrentConflict, match=r"whose name, spark\.indextables\.merge\.targetSize .* up to version 2 changed"):
        table.log.commit([mine])
    assert tree(tmp_path) == before
    table.refresh()
    assert table.log.commit([mine]) == 3
    assert table.configuration == {"spark.indextables.checkpoint.interval": "7"}
    assert table.count() == 3


@pytest.mark.parametrize(
    ("changed", "error", "named"),
    [
        ({"id": "another"}, it.InvalidArgument, "id from .* to 'another'"),
        ({"schemaString": "{}"}, it.InvalidArgument, "not a Spark schema"),
        ({"partitionColumns": ["date"]}, it.SchemaMismatch, "partition columns"),
        ({"configuration": {"spark.indextables.checkpoint.interval": "x"}}, it.ConfigError, r"checkpoint\.interval = 'x'"),
    ],
)
def test_invalid_metadata_is_refused(tmp_path: Path, changed: dict[str, Any], error: type[Exception], named: str) -> None:
    table = make(tmp_path / "t", partition_by=[])
    before = tree(tmp_path)
    with pytest.raises(error, match=named):
        table.log.commit([described(table, **changed)])
    assert tree(tmp_path) == before


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
    early = it.open(tmp_path / "t", version=1)
    assert early.changes(0).column("version").to_pylist() == [1]
    assert early.changes(0, 3).to_pylist() == feed  # also versions after that of the handle
    assert early.version == 1


def test_changes_of_expired_versions_are_refused(tmp_path: Path) -> None:
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


def test_transaction_numbers_expire(tmp_path: Path) -> None:
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


def test_a_txn_among_the_actions_commits_once(tmp_path: Path) -> None:
    """A-02: a retry commits nothing, and an older attempt cannot commit after a newer one."""
    table = make(tmp_path / "t", partition_by=[])

    def attempt(number: int, path: str) -> int | None:
        return it.open(tmp_path / "t").log.commit([{"txn": {"appId": "job", "version": number}}, add_action(path)])

    assert [attempt(7, "a"), attempt(7, "b"), attempt(9, "c"), attempt(8, "late"), attempt(7, "d")] == [1, 1, 2, None, 1]
    assert sorted(table.refresh().files().column("path").to_pylist()) == ["a", "c"]
    assert table.log.commit([{"txn": {"appId": "other", "version": 1}}]) == 3, "a txn alone is a commit, too"
    assert [next(iter(action)) for action in table.log.actions(3)] == ["commitInfo", "txn"]


@pytest.mark.parametrize("operation", ["", 7, None, "a\udc00"])
def test_an_operation_must_be_a_string(tmp_path: Path, operation: Any) -> None:
    table = make(tmp_path / "t", partition_by=[])
    before = tree(tmp_path)
    with pytest.raises(it.InvalidArgument):
        table.log.commit([add_action("a")], operation=operation)
    assert tree(tmp_path) == before


def test_an_environment_that_is_no_text_stops_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_JOB_ID", "job\udcff")
    monkeypatch.setenv("LOGNAME", "me\udcff")
    table = make(tmp_path / "t", partition_by=[])
    assert table.log.commit([add_action("a")]) == 1
    (newest, _) = table.history().to_pylist()
    assert (newest["job_id"], newest["user"]) == ("job?", "me?")


@pytest.mark.parametrize("version", [True, "1", 1.0, b"1"])
def test_a_version_must_be_an_integer(tmp_path: Path, version: Any) -> None:
    table = make(tmp_path / "t", appends=1)
    for call in (lambda: it.open(tmp_path / "t", version=version), lambda: table.log.actions(version), lambda: table.changes(version)):
        with pytest.raises(it.InvalidArgument):
            call()


@pytest.mark.parametrize("txn", ["ab", ("a",), ("a", 1, 2), ("", 1), (5, 1), ("a", "1"), ("a", True), ("a", 2**63), ("a", -(2**63) - 1), 7])
def test_a_txn_that_readers_would_refuse_writes_nothing(tmp_path: Path, txn: Any) -> None:
    """Otherwise it would make the table unreadable."""
    table = make(tmp_path / "t", appends=1)
    before = tree(tmp_path)
    with pytest.raises(it.InvalidArgument, match=r"txn .* is not a pair of an application name"):
        table.append(rows(50, 1), txn=txn)
    assert tree(tmp_path) == before


def test_files_that_the_handle_has_read_must_still_be_live(tmp_path: Path) -> None:
    """C-31: only one of two writers that replace the same split commits; otherwise its rows would be duplicated."""
    table = make(tmp_path / "t", partition_by=[])
    table.log.commit([add_action("a")])
    other = it.open(tmp_path / "t")
    table.log.commit([{"remove": {"path": "a"}}, add_action("b")])
    before = tree(tmp_path)
    with pytest.raises(it.ConcurrentConflict, match="read 'a', which another commit up to version 2 removed; nothing was committed"):
        other.log.commit([{"remove": {"path": "a"}}, add_action("c")])
    assert tree(tmp_path) == before
    assert other.refresh().log.commit([{"remove": {"path": "a"}}]) == 3, "a handle that knows of the removal may repeat it"
