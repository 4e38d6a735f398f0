"""Merges in batches and passes: each batch is a commit, a failed batch does not affect others, and the report has the totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.actions import Add, Remove
from indextables.operations import verbs
from indextables.operations.executor import in_threads
from indextables.operations.merge import run as merge_splits
from indextables.operations.merge.plan import merge_options, plan_merge
from indextables.operations.merge.task import Merged
from indextables.rows.uncommitted_splits import describe_uncommitted
from indextables.state.checkpoints.avro.state_files import read_state_manifest
from indextables.table.context import TableContext
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.tables import ids, make, rows

DAYS = 6


def with_days(path: Path, **options: Any) -> it.Table:
    """Six partitions of two splits each: the plan has six groups."""
    table = make(path, **options)
    for number in range(2):
        table.append(rows(number * 30, 30, days=DAYS))
    return table


@dataclass
class RecordingExecutor:
    """An executor that records its batches and fails for chosen ones."""

    failing: frozenset[int] = frozenset()
    error: Exception = field(default_factory=lambda: it.StorageError("the store did not answer"))
    after: bool = False  # it fails after the work
    workers: int = 2
    runs_locally: bool = True
    batches: list[int] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)

    def __call__(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.batches.append(len(items))
        fails = len(self.batches) - 1 in self.failing
        if fails and not self.after:
            raise self.error
        found = in_threads(work, items)
        self.merged += found
        if fails:
            raise self.error
        return found


def merge(path: Path, executor: Any = in_threads, options: dict[str, Any] | None = None, **arguments: Any) -> tuple[Any, it.Table]:
    context = TableContext.at(path, options)
    report, snapshot = merge_splits.merge_splits(verbs.MergeSplits(**arguments), context, context.snapshot(), executor)
    return report, it.open(path, snapshot.version)


def test_each_batch_is_one_commit_of_removes_and_adds(tmp_path: Path) -> None:
    with_days(tmp_path / "t")
    recorder = RecordingExecutor()
    report, table = merge(tmp_path / "t", recorder, {"merge.batchSize": "2"})
    assert recorder.batches == [2, 2, 2]
    assert (report.status, report.base_version, report.version, report.warnings) == ("success", 2, 5, [])
    assert {name: report.metrics[name] for name in ("groups", "files_added", "files_removed", "rows", "commits")} == {
        "groups": 6, "files_added": 6, "files_removed": 12, "rows": 60, "commits": 3,
    }  # fmt: skip
    for version in (3, 4, 5):
        actions = table._context.log.read(version).actions
        kinds = [type(action) for action in actions if isinstance(action, Add | Remove)]
        assert kinds == [Remove] * 4 + [Add] * 2, "LOG-10"
        assert not any(action.data_change for action in actions if isinstance(action, Add | Remove))
    assert ids(table) == list(range(60))
    assert table.verify(deep=True) == []


def test_by_default_small_groups_are_one_commit(tmp_path: Path) -> None:
    with_days(tmp_path / "t")
    recorder = RecordingExecutor()
    report, _ = merge(tmp_path / "t", recorder)
    assert (recorder.batches, report.version) == ([6], 3)


@pytest.mark.parametrize("after", [False, True])
def test_a_failed_batch_does_not_stop_the_others(tmp_path: Path, after: bool) -> None:
    """Its merged splits are named and not committed; the next run merges them again."""
    with_days(tmp_path / "t")
    recorder = RecordingExecutor(frozenset({1}), after=after)
    report, table = merge(tmp_path / "t", recorder, {"merge.batchSize": "2"})
    assert recorder.batches == [2, 2, 2], "no later pass retries the failed batch"
    assert (report.status, report.version, report.metrics["groups"], report.metrics["commits"]) == ("partial", 4, 4, 2)
    assert report.warnings[0] == "the store did not answer"
    assert ids(table) == list(range(60))
    again, table = merge(tmp_path / "t")
    assert (again.status, again.metrics["groups"]) == ("success", 2)
    assert table.files().num_rows == DAYS
    assert ids(table) == list(range(60))


def test_merged_splits_of_a_failed_commit_are_named(tmp_path: Path) -> None:
    with_days(tmp_path / "t")
    recorder, calls = RecordingExecutor(), [0]

    def unanswered(call: Call, perform: Perform) -> Any:
        calls[0] += call.commits
        if call.commits and calls[0] == 2:
            raise it.StorageError("no answer at the second commit")
        return perform()

    with intercepting(tmp_path / "t", unanswered):
        report, table = merge(tmp_path / "t", recorder, {"merge.batchSize": "2"})
    lost = [result.add.path for result in recorder.merged[2:4] if result.add is not None]
    assert len(lost) == 2
    assert report.warnings == [f"no answer at the second commit; {describe_uncommitted(lost)}"]
    assert (report.status, report.version) == ("partial", 4)
    for path in lost:
        assert (tmp_path / "t" / path).exists()
        assert path not in table.files().column("path").to_pylist()
    assert ids(table) == list(range(60))


def test_an_unknown_commit_outcome_is_a_warning(tmp_path: Path) -> None:
    """The commit succeeded and its answer was lost. Nothing is deleted and no row is duplicated."""
    with_days(tmp_path / "t")
    calls = [0]

    def unanswered(call: Call, perform: Perform) -> Any:
        made = perform()
        calls[0] += call.commits
        if call.commits and calls[0] == 1:
            raise it.CommitUnknown("version 3 may have been written")
        return made

    with intercepting(tmp_path / "t", unanswered):
        report, table = merge(tmp_path / "t", options={"merge.batchSize": "3"})
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith(
        "version 3 may have been written; unless that version contains them, 3 splits are not referenced by any version; purge will"
    )
    assert (table.version, table.files().num_rows) == (4, DAYS)
    assert ids(table) == list(range(60))


def test_if_all_batches_fail_the_first_error_is_raised(tmp_path: Path) -> None:
    with_days(tmp_path / "t")
    recorder = RecordingExecutor(frozenset(range(3)))
    with pytest.raises(it.StorageError, match="did not answer"):
        merge(tmp_path / "t", recorder, {"merge.batchSize": "2"})
    assert it.open(tmp_path / "t").version == 2


def test_a_failing_group_does_not_affect_others(tmp_path: Path) -> None:
    table = with_days(tmp_path / "t")
    unlucky = table.files("date = '2024-01-03'").column("path")[0].as_py()

    def full(call: Call, perform: Perform) -> Any:
        if (call.verb, call.path) == ("local_path", unlucky):
            raise OSError(28, "No space left on device")
        return perform()

    with intercepting(tmp_path / "t", full):
        report, _ = merge(tmp_path / "t")
    table = it.open(tmp_path / "t")
    assert (report.status, report.metrics["groups"], report.version) == ("partial", 5, 3)
    assert report.warnings == [f"2 splits, the oldest {unlucky!r}, could not be merged: [Errno 28] No space left on device"]
    assert ids(table) == list(range(60))


@pytest.mark.parametrize("verb", ["local_path", "upload"])
def test_a_damaged_source_of_a_failing_group_is_recorded(tmp_path: Path, verb: str) -> None:
    """Otherwise the next merge would fetch it again."""
    table = make(tmp_path / "t", appends=3, partition_by=[])
    lost, *_, last = (str(path) for path in table.files().column("path").to_pylist())
    (tmp_path / "t" / lost).unlink()

    def failing(call: Call, perform: Perform) -> Any:
        if call.verb == verb and (verb == "upload" or call.path == last):
            raise it.StorageError("the store did not answer")
        return perform()

    with intercepting(tmp_path / "t", failing):
        report, table = merge(tmp_path / "t")
    assert (report.status, report.metrics["files_skipped"], table.files().num_rows) == ("partial", 1, 3)
    assert report.warnings == ["the store did not answer", f"split {lost!r} is missing from the table"]
    assert list(table._snapshot.skips) == [lost]


def test_passes_are_repeated_until_nothing_is_left(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=8, each=5, partition_by=[])
    report = table.merge_splits(max_source_splits=2)
    assert (report.version, report.metrics["groups"], report.metrics["commits"]) == (11, 4 + 2 + 1, 3)
    assert table.files().column("num_merge_ops").to_pylist() == [3]
    assert ids(table) == list(range(40))
    assert table.merge_splits(max_source_splits=2).status == "no_action"


def test_the_number_of_passes_is_limited(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=8, each=5, partition_by=[])
    options = {"merge.maxPasses": "2", "merge.maxSourceSplitsPerMerge": "2"}
    report = it.open(tmp_path / "t", options=options).merge_splits()
    assert (report.version, it.open(tmp_path / "t").files().num_rows) == (10, 2)


def test_max_dest_splits_limits_all_passes_together(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=8, each=5, partition_by=[])
    report = table.merge_splits(max_source_splits=2, max_dest_splits=5)
    assert (report.metrics["groups"], report.metrics["files_added"]) == (5, 5)
    assert ids(table) == list(range(40))


def test_concurrent_appends_wait_for_the_next_merge(tmp_path: Path) -> None:
    """Otherwise each small append would rewrite the merged split."""
    table = make(tmp_path / "t", appends=4, each=5, partition_by=[])
    recorder = RecordingExecutor()
    real = RecordingExecutor.__call__

    class Interrupted(RecordingExecutor):
        def __call__(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            table.append(rows(100 * len(recorder.batches) + 100, 5))
            return real(recorder, work, items)

    report, after = merge(tmp_path / "t", Interrupted())
    assert (recorder.batches, report.base_version, report.version, report.metrics["groups"]) == ([1], 5, 6, 1)
    assert after.files().num_rows == 2
    assert ids(after) == [*range(20), *range(100, 105)]


def test_options_and_arguments(tmp_path: Path) -> None:
    """An argument takes precedence over `merge.skipSplitThreshold` and `merge.maxSourceSplitsPerMerge` of the table."""
    table = make(tmp_path / "t", appends=4, partition_by=[], **{"merge.maxSourceSplitsPerMerge": "2"})
    assert [len(step["sources"]) for step in table.merge_splits(dry_run=True).plan or ()] == [2, 2]
    assert [len(step["sources"]) for step in table.merge_splits(max_source_splits=3, dry_run=True).plan or ()] == [3]
    none = it.open(tmp_path / "t", options={"merge.skipSplitThreshold": "0"})
    assert none.merge_splits().status == "no_action"
    for key, bad in (("merge.skipSplitThreshold", "1.5"), ("merge.maxSourceSplitsPerMerge", "1"), ("merge.targetSize", "10K")):
        with pytest.raises(it.ConfigError, match=bad):
            it.open(tmp_path / "t", options={key: bad})


def test_groups_are_ordered_by_number_of_sources_then_age(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for days in (1, 2, 2):  # the first date has three splits, the second two
        table.append(rows(0, 4, days=days))
    for start in (2, 3):  # the third has two splits, too
        table.append([{**rows(start, 1)[0], "date": rows(2, 1, days=3)[0]["date"]}])
    plan_ = table.merge_splits(dry_run=True).plan or ()
    assert [step["partition"]["date"] for step in plan_] == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert [len(step["sources"]) for step in plan_] == [3, 2, 2]


def test_the_state_is_compacted_once_at_the_end(tmp_path: Path) -> None:
    """CMP-05; checkpoints due between batches are written, too."""
    table = with_days(tmp_path / "t", **{"merge.batchSize": "1", "checkpoint.interval": "4"})
    table.checkpoint()
    report = table.merge_splits()
    assert (report.version, report.metrics["commits"]) == (8, 6)
    context = TableContext.at(tmp_path / "t")
    assert context.log.uncached_listing().bases == (2, 6, 8)
    state = read_state_manifest(context.store, 8)
    assert (list(state.tombstones or ()), state.num_files) == ([], DAYS)
    assert ids(it.open(tmp_path / "t")) == list(range(60))


def test_statistics_and_the_schema_registry_are_kept(tmp_path: Path) -> None:
    table = with_days(tmp_path / "t")
    before = table._context.log.read(1).actions
    report = table.merge_splits()
    lines = table.log.actions(report.version or 0)
    adds = [line["add"] for line in lines if "add" in line]
    assert {add["docMappingRef"] for add in adds} == {action.doc_mapping_ref for action in before if isinstance(action, Add)}
    assert not any("docMappingJson" in add or "metaData" in line for add in adds for line in lines)
    table.checkpoint()
    again = it.open(tmp_path / "t")
    for low, high, day in zip(
        *(again.files().column(name).to_pylist() for name in ("min_values", "max_values", "partition_values")), strict=True
    ):
        held = ids(again, f"date = '{dict(day)['date']}'")
        assert (dict(low)["id"], dict(high)["id"]) == (str(held[0]), str(held[-1]))
    assert again.verify(deep=True) == []


def test_a_batch_revalidates_every_source(tmp_path: Path) -> None:
    """After an overwrite of one partition between two batches its group is dropped and the split merged for it is named."""
    table = with_days(tmp_path / "t", **{"merge.batchSize": "3"})
    context = TableContext.at(tmp_path / "t")
    base = context.snapshot()
    planned = plan_merge(context.load(base), merge_options(verbs.MergeSplits(), context.config, base))
    victim = planned.groups[4].partition_values["date"]
    recorder = RecordingExecutor()
    real = RecordingExecutor.__call__

    class Interrupted(RecordingExecutor):
        def __call__(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            found = real(recorder, work, items)
            if len(recorder.batches) == 2:
                table.overwrite([], where=f"date = '{victim}'")
            return found

    report, _ = merge_splits.run_merge(context.for_table(base), planned, Interrupted())
    lost = next(result.add.path for result in recorder.merged if result.add and result.group.partition_values["date"] == victim)
    assert (report.status, report.metrics["groups"], report.version) == ("partial", 5, 5)
    assert len(report.warnings) == 1
    assert f"1 split is not referenced by any version; purge will delete it: {lost!r}" in report.warnings[0]
    fresh = it.open(tmp_path / "t")
    assert ids(fresh, f"date = '{victim}'") == []
    assert len(ids(fresh)) == 50
