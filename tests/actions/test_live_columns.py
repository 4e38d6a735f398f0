"""Values derived from a segment's columns are computed once and cached within a bound; rows are taken without building the whole table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from indextables.actions import Add
from indextables.actions.add_patterns import Source
from indextables.actions.live import LiveFiles
from indextables.actions.segments import DERIVED_BYTES, Part, Segment


def adds(count: int, start: int = 0) -> list[tuple[str, Source]]:
    return [
        (f"f{n}", Add(path=f"f{n}", partition_values={"p": str(n)}, size=n, modification_time=n, data_change=True))
        for n in range(start, start + count)
    ]


def test_derived_values_are_computed_once() -> None:
    segment = Segment(adds(10))
    made: list[int] = []

    def make(rows: pa.Table) -> np.ndarray:
        made.append(rows.num_rows)
        return np.arange(rows.num_rows)

    before = segment.rows.nbytes
    assert segment.derived("a", make) is segment.derived("a", make)
    assert made == [10]
    assert segment.nbytes == before + 80


def test_least_recently_used_derived_values_are_dropped() -> None:
    segment = Segment(adds(10))
    half = np.zeros(DERIVED_BYTES * 10 // 2, np.int8)
    made: list[str] = []

    def get(name: str) -> None:
        segment.derived(name, lambda _: made.append(name) or half)  # type: ignore[func-returns-value]

    for name in "abacab":
        get(name)
    assert made == ["a", "b", "c", "b"]  # c evicted b, then b evicted c: a was used in between


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 3), st.sets(st.integers(0, 4)), st.sets(st.integers(0, 20)))
def test_take_returns_rows_of_the_table(sizes: list[int], recent: int, dead: set[int], wanted: set[int]) -> None:
    parts, start = [], 0
    for size in sizes:
        chunks = [Segment(adds(1, start)).rows, *([Segment(adds(size - 1, start + 1)).rows] if size > 1 else [])]
        gone = frozenset(row for row in dead if row < size)
        parts.append(Part(Segment(pa.concat_tables(chunks)), (gone,) if gone else ()))
        start += size
    files = LiveFiles(tuple(parts), dict(adds(recent, start)))
    rows = np.array(sorted(row for row in wanted if row < len(files)), np.int64)
    taken = files.take(rows, ["path", "size"])
    assert taken.to_pylist() == files.table().select(["path", "size"]).take(pa.array(rows)).to_pylist()
    assert [add.path for add in files.adds(rows)] == taken.column("path").to_pylist()
