"""Filters over the live files of one large table, by partition and by the min/max of each type: the first time and repeated."""

from __future__ import annotations

import gc
import time
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import columns
from indextables.actions.live import LiveFiles
from indextables.actions.segments import Part, Segment
from indextables.predicates import parse_predicate
from indextables.table.pruning import prune

SCHEMA = pa.schema(
    {
        "date": pa.date32(),
        "host": pa.string(),
        "id": pa.int64(),
        "name": pa.string(),
        "price": pa.float64(),
        "ts": pa.timestamp("us", tz="UTC"),
    }
)
PARTITIONS = ["date", "host"]
FILTERS = {
    "partition, string =": "host = 'h7'",
    "partition, date >=": "date >= '2024-01-28'",
    "min/max, integers": "id BETWEEN 500 AND 600",
    "min/max, strings": "name >= '00000500' AND name < '00000600'",
    "min/max, floats": "price > 10 AND price < 12",
    "min/max, timestamps": "ts = TIMESTAMP '2024-01-01 00:05:05'",
    "partition and three min/max": "host = 'h7' AND id < 5000 AND name < '00004000' AND price > 100",
}
BAR_MS = 50


class Board(Protocol):
    def add(self, what: str, ours: float, theirs: float | None = None) -> None: ...
    def judge(self, holds: bool, promise: str) -> None: ...


def filters(size: int, board: Board) -> None:
    """Two rows for each filter, and the verdict whether all repetitions stay below BAR_MS."""
    files = live_files(size)
    slowest = 0.0
    for what, where in FILTERS.items():
        predicate = parse_predicate(where, SCHEMA)
        times = []
        for _ in range(5):
            gc.collect()
            started = time.process_time()
            found = prune(files, predicate, SCHEMA, PARTITIONS).remaining
            times.append(time.process_time() - started)
        assert 0 < found.sum() < size / 5, where
        board.add(f"filter {size:,} files: {what}, first", times[0])
        board.add("  again", min(times[1:]))
        slowest = max(slowest, 1000 * min(times[1:]))
    board.judge(slowest < BAR_MS, f"a filter over {size:,} files takes less than {BAR_MS} ms ({slowest:.1f} ms)")


def live_files(size: int) -> LiveFiles:
    """The files as columns, because single adds would take a minute."""
    numbers = np.arange(size)
    rows: dict[str, Any] = {field.name: pa.nulls(size, field.type) for field in columns.SCHEMA}
    unique = pc.utf8_lpad(_texts(numbers), 12, "0")
    rows |= {
        "path": pc.binary_join_element_wise("splits/split-00000000-0000-0000-0000-", unique, ".split", ""),
        "size": pa.array(numbers),
        "num_records": pa.array(np.full(size, 1000)),
        "partition_values": _maps({"date": _day(1 + numbers % 28), "host": pc.binary_join_element_wise("h", _texts(numbers % 50), "")}),
        "min_values": _maps(_bounds(numbers, 0)),
        "max_values": _maps(_bounds(numbers, 5)),
    }
    return LiveFiles((Part(Segment(pa.table(rows, schema=columns.SCHEMA))),))


def _bounds(numbers: np.ndarray, offset: int) -> dict[str, pa.Array]:
    times = pa.array((1_704_067_200 + numbers % 3600) * 1_000_000 + offset, pa.timestamp("us"))
    return {
        "id": _texts(numbers + offset),
        "name": pc.utf8_lpad(_texts(numbers + offset), 8, "0"),
        "price": pa.array(numbers / 8 + offset).cast(pa.string()),
        "ts": pc.binary_join_element_wise(pc.strftime(times, "%Y-%m-%dT%H:%M:%S"), "Z", ""),
    }


def _texts(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _day(days: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("2024-01-", pc.utf8_lpad(_texts(days), 2, "0"), "")


def _maps(values: dict[str, pa.Array]) -> pa.MapArray:
    size, width = len(next(iter(values.values()))), len(values)
    keys = pa.array(list(values)).take(pa.array(np.tile(np.arange(width), size)))
    indices = np.arange(size * width).reshape(width, size).T.ravel()
    items = pa.concat_arrays(list(values.values())).take(pa.array(indices))
    return pa.MapArray.from_arrays(pa.array(np.arange(0, size * width + 1, width), pa.int32()), keys, items)
