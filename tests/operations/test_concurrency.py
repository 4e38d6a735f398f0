"""Processes write to one table: one winner per version, nothing lost or duplicated (CON-06). Kills: tests/contract/test_kills.py."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.actions import Add
from indextables.operations import verbs
from indextables.operations.write import run as write
from indextables.paths import TableRoot
from indextables.storage import StoreSpec
from indextables.table.context import TableContext
from indextables.table.snapshot import Snapshot
from indextables.table.transaction import Draft, transact
from tests.support.intercepted_store import Call, Interceptor, Perform, intercepting
from tests.support.killed_writers import WRITERS, commit_many
from tests.support.racing import light_processes
from tests.support.tables import SCHEMA, FakeTime, ids, make, rows, write_version

COMMITS = 12


def test_eight_processes_race_for_versions(tmp_path: Path) -> None:
    make(tmp_path / "t")
    with light_processes().Pool(WRITERS) as pool:
        made = pool.starmap(commit_many, [(StoreSpec(TableRoot(str(tmp_path / "t"))), writer, COMMITS) for writer in range(WRITERS)])
    assert sorted(version for versions in made for version in versions) == list(range(1, WRITERS * COMMITS + 1))
    table = it.open(tmp_path / "t")
    expected = {f"w{writer}-{number}.split": made[writer][number] for writer in range(WRITERS) for number in range(COMMITS)}
    files = table.files()
    assert dict(zip(files.column("path").to_pylist(), files.column("added_at_version").to_pylist(), strict=True)) == expected
    assert [p.name for p in (tmp_path / "t" / "_transaction_log").iterdir() if p.name.startswith(".tmp-")] == []


def racing(path: Path, wins: int) -> tuple[TableContext, FakeTime]:
    """A context in which another writer commits first `wins` times."""
    time, left = FakeTime(), [wins]

    def slower(call: Call, perform: Perform) -> Any:
        if call.commits and left[0]:
            left[0] -= 1
            write_version(path, int(Path(call.path).stem), {"commitInfo": {"id": "other", "timestamp": 1, "operation": "append"}})
        return perform()

    with intercepting(path, slower):
        return TableContext.at(path, clock=time.clock()), time


def empty_add(_: Snapshot) -> Draft:
    return Draft([Add(path="mine.split", partition_values={}, size=1, modification_time=0, data_change=True)])


def test_a_lost_race_is_retried_on_the_new_base_with_growing_pauses(tmp_path: Path) -> None:
    make(tmp_path / "t")
    context, clock = racing(tmp_path / "t", 5)
    outcome = transact(context.log, context.snapshot(), "append", empty_add, config=context.config, clock=context.clock)
    assert outcome.version == 6
    assert len(clock.slept) == 5
    assert all(0 <= pause <= min(0.1 * 2**n, 5) for n, pause in enumerate(clock.slept))


def test_a_writer_gives_up_after_the_maximum_number_of_attempts(tmp_path: Path) -> None:
    make(tmp_path / "t")
    context, clock = racing(tmp_path / "t", 10)
    with pytest.raises(it.ConcurrentConflict, match="10 times") as caught:
        transact(context.log, context.snapshot(), "append", empty_add, config=context.config, clock=context.clock)
    assert caught.value.retryable
    assert caught.value.exit_code == 75
    assert context.totals(context.snapshot()).num_files == 0
    assert max(clock.slept) <= 5
    assert len(clock.slept) == 9, "no pause follows the last attempt"


def test_a_writer_with_one_attempt_names_the_version_it_tried(tmp_path: Path) -> None:
    make(tmp_path / "t")
    context, clock = racing(tmp_path / "t", 10)
    config = context.config.with_table({"spark.indextables.transaction.retry.maxAttempts": "1"})
    with pytest.raises(it.ConcurrentConflict, match=r"log version 1 - .* lost to other writers once, and"):
        transact(context.log, context.snapshot(), "append", empty_add, config=config, clock=context.clock)
    assert clock.slept == []


def test_overwrite_rebuilds_on_the_new_base(tmp_path: Path) -> None:
    """A concurrent append is replaced, too: the table has the rows of the last commit."""
    stale = make(tmp_path / "t", appends=1)
    it.open(tmp_path / "t").append(rows(10, 10))
    report = stale.overwrite(rows(100, 3))
    assert report.base_version == 2
    assert ids(it.open(tmp_path / "t")) == [100, 101, 102]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_splits_for_other_columns_are_not_committed(tmp_path: Path, mode: str) -> None:
    """Another program changes the schema while the splits are written."""
    table = make(tmp_path / "t", partition_by=[])
    metadata = table.log.actions(0)[1]["metaData"]
    schema = json.loads(metadata["schemaString"])
    schema["fields"].append({"name": "later", "type": "long", "nullable": True, "metadata": {}})

    def slowly() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(rows(0, 3), schema=SCHEMA)
        write_version(tmp_path / "t", 1, {"metaData": {**metadata, "schemaString": json.dumps(schema)}})

    message = rf"{mode} wrote splits for the schema .*, but another commit up to version 1 changed it to"
    with pytest.raises(it.ConcurrentConflict, match=message):
        getattr(table, mode)(slowly())
    assert it.open(tmp_path / "t").version == 1
    assert it.open(tmp_path / "t").append([{"id": 1, "later": 2}]).version == 2


def test_a_commit_that_succeeded_despite_an_error_is_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a retry by the caller would duplicate the rows."""
    table = make(tmp_path / "t")
    real = os.link

    def link(source: object, target: object) -> None:
        real(source, target)
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "link", link)
    report = table.append(rows(0, 3))
    assert (report.status, report.version) == ("success", 1)
    monkeypatch.undo()
    assert ids(it.open(tmp_path / "t")) == [0, 1, 2]


