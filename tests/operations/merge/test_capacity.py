"""A merge checks free disk and memory before it starts. Groups that do not fit are skipped with the missing number of bytes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import indextables as it
from indextables import limits
from indextables.operations.merge import capacity
from indextables.operations.merge.capacity import Capacity, Disk, next_batch, split_by_capacity
from indextables.operations.merge.plan import PlannedGroup, not_merged
from indextables.paths import TableRoot
from indextables.storage import StoreSpec
from tests.support.tables import ids, make, rows, tree

MIB = limits.MIB


@dataclass(frozen=True)
class Group:
    size: int


def groups(*sizes: int) -> list[Group]:
    return [Group(size) for size in sizes]


def capacity_of(temp: int, table: int, memory: int | None = None) -> Capacity:
    return Capacity((Disk("/tmp", temp, 2.5, 0), Disk("/data", table, 0, 1)), memory)


def test_groups_that_do_not_fit_are_skipped_with_the_missing_bytes() -> None:
    fit, left = split_by_capacity(groups(100, 10, 50), capacity_of(200, 1000))
    assert [group.size for group in fit] == [10, 50]
    assert left == [(Group(100), "the merge needs 250 bytes of disk in /tmp, but only 200 are free")]
    fit, left = split_by_capacity(groups(100, 100, 100, 5), capacity_of(1000, 205))
    assert [group.size for group in fit] == [100, 100, 5], "merged splits of earlier groups stay on the disk of the table"
    assert left == [(Group(100), "the merge needs 300 bytes of disk in /data, but only 205 are free")]


def test_memory_is_counted_for_each_merge() -> None:
    most = limits.MERGE_MEMORY_FLOOR + 16 * MIB
    fit, left = split_by_capacity(groups(100 * MIB, 1000 * MIB), capacity_of(2**50, 2**50, most))
    assert [group.size for group in fit] == [100 * MIB]
    needed = limits.MERGE_MEMORY_FLOOR + 1000 * MIB // 16
    assert left[0][1] == f"the merge needs {needed} bytes of memory, but only {most} are free"


def test_one_disk_for_both_is_counted_once(tmp_path: Path) -> None:
    (disk,) = Capacity.of(StoreSpec(TableRoot(str(tmp_path / "t"))), runs_locally=True).disks
    if Path(tempfile.gettempdir()).stat().st_dev == tmp_path.stat().st_dev:
        assert (disk.while_merging, disk.afterwards) == (2.5, 1)
        assert str(tmp_path / "t") in disk.folder
    assert disk.needed([100]) == 350
    assert disk.needed([100], kept=50) == 400


def test_the_capacity_of_other_machines_is_unknown(tmp_path: Path) -> None:
    away = Capacity.of(StoreSpec(TableRoot(str(tmp_path))), runs_locally=False)
    assert ([disk.while_merging for disk in away.disks], away.memory) == ([0], None)
    assert Capacity.of(StoreSpec(TableRoot.parse("s3://bucket/t")), runs_locally=False).disks == ()
    assert sum(disk.while_merging for disk in Capacity.of(StoreSpec(TableRoot.parse("s3://bucket/t")), runs_locally=True).disks) == 3.5


@pytest.mark.parametrize(
    ("sizes", "size", "workers", "temp", "expected"),
    [
        ([1] * 10, 3, 2, 2**50, 3),
        ([1] * 10, 0, 2, 2**50, 10),
        ([1] * 3000, 0, 2, 2**50, limits.MERGE_BATCH_GROUPS),
        ([limits.GIB] * 10, 0, 4, 2**50, 4),
        ([limits.GIB // 4] * 10, 0, 2, 2**50, 4),
        ([100] * 10, 5, 4, 500, 2),
        ([100] * 10, 0, 1, 250, 10),
        ([100] * 10, 0, 2, 1, 1),
    ],
)
def test_a_batch_is_limited_to_what_fits(sizes: list[int], size: int, workers: int, temp: int, expected: int) -> None:
    """The limit counts the merges that run at the same time."""
    assert next_batch(groups(*sizes), size, workers, capacity_of(temp, 2**50)) == expected


def test_free_memory_is_limited_by_the_control_group(tmp_path: Path) -> None:
    assert (capacity.free_memory() or 0) > MIB
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 200\nactive_file 100\n")
    assert capacity._of_group(tmp_path) == [400]
    (tmp_path / "memory.max").write_text("max\n")
    assert capacity._of_group(tmp_path) == []
    assert capacity._available(str(tmp_path / "none")) == []


def test_a_merge_without_capacity_fails_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", appends=3)
    before = tree(tmp_path)
    monkeypatch.setattr(capacity, "free_disk", lambda _: 1000)
    dry = table.merge_splits(dry_run=True)
    assert (dry.status, len(dry.plan or ()), len(dry.warnings)) == ("success", 2, 2)
    assert "bytes of disk in" in dry.warnings[0]
    with pytest.raises(it.StorageError, match=r"are not merged: the merge needs \d+ bytes of disk in .*, but only 1000 are free") as caught:
        table.merge_splits()
    assert (caught.value.retryable, caught.value.exit_code) == (True, 75)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("paths", "text"), [(("a",), "split 'a' is not merged: x"), (("a", "b"), "2 splits, the oldest 'a', are not merged: x")]
)
def test_a_message_about_one_split_uses_the_singular(paths: tuple[str, ...], text: str) -> None:
    """A merge that takes a table over has such groups."""
    assert not_merged(PlannedGroup({}, paths, tuple(range(len(paths))), rows=1, size=1, oldest=0), "x") == text


def test_groups_that_fit_are_merged_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", appends=2, each=4)
    table.append([row for row in rows(0, 20_000) if row["ok"]])  # all of one date
    small, large = sorted(step["bytes"] for step in table.merge_splits(dry_run=True).plan or ())
    assert 4 * small < large
    monkeypatch.setattr(capacity, "free_disk", lambda _: int(3.6 * small))
    report = table.merge_splits()
    assert (report.status, report.metrics["groups"], len(report.warnings)) == ("partial", 1, 1)
    assert "bytes of disk in" in report.warnings[0]
    assert len(ids(table)) == 10_008
