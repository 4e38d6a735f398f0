"""Merging splits keeps rows, answers and statistics; indexes that cannot be merged are built again; damage is named."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables.errors import InvalidArgument, SchemaMismatch, SplitCorrupted, StorageError
from indextables.splits import DocMapping, SplitReader, SplitSettings, SplitWriter, merge_splits
from tests.support.seeds import random_seed
from tests.support.splits import (
    LOGS_MAPPING,
    batch_of,
    found_rows,
    log_batch,
    matches,
    multiset,
    read_all,
    reindexings,
    write_logs,
    write_split,
)

QUERIES = (
    "timeout", "timeout AND NOT disk", '"disk full"', "NOT retry", "level:ERROR", "status:[100 TO 400]", "latency:<0", "ok:true -timeout",
    "row1x3 OR row2x4 OR row0x0", "ts:*", "NOT message:*", "conn* AND level:WARN", "date:2024-01-31", "node-7", "status:7",
)  # fmt: skip


@pytest.fixture
def reindexed() -> Iterator[list[int]]:
    """Contains one entry per merge that fell back to re-indexing the rows."""
    with reindexings() as calls:
        yield calls


def sources(folder: Path, counts: list[int], first_seed: int = 0) -> list[Path]:
    paths = [folder / f"{first_seed + n}.split" for n in range(len(counts))]
    for n, (path, count) in enumerate(zip(paths, counts, strict=True)):
        write_logs(path, count, first_seed + n)
    return paths


def assert_preserved(given: list[Path], merged: Path) -> None:
    assert multiset([read_all(merged)]) == multiset([read_all(path) for path in given])
    readers = [SplitReader(path) for path in given]
    with SplitReader(merged) as reader:
        reader.verify()
        for query in QUERIES:
            parts = [found_rows(each, query) for each in readers]
            assert found_rows(reader, query) == sum(parts[1:], parts[0]), query
    for each in readers:
        each.close()


@pytest.mark.parametrize("counts", [[5], [40, 40, 40, 40], [1, 1, 1], [1500, 64, 63, 65, 1024], [30] * 12])
def test_rows_and_answers_are_preserved(tmp_path: Path, counts: list[int], reindexed: list[int]) -> None:
    given = sources(tmp_path, counts)
    info = merge_splits(given, tmp_path / "out" / "m.split", tmp_path / "work")
    assert reindexed == []  # tantivy 0.27.0 merges without re-indexing; this line reveals whether an upgrade still does
    assert info.num_records == sum(counts)
    assert info.size == (tmp_path / "out" / "m.split").stat().st_size
    assert_preserved(given, tmp_path / "out" / "m.split")
    assert list((tmp_path / "work").iterdir()) == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["m.split"]


def test_merged_splits_can_be_merged_again(tmp_path: Path, reindexed: list[int]) -> None:
    choose = random.Random(random_seed(11))
    leaves = sources(tmp_path, [choose.choice([20, 20, 33]) for _ in range(6)])
    live = list(leaves)
    for step in range(4):
        chosen = choose.sample(live, min(len(live), 3))
        merge_splits(chosen, tmp_path / f"m{step}.split", tmp_path / "work")
        live = [path for path in live if path not in chosen] + [tmp_path / f"m{step}.split"]
        if len(live) == 1:
            break
    assert len(live) == 1
    assert reindexed == []
    assert_preserved(leaves, live[0])


def test_a_merge_gives_the_statistics_of_all_rows(tmp_path: Path) -> None:
    given = sources(tmp_path, [20, 30, 10])
    info = merge_splits(given, tmp_path / "m.split", tmp_path / "work")
    whole = SplitWriter(SplitSettings(log_batch(1).schema, LOGS_MAPPING, ("date",)), tmp_path / "work")
    for n, count in enumerate([20, 30, 10]):
        whole.write(log_batch(count, n))
    expected = whole.finish(tmp_path / "w.split")
    assert (info.min_values, info.max_values) == (expected.min_values, expected.max_values)
    assert info.doc_mapping_json == expected.doc_mapping_json
    with SplitReader(tmp_path / "m.split") as reader:
        assert reader.info == info


def test_a_damaged_source_is_refused_by_name(tmp_path: Path) -> None:
    given = sources(tmp_path, [30, 30])
    sound = given[1].read_bytes()
    with SplitReader(given[1]) as reader:
        places = [where.start + (where.end - where.start) // 2 for where in reader.footer.files.values()] + [
            reader.footer.footer_start + 20
        ]
    for place in places:
        given[1].write_bytes(sound[:place] + bytes([sound[place] ^ 4]) + sound[place + 1 :])
        with pytest.raises(SplitCorrupted, match=given[1].name):
            merge_splits(given, tmp_path / "out" / "m.split", tmp_path / "work")
    assert len(places) >= 8
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_missing_source_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SplitCorrupted, match=r"gone\.split is missing"):
        merge_splits([*sources(tmp_path, [5]), tmp_path / "gone.split"], tmp_path / "m.split", tmp_path / "work")


def test_a_merge_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there are none to merge into"):
        merge_splits([], tmp_path / "m.split", tmp_path / "work")


def test_different_columns_are_refused(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", batch_of({"n": pa.array([1])}))
    write_split(tmp_path / "b.split", batch_of({"n": pa.array(["1"])}))
    with pytest.raises(SchemaMismatch, match=r"a\.split.*b\.split"):
        merge_splits([tmp_path / "a.split", tmp_path / "b.split"], tmp_path / "m.split", tmp_path / "work")


def test_a_different_mapping_is_re_indexed(tmp_path: Path, reindexed: list[int]) -> None:
    batch = batch_of({"m": pa.array(["Big Cat", "cat"])})
    write_split(tmp_path / "a.split", batch)
    write_split(tmp_path / "b.split", batch, DocMapping.for_table(batch.schema, [], {"m": "string"}))
    merge_splits([tmp_path / "a.split", tmp_path / "b.split"], tmp_path / "m.split", tmp_path / "work")
    assert reindexed == [1]
    with SplitReader(tmp_path / "m.split") as reader:
        assert matches(reader, "cat") == {0, 1, 2, 3}


def test_the_same_split_twice_doubles_its_rows(tmp_path: Path, reindexed: list[int]) -> None:
    (path,) = sources(tmp_path, [20])
    merge_splits([path, path], tmp_path / "m.split", tmp_path / "work")
    assert reindexed == [1]
    assert_preserved([path, path], tmp_path / "m.split")


def test_segments_with_the_same_row_numbers_are_re_indexed(tmp_path: Path, reindexed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indextables.splits.index.schema.secrets.randbelow", lambda bound: 1000)
    given = sources(tmp_path, [20, 20])
    merge_splits(given, tmp_path / "m.split", tmp_path / "work")
    assert reindexed == [1]
    assert_preserved(given, tmp_path / "m.split")


def _killed(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess(arguments, -signal.SIGKILL, b"", b"killed")


def _unfinished(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess(arguments, 0, b"", b"")


def _endless(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    raise subprocess.TimeoutExpired("merge", 1)


@pytest.mark.parametrize("failure", [_killed, _unfinished, _endless])
def test_rows_are_re_indexed_if_the_child_process_fails(
    tmp_path: Path, reindexed: list[int], monkeypatch: pytest.MonkeyPatch, failure: Any
) -> None:
    given = sources(tmp_path, [20, 35])
    monkeypatch.setattr("indextables.splits.index.segments.subprocess.run", failure)
    merge_splits(given, tmp_path / "out" / "m.split", tmp_path / "work")
    monkeypatch.undo()
    assert reindexed == [1]
    assert_preserved(given, tmp_path / "out" / "m.split")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["m.split"]
    assert list((tmp_path / "work").iterdir()) == []


def test_rows_are_re_indexed_if_the_child_process_is_killed(tmp_path: Path, reindexed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    given = sources(tmp_path, [20, 35])
    worker = tmp_path / "worker.py"
    worker.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr("indextables.splits.index.segments._WORKER", worker)
    merge_splits(given, tmp_path / "m.split", tmp_path / "work")
    assert reindexed == [1]
    assert_preserved(given, tmp_path / "m.split")


def test_a_destination_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    given = sources(tmp_path, [5, 5])
    (tmp_path / "taken").write_text("")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(StorageError, match="taken"):
        merge_splits(given, tmp_path / "taken" / "m.split", tmp_path / "work")
    assert sorted(os.listdir(tmp_path)) == before
    assert list((tmp_path / "work").iterdir()) == []
