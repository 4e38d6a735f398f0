"""Splits of a failed write are named in its error, are not deleted by the writer, and are deleted by purge when they are old."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.actions import Txn
from indextables.errors import CommitUnknown, StorageError
from indextables.operations import verbs
from indextables.operations.expire.purge_files import purge
from indextables.operations.write import run as write
from indextables.rows import uncommitted_splits as leftovers
from indextables.table.context import TableContext
from tests.support.intercepted_store import Call, Interceptor, Perform, intercepting
from tests.support.tables import ids, make, rows


def splits(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.rglob("*.split")}


def check_that_purge_deletes(table: Path, left: set[str]) -> None:
    """When they are old, purge deletes these splits and nothing else."""
    before = splits(table)
    for path in left:
        os.utime(table / path, (0, 0))
    assert purge(verbs.Purge(), TableContext.at(table)).metrics["files_deleted"] == len(left)
    assert splits(table) == before - left


def no_commit(error: BaseException | None = None) -> Interceptor:
    """Another writer always has the number already, or the store fails."""

    def intercept(call: Call, perform: Perform) -> Any:
        if not call.commits:
            return perform()
        if error is not None:
            raise error
        return False

    return intercept


@pytest.mark.parametrize(
    ("failure", "raised", "words"),
    [
        (None, it.ConcurrentConflict, "lost to other writers 2 times"),
        (StorageError("the store went away"), it.StorageError, "went away"),
        (CommitUnknown("version 3 may have been written"), it.CommitUnknown, "unless that version contains them"),
    ],
)
def test_a_commit_that_fails_names_its_splits(tmp_path: Path, failure: Exception | None, raised: type[Exception], words: str) -> None:
    options = {"transaction.retry.maxAttempts": "2", "transaction.retry.baseDelayMs": "1"}
    table = make(tmp_path / "t", appends=2)
    before = splits(tmp_path / "t")
    with intercepting(tmp_path / "t", no_commit(failure)), pytest.raises(raised, match=words) as caught:
        it.open(tmp_path / "t", options=options).append(rows(100, 4))
    left = splits(tmp_path / "t") - before
    assert len(left) == 2
    assert all(repr(path) in str(caught.value) for path in left)
    assert type(caught.value) is raised, "the type of the error does not change, so that callers can decide to retry"
    check_that_purge_deletes(tmp_path / "t", left)
    assert ids(table) == list(range(20))


def test_a_store_that_fails_between_two_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    before = splits(tmp_path / "t")
    done: list[str] = []

    def full(call: Call, perform: Perform) -> Any:
        if call.verb == "upload":
            if done:
                raise StorageError(f"{call.path!r}: no space left on device")
            done.append(call.path)
        return perform()

    with intercepting(tmp_path / "t", full), pytest.raises(it.StorageError, match="no space left") as caught:
        it.open(tmp_path / "t").append(rows(100, 4))
    left = splits(tmp_path / "t") - before
    assert left == set(done)
    assert f"1 split is not referenced by any version; purge will delete it: {done[0]!r}" in str(caught.value)
    check_that_purge_deletes(tmp_path / "t", left)
    assert (table.refresh().version, ids(table)) == (1, list(range(10)))


def test_an_attempt_whose_txn_was_committed_meanwhile_names_its_splits(tmp_path: Path) -> None:
    """The rows are in the table once; a warning names the splits of this attempt."""
    make(tmp_path / "t", appends=1)
    context = TableContext.at(tmp_path / "t")
    slow = write.prepare_write(verbs.Write(txn_app="job", txn_version=1), context)
    adds = slow.task.write(write.batches_of(rows(100, 4), slow.task.settings.schema))
    first = it.open(tmp_path / "t").append(rows(100, 4), txn=("job", 1))
    report, _ = write.commit_write(slow, adds)
    assert (report.status, report.version, report.metrics["files_added"]) == ("no_action", first.version, 0)
    assert all(repr(add.path) in report.warnings[1] for add in adds)
    check_that_purge_deletes(tmp_path / "t", {add.path for add in adds})
    assert ids(it.open(tmp_path / "t")) == [*range(10), *range(100, 104)]


def test_an_interrupted_write_logs_its_splits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "t", appends=1)
    with intercepting(tmp_path / "t", no_commit(KeyboardInterrupt())), pytest.raises(KeyboardInterrupt) as caught:
        it.open(tmp_path / "t").append(rows(100, 4))
    assert caught.value.__notes__[0].startswith("2 splits are not referenced by any version; purge will delete them: ")
    assert caplog.records[-1].event == "splits_left"


def test_the_list_of_splits_is_limited(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    prepared = write.prepare_write(verbs.Write(), TableContext.at(tmp_path / "t"))
    adds = prepared.task.write(write.batches_of(rows(0, 25, days=25), prepared.task.settings.schema))
    paths = [add.path for add in adds]
    assert len(paths) == 25
    text = leftovers.describe_uncommitted(paths)
    assert text.count(".split") == leftovers.SHOWN
    assert text.endswith("and 15 more")
    table.append(rows(0, 2))
    assert sorted(leftovers.find_uncommitted(prepared.context.store, prepared.task.mark)) == sorted(paths)
    assert leftovers.find_uncommitted(prepared.context.store, prepared.task.mark, paths[1:]) == paths[:1]


def test_a_row_outside_the_predicate_leaves_nothing(tmp_path: Path) -> None:
    """It is found before the first split is uploaded, and named, also with a null partition value."""
    make(tmp_path / "t", appends=1)
    before = splits(tmp_path / "t")
    prepared = write.prepare_write(verbs.Write(mode="overwrite", where="date = '2024-01-01'"), TableContext.at(tmp_path / "t"))
    for wrong, named in ((rows(0, 2), "date = '2024-01-02'"), ([row | {"date": None} for row in rows(0, 1)], "date null")):
        with pytest.raises(it.ReplaceWhereViolation, match=named):
            write.write_rows(replace(prepared, txn=Txn(app_id="job", version=1, last_updated=1)), wrong)
    assert splits(tmp_path / "t") == before
    assert it.open(tmp_path / "t").version == 1
