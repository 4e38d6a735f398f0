"""The cache of decoded row blocks returns the right blocks and stays within its limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.splits import SplitReader
from indextables.splits.format import rowstore as blocks
from tests.support.forked import in_forked_child
from tests.support.splits import batch_of, write_split


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[SplitReader]:
    blocks._blocks.clear()
    write_split(tmp_path / "a.split", batch_of({"n": pa.array(range(5000)), "t": pa.array([f"row {n}" for n in range(5000)])}))
    with SplitReader(tmp_path / "a.split") as found:
        yield found


def test_few_rows_come_from_cached_blocks(reader: SplitReader, tmp_path: Path) -> None:
    numbers = [4999, 3, 1030, 3]
    first = reader.take(numbers)
    assert first.column("n").to_pylist() == numbers
    assert reader.take(numbers, ["t"]).to_pydict() == {"t": [f"row {n}" for n in numbers]}
    assert reader.take(numbers, ["t", "n"]).column_names == ["t", "n"]
    assert len(blocks._blocks) == 9  # three blocks, for three sets of columns
    with (tmp_path / "a.split").open("r+b") as file:  # from here on no block can be read
        file.write(bytes((tmp_path / "a.split").stat().st_size))
    assert reader.take(numbers) == first
    assert reader.take([5, 2000 - 900]).column("n").to_pylist() == [5, 1100]
    with pytest.raises(SplitCorrupted):
        reader.take([2500])


def test_splits_do_not_share_blocks(reader: SplitReader, tmp_path: Path) -> None:
    assert reader.take([1]).column("n").to_pylist() == [1]
    write_split(tmp_path / "b.split", batch_of({"n": pa.array([7, 8]), "t": pa.array(["x", "y"])}))
    with SplitReader(tmp_path / "b.split") as other:
        assert other.take([1]).column("n").to_pylist() == [8]


def _cached_bytes() -> int:
    return sum(block.get_total_buffer_size() for block in blocks._blocks.values())


def test_the_cache_is_bounded(reader: SplitReader, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.take([0])
    monkeypatch.setattr(limits, "BLOCK_CACHE_BYTES", 9 * _cached_bytes())
    for row in (0, 1030, 2050, 3080, 4999):
        for columns in (None, ["n"], ["t"], ["t", "n"]):
            assert reader.take([row], columns).num_rows == 1
    assert 0 < _cached_bytes() <= limits.BLOCK_CACHE_BYTES
    kept = [key for key, _ in blocks._blocks.items()]
    assert (reader._rows._number, ("t", "n"), 4) in kept
    assert (reader._rows._number, None, 0) not in kept
    monkeypatch.setattr(limits, "BLOCK_CACHE_BYTES", 100)  # a block that is too large is not cached
    before = len(blocks._blocks)
    assert reader.take([0]).num_rows == 1
    assert len(blocks._blocks) == before


def _cached_blocks(_: int) -> int:
    return len(blocks._blocks)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_with_an_empty_cache(reader: SplitReader) -> None:
    reader.take([0])
    assert in_forked_child(_cached_blocks, 0) == 0
    assert _cached_blocks(0) == 1
