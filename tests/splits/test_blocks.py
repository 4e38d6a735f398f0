"""Decoded blocks of rows are kept for the next search: the right ones, and not too many."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import limits
from indextables.splits import SplitReader
from indextables.splits.format import block_cache as blocks
from tests.support.splits import batch_of, write_split


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[SplitReader]:
    blocks._blocks.clear()
    write_split(tmp_path / "a.split", batch_of({"n": pa.array(range(5000)), "t": pa.array([f"row {n}" for n in range(5000)])}))
    with SplitReader(tmp_path / "a.split") as found:
        yield found


def test_few_rows_come_from_blocks_that_are_known(reader: SplitReader, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [4999, 3, 1030, 3]
    first = reader.take(wanted)
    assert first.column("n").to_pylist() == wanted
    assert reader.take(wanted, ["t"]).to_pydict() == {"t": [f"row {n}" for n in wanted]}
    assert reader.take(wanted, ["t", "n"]).column_names == ["t", "n"]
    assert len(blocks._blocks) == 9  # three blocks, for three sets of columns
    monkeypatch.setattr(reader._rows, "_read", None)
    assert reader.take(wanted) == first
    assert reader.take([5, 2000 - 900]).column("n").to_pylist() == [5, 1100]


def test_another_split_has_blocks_of_its_own(reader: SplitReader, tmp_path: Path) -> None:
    assert reader.take([1]).column("n").to_pylist() == [1]
    write_split(tmp_path / "b.split", batch_of({"n": pa.array([7, 8]), "t": pa.array(["x", "y"])}))
    with SplitReader(tmp_path / "b.split") as other:
        assert other.take([1]).column("n").to_pylist() == [8]


def _bytes_kept() -> int:
    return sum(block.get_total_buffer_size() for block in blocks._blocks.values())


def test_they_are_bounded(reader: SplitReader, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.take([0])
    monkeypatch.setattr(limits, "BLOCK_CACHE_BYTES", 9 * _bytes_kept())
    for row in (0, 1030, 2050, 3080, 4999):
        for columns in (None, ["n"], ["t"], ["t", "n"]):
            assert reader.take([row], columns).num_rows == 1
    assert 0 < _bytes_kept() <= limits.BLOCK_CACHE_BYTES
    kept = [key for key, _ in blocks._blocks.items()]
    assert (reader._rows._number, ("t", "n"), 4) in kept
    assert (reader._rows._number, None, 0) not in kept
    monkeypatch.setattr(limits, "BLOCK_CACHE_BYTES", 100)  # one that is too large for it is not kept
    known = len(blocks._blocks)
    assert reader.take([0]).num_rows == 1
    assert len(blocks._blocks) == known


def _kept(_: int) -> int:
    return len(blocks._blocks)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_without_any(reader: SplitReader) -> None:
    reader.take([0])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_kept, (0,)) == 0
    assert _kept(0) == 1
