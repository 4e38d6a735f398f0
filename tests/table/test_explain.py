"""`explain`: how many files a filter leaves, and which step prunes the others (RD-11, STA-03 to STA-05)."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import indextables as it
from indextables.predicates import Predicate, parse_predicate
from indextables.predicates.expressions import IsNull
from indextables.table.files import rows_of_partitions
from tests.support import avro_tables
from tests.support.loading import loaded
from tests.support.tables import SCHEMA, ids, make, rows


def counts(table: it.Table, where: str | None) -> tuple[int, int, int, int]:
    """Considered, pruned by partition, skipped by min/max, remaining."""
    found = table.explain(where)
    return found.files_considered, found.files_pruned_by_partition, found.files_skipped_by_stats, found.files_remaining


@pytest.fixture
def table(tmp_path: Path) -> it.Table:
    return make(tmp_path / "t", appends=5)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, (10, 0, 0, 10)),
        ("TRUE", (10, 0, 0, 10)),
        ("date = '2024-01-01'", (10, 5, 0, 5)),
        ("date = '2024-01-01' AND id >= 30", (10, 5, 3, 2)),
        ("id BETWEEN 10 AND 19", (10, 0, 8, 2)),
        ("date IS NULL OR latency > 1000", (10, 0, 10, 0)),
        ("date IS NULL", (10, 10, 0, 0)),
        ("FALSE", (10, 10, 0, 0)),
    ],
)
def test_each_step_is_counted(table: it.Table, where: str | None, expected: tuple[int, int, int, int]) -> None:
    assert counts(table, where) == expected
    found = table.explain(where)
    left = table.files(where)
    assert left.num_rows == found.files_remaining
    assert sum(left.column("num_records").to_pylist()) == found.rows_remaining
    assert sum(left.column("size").to_pylist()) == found.bytes_remaining
    assert (found.version, found.where, found.query) == (table.version, where, None)
    assert found.manifests_total == found.manifests_read == found.manifests_pruned == 0


def test_to_dict_has_every_step(table: it.Table) -> None:
    found = table.explain("id = 1", query="refused").to_dict()
    assert list(found) == [
        "version", "where", "query", "manifests_total", "manifests_read", "manifests_pruned", "files_considered",
        "files_pruned_by_partition", "files_skipped_by_stats", "files_remaining", "rows_remaining", "bytes_remaining",
    ]  # fmt: skip
    assert found["query"] == "refused"


@pytest.mark.parametrize(("where", "read"), [(None, 3), ("p = 3", 1)])
def test_pruned_manifests_are_those_not_read(tmp_path: Path, where: str | None, read: int) -> None:
    path = avro_tables.start(tmp_path / "t", **{"state.entriesPerManifest": "2"})
    avro_tables.commit(path, *(avro_tables.file(f"f{p}", p) for p in range(6)))
    it.open(path).checkpoint()
    found = it.open(path).explain(where)
    assert (found.manifests_total, found.manifests_read, found.manifests_pruned) == (3, read, 3 - read)


def test_invalid_predicates_and_queries_are_refused(table: it.Table) -> None:
    with pytest.raises(it.InvalidPredicate, match="nosuch"):
        table.explain("nosuch = 1")
    with pytest.raises(it.InvalidQuery, match="nosuch"):
        table.explain(query="nosuch:word")


def test_empty_files_are_skipped(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", SCHEMA)
    add = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "numRecords": 0}
    table.log.commit([{"add": add}, {"add": add | {"path": "b", "numRecords": 1}}])
    assert counts(table, "id = 1 OR TRUE") == (2, 0, 1, 1)


def test_is_null_finds_null_partitions(tmp_path: Path) -> None:
    """Upstream finds no file."""
    table = it.create(tmp_path / "t", SCHEMA, partition_by=["date"])
    table.append([row | {"date": None if row["id"] < 6 else row["date"]} for row in rows(0, 12)])
    assert ids(table, "date IS NULL") == list(range(6))
    assert counts(table, "date IS NULL") == (3, 2, 0, 1)
    assert table.count("date IS NOT NULL") == 6


def test_a_removed_file_is_not_counted(table: it.Table) -> None:
    """Even if its segment keeps it as a dead row and reuses ranges that were computed before the removal."""
    table.explain("id >= 0")
    gone = table.files("id < 10").column("path").to_pylist()
    table.log.commit([{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}} for path in gone])
    assert counts(table, "id < 20") == (8, 0, 6, 2)


def test_partitions_to_rewrite_are_chosen_exactly(tmp_path: Path) -> None:
    """A filter for reading may keep too many files; one that selects files to replace must be exact."""
    schema = pa.schema([("day", pa.date32()), ("n", pa.int64())])
    table = it.create(tmp_path / "t", schema, partition_by=["day"])
    table.append([{"day": date(2024, 1, 1 + n % 3), "n": n} for n in range(6)] + [{"day": None, "n": 6}])
    snapshot = loaded(table)
    chosen = rows_of_partitions(snapshot, parse_predicate("day > '2024-01-01' OR NOT day < '2024-01-03'", schema))
    assert [add.partition_values for add in snapshot.adds(chosen)] == [{"day": "2024-01-02"}, {"day": "2024-01-03"}]
    decimal = replace(snapshot.metadata, schema_string=snapshot.metadata.schema_string.replace('"date"', '"decimal(4,2)"'))
    odd = dataclasses.replace(snapshot, metadata=decimal)
    with pytest.raises(it.SchemaMismatch, match="'day' of type decimal"):
        rows_of_partitions(odd, Predicate("day IS NULL", IsNull("day"), odd.schema.remove(1)))
    add = {"path": "a", "partitionValues": {"day": "x"}, "size": 1, "modificationTime": 1, "dataChange": True, "numRecords": 1}
    table.log.commit([{"add": add}])
    with pytest.raises(it.LogCorrupted, match="'x'"):
        rows_of_partitions(loaded(table), parse_predicate("day IS NULL", schema))


# ---- statistics of long strings ----------------------------------------------------------------------------------------------------

SHARED = "connection refused by the server at " * 2  # more than 32 characters
LAST = "\U0010ffff"
LONG = [
    "",
    "a",
    SHARED,
    SHARED + "1",
    SHARED + "2",
    SHARED[:32],
    SHARED[:31] + LAST,
    LAST * 40,
    LAST * 31 + "b" * 9,
    "\ud7ff" * 40,
    "𝄞" * 33,
]


@pytest.mark.parametrize("length", [None, 1, 2, 31, 33, 1000])
def test_truncated_statistics_hide_no_row(tmp_path: Path, length: int | None) -> None:
    """STA-02, STA-03, C-51. In upstream, statistics truncated to 32 characters prune live files."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    options: dict[str, Any] = {} if length is None else {"stats.truncation.maxLength": str(length)}
    table = it.create(tmp_path / "t", schema, options=options)
    for number, text in enumerate(LONG):
        table.append([{"id": number, "text": text}])
    stats = [value for side in ("min_values", "max_values") for pairs in table.files().column(side).to_pylist() for _, value in pairs]
    assert max(map(len, [value for value in stats if not value.isdigit()])) <= (length or 32)
    asked = 0
    for text in LONG:
        for condition, holds in {
            f"text = '{text}'": [other == text for other in LONG],
            f"text > '{text}'": [other > text for other in LONG],
            f"text >= '{text}'": [other >= text for other in LONG],
            f"text < '{text}'": [other < text for other in LONG],
            f"text LIKE '{text}%'": [other.startswith(text) for other in LONG],
            f"text IN ('{text}', 'x')": [other == text for other in LONG],
        }.items():
            kept = {row["path"] for row in table.files(condition).select(["path"]).to_pylist()}
            paths = table.files().column("path").to_pylist()
            assert {path for path, hit in zip(paths, holds, strict=True) if hit} <= kept, condition
            asked += 1
    assert asked == 6 * len(LONG)
    assert ids(table, f"text > '{SHARED}'") == [n for n, text in enumerate(LONG) if text > SHARED]


