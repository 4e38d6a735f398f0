"""Rows of every type survive a split unchanged and are found by their values; a failed write leaves nothing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables import limits
from indextables.errors import InvalidArgument, SchemaMismatch, StorageError
from indextables.splits import DocMapping, SplitReader, SplitSettings, SplitWriter
from tests.support.splits import LOGS, LOGS_MAPPING, batch_of, log_batch, matches, read_all, write_logs, write_split

EVERY_TYPE = {
    "text": pa.array(["", None, "Grüße aus 東京", "a\nb\x00c", "🎉 party", "x" * 70_000]),
    "b": pa.array([True, False, None, True, False, None]),
    "i8": pa.array([-128, 127, None, 0, 1, -1], pa.int8()),
    "i16": pa.array([-(2**15), 2**15 - 1, None, 0, 1, -1], pa.int16()),
    "i32": pa.array([-(2**31), 2**31 - 1, None, 0, 1, -1], pa.int32()),
    "i64": pa.array([-(2**63), 2**63 - 1, None, 0, 1, -1], pa.int64()),
    "f32": pa.array([0.1, math.inf, None, -0.0, math.nan, -1.5], pa.float32()),
    "f64": pa.array([math.nan, -math.inf, None, -0.0, 0.0, 1e308], pa.float64()),
    "day": pa.array([-(2**31), 2**31 - 1, None, 0, 19_000, -719_162], pa.date32()),
    "at": pa.array([-(2**63), 2**63 - 1, None, 0, 1, -1], pa.timestamp("us", tz="UTC")),
    "local": pa.array([-(2**63), 2**63 - 1, None, 0, 1, -1], pa.timestamp("us")),
    "nothing": pa.array([None] * 6, pa.string()),
}


def bits(table: pa.Table) -> list[list[object]]:
    """The values with floats as bit patterns, so that -0.0 differs from 0.0 and NaN equals NaN."""
    columns = []
    for column in table.columns:
        plain = column.combine_chunks()
        if pa.types.is_floating(plain.type):
            plain = plain.view(pa.int32() if plain.type == pa.float32() else pa.int64())
        elif pa.types.is_temporal(plain.type):
            plain = plain.view(pa.int32() if pa.types.is_date32(plain.type) else pa.int64())
        columns.append(plain.to_pylist())
    return columns


def test_every_type_round_trips_bit_for_bit(tmp_path: Path) -> None:
    batch = batch_of(EVERY_TYPE)
    write_split(tmp_path / "a.split", batch)
    back = read_all(tmp_path / "a.split")
    assert back.schema.equals(batch.schema)
    assert bits(back) == bits(pa.Table.from_batches([batch]))


def test_every_type_is_found_by_its_value(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", batch_of(EVERY_TYPE))
    expected = {
        "text:東京": {2}, "text:grüße": {2}, "text:party": {4}, "text:" + "x" * 300 + "*": {5}, "text:*": {0, 2, 3, 4, 5},
        "b:true": {0, 3}, "b:FALSE": {1, 4}, "i8:-128": {0}, "i8:[0 TO 127]": {1, 3, 4}, "i64:-9223372036854775808": {0},
        "i64:>=9223372036854775807": {1}, "i64:>9223372036854775807": set(), "i64:{-1 TO 1}": {3}, "f32:0.1": {0}, "f32:>0.1": {1, 4},
        "f64:0": {3, 4}, "f64:-0.0": {3, 4}, "f64:<0": {1}, "f64:[* TO *]": {0, 1, 3, 4, 5}, "f64:>=1e308": {0, 5},
        "day:1970-01-01": {3}, "day:<1970-01-01": {0, 5}, "day:0001-01-01": {5}, "day:*": {0, 1, 3, 4, 5},
        "at:1970-01-01T00:00:00.000001Z": {4}, "at:1970-01-01T01:00:00+01:00": {3}, "at:>1970-01-01": {1, 4},
        "at:<1970-01-01": {0, 5}, 'local:"1970-01-01 00:00:00"': {3}, "nothing:*": set(), "NOT nothing:*": {0, 1, 2, 3, 4, 5},
    }  # fmt: skip
    with SplitReader(tmp_path / "a.split") as reader:
        assert {query: matches(reader, query) for query in expected} == expected


def test_words_of_40_bytes_are_found(tmp_path: Path) -> None:
    digest = "3f786850e387550fdab836ed7e6dc881de23001b"
    write_split(tmp_path / "a.split", batch_of({"m": pa.array(["commit " + digest.upper(), "other"])}))
    with SplitReader(tmp_path / "a.split") as reader:
        assert matches(reader, digest) == matches(reader, digest[:20] + "*") == {0}


def test_values_longer_than_tantivys_terms_are_found_by_a_prefix(tmp_path: Path) -> None:
    values = ["y" * 80_000, f"one {'Z' * 70_000} two", "z" * 9_000, "one two", None]
    batch = batch_of({"t": pa.array(values), "s": pa.array(values)})
    write_split(tmp_path / "a.split", batch, DocMapping.for_table(batch.schema, [], {"s": "string"}))
    expected = {
        "y*": {0}, "z*": {1, 2}, "s:y*": {0}, "t:" + "z" * 9_000: {2}, "t:" + "z" * 9_990 + "*": {1}, "s:z*": {2}, "s:one*": {1, 3},
        '"one two"': {3}, '"one z"*': {1}, "two": {1, 3}, "s:" + "y" * 9_990: set(),
    }  # fmt: skip
    with SplitReader(tmp_path / "a.split") as reader:
        assert {query: matches(reader, query) for query in expected} == expected


def test_awkward_column_names(tmp_path: Path) -> None:
    names = ["a.b", "with space", 'q"uote', "col:on", "back\\slash", "tick`", "AND", "é", "plus+", "(p)"]
    batch = batch_of({name: pa.array([f"w{n}", None]) for n, name in enumerate(names)} | {"n.x y": pa.array([7, None])})
    write_split(tmp_path / "a.split", batch)
    with SplitReader(tmp_path / "a.split") as reader:
        for n, name in enumerate(names):
            escaped = "".join("\\" + c if c in ' :"()\\' else c for c in name)
            assert matches(reader, f"{escaped}:w{n}") == matches(reader, f"{escaped}:*") == {0}
        assert matches(reader, "n.x\\ y:[1 TO 9]") == {0}
    assert read_all(tmp_path / "a.split").equals(pa.Table.from_batches([batch]))


def test_batches_of_any_size_are_rewritten_to_one_size(tmp_path: Path) -> None:
    whole = log_batch(3000)
    writer = SplitWriter(SplitSettings(LOGS, LOGS_MAPPING), tmp_path / "work")
    sizes = [0, 1, 1023, 1, 1500, 475]
    for start, size in zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False):
        writer.write(whole.slice(start, size))
    assert writer.num_rows == 3000
    assert writer.num_bytes > 0
    assert writer.finish(tmp_path / "deep" / "er" / "a.split").num_records == 3000
    with SplitReader(tmp_path / "deep" / "er" / "a.split") as reader:
        batches = list(reader.batches())
    assert [batch.num_rows for batch in batches] == [limits.ROW_BATCH, limits.ROW_BATCH, 3000 - 2 * limits.ROW_BATCH]
    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches([whole]))
    assert list((tmp_path / "work").iterdir()) == []


def test_requested_columns_come_in_the_requested_order(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 1500)
    expected = pa.Table.from_batches([log_batch(1500)])
    with SplitReader(tmp_path / "a.split") as reader:
        assert pa.Table.from_batches(reader.batches(["status", "date"])).equals(expected.select(["status", "date"]))
        assert sum(batch.num_rows for batch in reader.batches([])) == 1500
        rows = [1400, 3, 3, 1024, 0]
        assert reader.take(rows, ["ok", "message"]).equals(expected.select(["ok", "message"]).take(rows))
        assert reader.take(rows).equals(expected.take(rows))
        assert reader.take([], ["ok"]).schema.names == ["ok"]
        assert reader.take([0, 1], []).num_rows == 2
        for invalid in ([-1], [1500]):
            with pytest.raises(InvalidArgument, match=f"row {invalid[0]} does not exist"):
                reader.take(invalid)
        with pytest.raises(InvalidArgument, match="'nope'"):
            list(reader.batches(["nope"]))


def test_document_number_is_row_number(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 2500)
    with SplitReader(tmp_path / "a.split") as reader:
        for n in range(0, 2500, 97):
            if n % 7 != 5:
                assert matches(reader, f"row0x{n}") == {n}


def test_rows_that_exceed_the_heap_still_give_one_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX_HEAP_MAX", limits.INDEX_HEAP_MIN)
    random = np.random.default_rng(7)
    words = [" ".join(map(str, row)) for row in random.integers(0, 10**9, (12_000, 12))]
    batch = batch_of({"id": pa.array(range(12_000)), "m": pa.array([f"{text} id{n}" for n, text in enumerate(words)])})
    built = []
    real = SplitWriter._one_segment
    monkeypatch.setattr(SplitWriter, "_one_segment", lambda *given: built.append(1) or real(*given))
    write_split(tmp_path / "a.split", batch)
    assert built == [1]
    with SplitReader(tmp_path / "a.split") as reader:
        reader.verify()
        ids = pa.Table.from_batches(reader.batches(["id"]))["id"].to_pylist()
        assert sorted(ids) == list(range(12_000))
        for n in range(0, 12_000, 611):
            (row,) = matches(reader, f"id{n}")
            assert reader.take([row])["id"].to_pylist() == [n]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("rows", [12_000, 20_000])
def test_rows_of_usual_length_need_no_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """The child process of a merge takes as long as writing many rows."""
    built = []
    monkeypatch.setattr(SplitWriter, "_one_segment", lambda *given: built.append(1))
    choose = np.random.default_rng(3)
    words = np.array([f"word{n}" for n in range(3000)])[choose.integers(0, 3000, (rows, 14))]
    texts = [f"{' '.join(row)} id={n:x}" for row, n in zip(words, choose.integers(0, 10**9, rows), strict=True)]
    batch = batch_of({"m": pa.array(texts), "n": pa.array(choose.integers(0, 10**7, rows)), "x": pa.array(choose.random(rows))})
    assert write_split(tmp_path / "a.split", batch).num_records == rows
    assert built == []


def test_a_batch_of_another_schema_is_refused(tmp_path: Path) -> None:
    writer = SplitWriter(SplitSettings(LOGS, LOGS_MAPPING), tmp_path / "work")
    with pytest.raises(SchemaMismatch, match="status"):
        writer.write(log_batch(3).drop_columns(["status"]))
    writer.discard()


def test_a_split_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no rows"):
        SplitWriter(SplitSettings(LOGS, LOGS_MAPPING), tmp_path / "work").finish(tmp_path / "a.split")
    assert list(tmp_path.iterdir()) == []


def test_discard_removes_everything_and_is_idempotent(tmp_path: Path) -> None:
    writer = SplitWriter(SplitSettings(LOGS, LOGS_MAPPING), tmp_path / "work")
    writer.write(log_batch(3000))
    assert list((tmp_path / "work").iterdir()) != []
    writer.discard()
    writer.discard()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_destination_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    writer = SplitWriter(SplitSettings(LOGS, LOGS_MAPPING), tmp_path / "work")
    writer.write(log_batch(10))
    with pytest.raises(StorageError, match="taken"):
        writer.finish(tmp_path / "taken" / "a.split")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["taken", "work"]


def test_a_write_that_fails_half_way_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(handle: int) -> None:
        raise OSError(28, "no space left on device")

    writer = SplitWriter(SplitSettings(LOGS, LOGS_MAPPING), tmp_path / "work")
    writer.write(log_batch(10))
    monkeypatch.setattr("indextables.splits.format.bundle.os.fsync", full_disk)
    with pytest.raises(StorageError, match="no space"):
        writer.finish(tmp_path / "out" / "a.split")
    assert list((tmp_path / "out").iterdir()) == []


def test_mapping_without_text_columns(tmp_path: Path) -> None:
    batch = batch_of({"n": pa.array([1, 2, None])})
    write_split(tmp_path / "a.split", batch, DocMapping.for_table(batch.schema, []))
    with SplitReader(tmp_path / "a.split") as reader:
        assert matches(reader, "n:2") == {1}
        assert matches(reader, "*") == {0, 1, 2}
