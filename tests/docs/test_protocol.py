"""docs/protocol.md suffices to read and write tables: a reader and a writer made from it alone agree with ours."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from tests.support.independent_reader import Table
from tests.support.independent_writer import INDEXED, TableWriter
from tests.support.splits import reindexings
from tests.support.tables import write_version

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


PARTITIONS = ["a/../b", "//", "..", "", None, "%2e%2e", "a\\b", "\x01", "é", "a=b"]


@pytest.mark.parametrize(("options", "expected"), FORMATS.values(), ids=FORMATS.keys())
def test_the_independent_reader_agrees_on_unusual_partitions_skips_and_commits_of_other_programs(
    options: dict[str, str], expected: tuple[str | None, int, int], tmp_path: Path
) -> None:
    path = tmp_path / "table"
    table = it.create(path, pa.schema([("part", pa.string()), ("n", pa.int64())]), partition_by=["part"], options=options)
    table.append([{"part": part, "n": number} for number, part in enumerate(PARTITIONS)])
    names = table.files()["path"].to_pylist()
    for name in (*names[:2], names[0]):
        table.log.record_skipped_file(name, "unreadable")
    if expected[0]:
        table.checkpoint()
    lines = [line["add"] for line in table.log.actions(1) if "add" in line]
    again = next(add for add in lines if add["path"] == names[3])
    write_version(
        path,
        table.version + 1,
        {"commitInfo": {"timestamp": 5, "operation": "WRITE", "operationParameters": {"mode": "Append"}}},
        {"remove": {"path": f"file://{path}/{names[1]}", "deletionTimestamp": 5, "dataChange": True}},
        {"add": {**again, "partitionValues": {"part": None}, "minValues": {"n": "3", "part": None}, "tags": None}, "remove": None},
        {"mergeskip": {"path": names[2], "reason": "r", "skipTimestamp": 1, "skipCount": None}},
        {"domainMetadata": {"domain": "d"}},
        {"domainMetadata": None},
    )

    found, table = Table(path), it.open(path)
    assert list(found.files) == table.files()["path"].to_pylist()
    ours = [dict(pairs) for pairs in table.files()["partition_values"].to_pylist()]
    assert [add["partitionValues"] for add in found.files.values()] == ours
    assert [add.get("minValues") for add in found.files.values()] == [dict(pairs) for pairs in table.files()["min_values"].to_pylist()]
    assert {skipped: skip["retryAfter"] for skipped, skip in found.skips.items() if skip["retryAfter"]} == table.log.files_in_cooldown()
    assert {skipped: skip["skipCount"] for skipped, skip in found.skips.items()} == {names[0]: 2, names[2]: 1}


def test_a_table_written_from_the_page_is_read_searched_verified_and_merged(tmp_path: Path) -> None:
    made = [
        {
            "day": "2026-01-05",
            "message": f"connection {'refused' if number % 2 else 'paid'} by {number} " + "x" * (number % 40),
            "code": f"ABC-{number:04}" if number % 5 else None,
            "n": number,
            "x": number / 2,
            "ok": number % 3 == 0 if number % 4 else None,
            "ip": f"10.0.0.{number % 200}",
            "born": dt.date(2026, 1, 1 + number % 20),
            "tags": ["a", "b"] if number % 2 else None,
            "user": {"name": "Ann"} if number % 2 else None,
        }
        for number in range(3000)
    ]
    path = tmp_path / "table"
    writer = TableWriter(path)
    writer.append(made[:2500])
    writer.append(made[2500:])

    table = it.open(path)
    assert (table.verify(deep=True), table.doctor()) == ([], [])
    assert Table(path).rows().to_pylist() == table.scan().read_all().to_pylist() == made
    expected = {
        "refused": 1500, "refused AND 2999": 1, 'code:"bc-29"': 80, "-code:*": 600, "n:[0 TO 9]": 10, "x:>=1499": 2, "ok:true": 750,
        "ip:10.0.0.7": 15, "born:2026-01-05": 150, "tags:a": 1500, "-user:*": 1500, "day:2026-01-05": 3000,
    }  # fmt: skip
    assert {query: table.search(query, limit=5000).num_rows for query in expected} == expected
    assert (table.count("n > 2990"), table.count("message LIKE 'connection paid by 8 %'")) == (9, 1)
    with reindexings() as fallbacks:
        assert table.merge_splits("100M").status == "success"
    assert not fallbacks
    assert (table.files().num_rows, table.verify(deep=True)) == (1, [])
    assert {query: table.search(query, limit=5000).num_rows for query in expected} == expected


OTHER_FIELDS = {
    "another order": dict(reversed(INDEXED.items())),
    "another type": {**INDEXED, "n": "f64"},
    "one missing": {name: kind for name, kind in INDEXED.items() if name != "ip"},
}


@pytest.mark.parametrize("fields", OTHER_FIELDS.values(), ids=OTHER_FIELDS)
def test_a_split_whose_index_does_not_fit_its_doc_mapping_is_damaged(fields: dict[str, str], tmp_path: Path) -> None:
    """Queries refer to fields by number, so that its hits would be wrong. Its rows are intact."""
    path = tmp_path / "table"
    writer = TableWriter(path)
    writer.append([{**dict.fromkeys(INDEXED), "day": "2026-01-05", "message": "paid", "code": "ABC"}])
    sound = it.open(path).files()["path"].to_pylist()
    writer.append([{**dict.fromkeys(INDEXED), "day": "2026-01-05", "message": "refused", "code": "XYZ"}], fields)

    table = it.open(path)
    (damaged,) = set(table.files()["path"].to_pylist()) - set(sound)
    for query in ("paid", "code:xyz"):
        with pytest.raises(it.SplitCorrupted, match=rf"{damaged} is damaged: the fields of its index") as raised:
            table.search(query)
        assert "\n" not in str(raised.value)
    for deep in (False, True):
        (finding,) = table.verify(deep=deep)
        assert (finding.code, damaged in finding.message) == ("damaged-split", True)
    assert table.scan(columns=["message"]).read_all()["message"].to_pylist() == ["paid", "refused"]
    table.merge_splits("100M")
    assert list(table.log.files_in_cooldown()) == [damaged]
    with pytest.raises(it.SplitCorrupted, match=damaged):
        table.aggregate({"n": ("sum", "n")}, query="code:xyz")
