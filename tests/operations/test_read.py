"""Scan, count and search agree with plain Python over the same rows, and prune splits."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.operations import executor
from indextables.rows import LiveRows, LiveSplit
from indextables.table.context import TableContext
from tests.support.tables import ids, make, rows

ROWS = rows(0, 200)
PREDICATES: list[tuple[str, Any]] = [
    ("level = 'ERROR'", lambda r: r["level"] == "ERROR"),
    ("id >= 50 AND id < 60", lambda r: 50 <= r["id"] < 60),
    ("latency > 30", lambda r: r["latency"] is not None and r["latency"] > 30),
    ("latency IS NULL", lambda r: r["latency"] is None),
    ("date = DATE '2024-01-02' OR id IN (1, 2, 3)", lambda r: r["date"].day == 2 or r["id"] in (1, 2, 3)),
    ("NOT ok", lambda r: not r["ok"]),
    ("message LIKE 'disk%'", lambda r: r["message"].startswith("disk")),
    ("ts < TIMESTAMP '2024-01-01 00:01:00'", lambda r: r["id"] < 60),
    ("id = 100000", lambda r: False),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> it.Table:
    return make(tmp_path_factory.mktemp("read") / "t", appends=10, each=20)


@pytest.mark.parametrize(("where", "holds"), PREDICATES)
def test_scan_and_count_agree_with_python(table: it.Table, where: str, holds: Any) -> None:
    expected = [row["id"] for row in ROWS if holds(row)]
    assert ids(table, where) == expected
    assert table.count(where) == len(expected)


def test_scan_returns_the_requested_columns(table: it.Table) -> None:
    reader = table.scan("id < 3", ["message", "id"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["message", "id"]
    assert sorted(reader.read_all().column("id").to_pylist()) == [0, 1, 2]


def test_pruning_by_partition_and_statistics(table: it.Table) -> None:
    assert table.files().num_rows == 20
    assert table.files("date = '2024-01-01'").num_rows == 10
    assert table.files("id BETWEEN 40 AND 59").num_rows == 2
    assert table.files("id BETWEEN 40 AND 59 AND date > '2024-01-01'").num_rows == 1
    assert table.files("id > 1000 OR date = '2030-01-01'").num_rows == 0
    assert table.files("latency IS NULL").num_rows == 20


@pytest.mark.parametrize("where", [None, "date >= '2024-01-01'"])
def test_splits_whose_number_of_rows_is_unknown_are_counted_in_parallel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    """`numRecords` is optional in the log. Each split waits until the other one is open, too."""
    table = make(tmp_path / "t", appends=2)
    adds = [action["add"] for version in (1, 2) for action in table.log.actions(version) if "add" in action]
    first, second, *_ = adds
    table.log.commit([{"remove": {"path": add["path"]}} for add in (first, second)])
    table.log.commit([{"add": {name: value for name, value in add.items() if name != "numRecords"}} for add in (first, second)])
    both_are_open, real = threading.Barrier(2, timeout=60), LiveSplit.open

    def open_with_the_other(split: LiveSplit, context: TableContext) -> LiveRows:
        assert split.known_rows is None, "the log has the number of rows of the others"
        both_are_open.wait()
        return real(split, context)

    monkeypatch.setattr(LiveSplit, "open", open_with_the_other)
    monkeypatch.setattr(executor.os, "cpu_count", lambda: 2)
    assert it.open(tmp_path / "t").count(where) == 20


def test_a_count_by_partition_reads_no_split(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=3)
    for split in (tmp_path / "t").rglob("*.split"):
        split.unlink()
    assert table.count() == 30
    assert table.count("date = '2024-01-01'") == 15
    with pytest.raises(it.SplitCorrupted, match="is missing"):
        table.count("id > 5")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("refused", lambda w: "refused" in w),
        ("connection AND refused", lambda w: "connection" in w and "refused" in w),
        ("connection OR disk", lambda w: "connection" in w or "disk" in w),
        ("connection AND NOT refused", lambda w: "connection" in w and "refused" not in w),
        ("message:disk -message:full", lambda w: "disk" in w and "full" not in w),
        ("refus*", lambda w: "refused" in w),
        ("level:error AND message:timeout", None),
    ],
)
def test_search_agrees_with_python(table: it.Table, query: str, words: Any) -> None:
    found = table.search(query, limit=1000)
    if words is None:
        expected = {r["id"] for r in ROWS if r["level"] == "ERROR" and "timeout" in r["message"].split()}
    else:
        expected = {r["id"] for r in ROWS if words(r["message"].split())}
    assert set(found.column("id").to_pylist()) == expected
    scores = found.column("_score").to_pylist()
    assert scores == sorted(scores, reverse=True)


def test_search_limits_orders_and_filters(table: it.Table) -> None:
    everything = {r["id"] for r in ROWS if "refused" in r["message"]}
    assert table.search("refused").num_rows == 10
    first, second = table.search("refused", limit=5), table.search("refused", limit=5, offset=5)
    assert len({*first.column("id").to_pylist(), *second.column("id").to_pylist()}) == 10
    filtered = table.search("refused", where="date = '2024-01-01' AND id > 100", limit=100)
    assert set(filtered.column("id").to_pylist()) == {i for i in everything if i > 100 and i % 2 == 0}
    ordered = table.search("refused", order_by="id desc", limit=3, columns=["message"])
    assert ordered.schema.names == ["message", "_score"]
    ranked = sorted(everything, reverse=True)[:3]
    assert ordered.column("message").to_pylist() == [ROWS[i]["message"] for i in ranked]
    assert table.search("refused", order_by="-latency", limit=1).column("id").to_pylist() == [max(everything)]
    assert table.search("nosuchword").num_rows == 0


def test_queries_of_an_empty_table(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    assert table.count() == table.count("id = 1") == 0
    assert table.scan().read_all().num_rows == 0
    assert table.search("x", order_by="id").num_rows == 0
    assert table.files().num_rows == 0
    with pytest.raises(it.InvalidQuery):
        table.search("nofield:x")


@pytest.mark.parametrize(
    ("act", "error", "named"),
    [
        (lambda t: t.scan("level ="), it.InvalidPredicate, "."),
        (lambda t: t.scan("nosuch = 1"), it.InvalidPredicate, "nosuch"),
        (lambda t: t.count("id = 'abc'"), it.InvalidPredicate, "abc"),
        (lambda t: t.scan(columns=["nosuch"]), it.InvalidArgument, "nosuch"),
        (lambda t: t.scan(columns="id"), it.InvalidArgument, "'id'"),
        (lambda t: t.scan(columns=[]), it.InvalidArgument, r"\[\]"),
        (lambda t: t.search("(refused"), it.InvalidQuery, "."),
        (lambda t: t.search("nosuch:x"), it.InvalidQuery, "nosuch"),
        (lambda t: t.search("(" * 20_000), it.InvalidQuery, "."),
        (lambda t: t.search("x", limit=0), it.InvalidArgument, "limit 0"),
        (lambda t: t.search("x", limit=10**9), it.InvalidArgument, "1000000000"),
        (lambda t: t.search("x", limit=True), it.InvalidArgument, "limit True"),
        (lambda t: t.search("x", offset=-1), it.InvalidArgument, "offset -1"),
        (lambda t: t.search("x", order_by="nosuch"), it.InvalidArgument, "nosuch"),
        (lambda t: t.search("x", order_by="id sideways"), it.InvalidArgument, "sideways"),
        (lambda t: t.search("x", order_by=""), it.InvalidArgument, "order_by"),
        (lambda t: t.files("1"), it.InvalidPredicate, "."),
    ],
)
def test_an_invalid_query_names_the_cause(table: it.Table, act: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named) as caught:
        act(table)
    assert "\n" not in str(caught.value)


def test_a_split_that_differs_from_the_log_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1, partition_by=[])
    (split,) = (tmp_path / "t").rglob("*.split")
    other = make(tmp_path / "u", appends=1, each=7, partition_by=[])
    (foreign,) = (tmp_path / "u").rglob("*.split")
    split.write_bytes(foreign.read_bytes())
    with pytest.raises(it.SplitCorrupted, match="has 7 rows, but the log says 10"):
        ids(table)
    assert other.count() == 7


def test_a_handle_keeps_its_version(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=1)
    other = it.open(tmp_path / "t")
    table.append(rows(10, 5))
    assert (other.version, other.count()) == (1, 10)
    assert other.refresh().count() == 15
    assert other.version == table.version == 2
    assert repr(other) == f"Table({str(tmp_path / 't')!r}, version=2)"


def test_order_by_a_column_with_spaces(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("my id", pa.int64()), ("m", pa.string())]))
    table.append([{"my id": n, "m": "x"} for n in (2, 3, 1)])
    found = [table.search("x", order_by=order).column("my id").to_pylist() for order in ("my id", "my id ASC", "my id desc", "-my id")]
    assert found == [[1, 2, 3], [1, 2, 3], [3, 2, 1], [3, 2, 1]]