def test_a_commit_that_cannot_be_read_back_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")

    def link(source: object, target: object) -> None:
        Path(str(target)).write_bytes(b"half")
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(it.CommitUnknown, match="version 1 may have been written"):
        table.append(rows(0, 3))


def test_a_later_commit_of_another_writer_does_not_affect_the_result(tmp_path: Path) -> None:
    """No error after the commit, since callers would repeat it, and the handle shows its own commit."""
    make(tmp_path / "t")

    def commit_next() -> None:
        write_version(tmp_path / "t", 2, {"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}})

    with intercepting(tmp_path / "t", after_the_commit(commit_next)):
        table = it.open(tmp_path / "t")
        report = table.append(rows(0, 3))
    assert (report.status, report.version, table.version) == ("success", 1, 1)


def after_the_commit(work: Callable[[], object]) -> Interceptor:
    """Does the work right after the next version file was created, before its writer knows."""
    left = [work]

    def intercept(call: Call, perform: Perform) -> Any:
        result = perform()
        if call.commits and left:
            left.pop()()
        return result

    return intercept


@pytest.mark.parametrize("missed", [1, 4])
def test_an_expired_version_number_is_not_reused(tmp_path: Path, missed: int) -> None:
    """A writer on an old base can create a version file that purge deleted; readers would never see it."""
    table = make(tmp_path / "t", **{"state.format": "json"})
    context = TableContext.at(tmp_path / "t")
    late = write.prepare_write(verbs.Write(), context)
    adds = late.task.write(iter([pa.RecordBatch.from_pylist(rows(100, 3), schema=SCHEMA)]))
    for number in range(missed + 1):
        table.append(rows(number, 1))
    table.checkpoint()
    time.sleep(0.002)
    assert table.purge(log_retention="0s").metrics["versions_deleted"] == missed
    report, snapshot = write.commit_write(late, adds)
    assert report.version == snapshot.version == missed + 2
    assert ids(it.open(tmp_path / "t")) == [*range(missed + 1), 100, 101, 102]
    assert sorted(os.listdir(tmp_path / "t" / "_transaction_log"))[1:] == [
        f"{missed + 1:020d}.checkpoint.json",
        f"{missed + 1:020d}.json",
        f"{missed + 2:020d}.json",
        "_last_checkpoint",
    ]


def test_a_commit_that_is_truncated_at_once_stands(tmp_path: Path) -> None:
    """Looks the same as the case above, but the version was ours: the rows must not be written twice."""
    make(tmp_path / "t", appends=1)

    def overtake() -> None:
        other = it.open(tmp_path / "t")
        other.append(rows(50, 1))
        other.merge_splits()
        other.checkpoint()

    with intercepting(tmp_path / "t", after_the_commit(overtake)):
        assert it.open(tmp_path / "t").append(rows(10, 3)).version == 2
    assert ids(it.open(tmp_path / "t")) == [*range(13), 50]


def test_a_commit_without_splits_that_a_checkpoint_covers_at_once_stands(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=1)

    def overtake() -> None:
        other = it.open(tmp_path / "t")
        other.append(rows(50, 1))
        other.checkpoint()

    with intercepting(tmp_path / "t", after_the_commit(overtake)):
        table = it.open(tmp_path / "t")
        assert (table.overwrite([]).version, table.version) == (2, 2)
    assert ids(it.open(tmp_path / "t")) == [50]
    assert it.open(tmp_path / "t", 2).count() == 0