def test_another_writers_truncated_statistics_hide_no_row(tmp_path: Path) -> None:
    """Upstream 0.5.3 truncates both bounds to 32 characters."""
    table = it.create(tmp_path / "t", pa.schema([("text", pa.string())]))
    cut = {"minValues": {"text": SHARED[:32]}, "maxValues": {"text": SHARED[:32]}}
    add = {"path": "part-0.split", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "numRecords": 2, **cut}
    table.log.commit([{"add": add}])
    for condition in (f"text = '{SHARED}'", f"text > '{SHARED[:32]}'", f"text LIKE '{SHARED}%'", f"text IN ('{SHARED}')"):
        assert table.files(condition).num_rows == 1, condition
    assert table.files("text < 'b'").num_rows == 0


def test_partition_values_are_never_truncated(tmp_path: Path) -> None:
    """STA-02."""
    table = it.create(
        tmp_path / "t", pa.schema([("p", pa.string()), ("n", pa.int64())]), partition_by=["p"], options={"stats.truncation.maxLength": "3"}
    )
    table.append([{"p": SHARED + "1", "n": 1}, {"p": SHARED + "2", "n": 2}])
    assert counts(table, f"p = '{SHARED}1'") == (2, 1, 0, 1)
    assert table.count(f"p = '{SHARED}1'") == 1
