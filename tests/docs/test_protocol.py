"""docs/protocol.md is sufficient to read a table: a reader written from it alone agrees with ours for every checkpoint format."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from tests.support.independent_reader import Table

SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("tags", pa.list_(pa.string())),
    ]
)
# Options, and the expected format, minimum number of files and minimum number of tombstones.
FORMATS: dict[str, tuple[dict[str, str], tuple[str | None, int, int]]] = {
    "avro": ({}, ("avro-state", 2, 1)),
    "avro manifest": ({"state.manifestFormat": "avro", "state.compression": "snappy"}, ("avro-state", 2, 1)),
    "json": ({"state.format": "json"}, ("json", 0, 0)),
    "json parts": ({"state.format": "json", "checkpoint.actionsPerPart": "3"}, ("json-multipart", 3, 0)),
    "parquet": ({"state.format": "parquet"}, ("parquet", 1, 0)),
    "parquet parts": ({"state.format": "parquet", "checkpoint.maxFileSize": "20000"}, ("parquet", 2, 0)),
    "no checkpoint": ({"checkpoint.enabled": "false", "transaction.compression.enabled": "false"}, (None, 0, 0)),
}


def rows_from(start: int, count: int) -> list[dict[str, object]]:
    return [
        {
            "day": dt.date(2026, 1, 1 + number % 3) if number % 5 else None,
            "ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number),
            "name": f"name {number} " + "x" * number,
            "price": number,
            "tags": ["a", None] if number % 2 else None,
        }
        for number in range(start, start + count)
    ]


@pytest.mark.parametrize(("options", "expected"), FORMATS.values(), ids=FORMATS.keys())
def test_a_reader_written_from_the_page_agrees_with_ours(
    options: dict[str, str], expected: tuple[str | None, int, int], tmp_path: Path
) -> None:
    path = tmp_path / "table"
    table = it.create(path, SCHEMA, partition_by=["day"], options=options)
    for number in range(5):
        table.append(rows_from(40 * number, 40), txn=("loader", number))
    table.merge_splits("1M", where="day = '2026-01-02'")
    if expected[0]:
        table.checkpoint()  # the next one extends it with tombstones
    table.overwrite(rows_from(1, 1), where="day = '2026-01-02'")
    if expected[0]:
        table.checkpoint()
    table.append(rows_from(1000, 10))

    found = Table(path)
    assert found.version == table.version
    assert found.txns == {"loader": 4}
    assert found.protocol["minReaderVersion"] == table.protocol.min_reader_version
    assert (found.format, min(found.parts, expected[1]), min(found.tombstones, expected[2])) == expected
    ours = table.files()
    assert list(found.files) == ours["path"].to_pylist()
    for name, column in (("size", "size"), ("numRecords", "num_records"), ("addedAtVersion", "added_at_version")):
        assert [add[name] for add in found.files.values()] == ours[column].to_pylist()
    assert [add["partitionValues"] for add in found.files.values()] == [dict(pairs) for pairs in ours["partition_values"].to_pylist()]
    rows = table.scan().read_all().sort_by([("ts", "ascending"), ("price", "ascending")])
    assert found.rows().sort_by([("ts", "ascending"), ("price", "ascending")]).to_pylist() == rows.to_pylist()
