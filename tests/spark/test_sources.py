"""Source files of jobs: rows take the types of the table, and errors name what does not fit."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import indextables as it
from indextables.errors import InvalidArgument, SchemaMismatch, SourceUnreadable, SplitCorrupted
from indextables.file_formats import FORMATS
from indextables.operations.verbs import Write
from indextables.rows import open_source
from indextables.spark.failures import our_error, source_error, spark_errors_as_ours
from indextables.spark.jobs import JOBS
from indextables.spark.sources import check_source, format_of, listed_format, open_frame
from indextables.table import TableContext

TABLE = pa.schema([("id", pa.int64()), ("text", pa.string()), ("day", pa.date32()), ("at", pa.timestamp("us", tz="UTC"))])
ROW = {"id": 1, "text": 'say "hi", you', "day": dt.date(2024, 1, 31)}
AT = 1704067200_000_000


def rows(spark: Any, source: Path, form: str, table: pa.Schema | None = TABLE) -> list[dict[str, Any]]:
    with spark_errors_as_ours(str(source)):
        frame = open_frame(spark, str(source), form, table)
        return [row.asDict() for row in frame.selectExpr("id", "text", "day", "unix_micros(at) AS at").collect()]


@pytest.mark.spark
def test_text_formats_take_the_tables_types(spark: Any, tmp_path: Path) -> None:
    csv, lines = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    csv.write_text('day,at,text,id\n2024-01-31,2024-01-01T00:00:00Z,"say ""hi"", you",1\n,,"",2\n', "utf-8")
    lines.write_text('{"id": 1, "text": "say \\"hi\\", you", "day": "2024-01-31", "at": "2024-01-01T01:00:00+01:00"}\n{"id": 2}\n', "utf-8")
    first = {**ROW, "at": AT}
    assert rows(spark, csv, "csv") == [first, {"id": 2, "text": "", "day": None, "at": None}]
    assert rows(spark, lines, "jsonl") == [first, {"id": 2, "text": None, "day": None, "at": None}]


@pytest.mark.spark
def test_text_formats_infer_types_that_fit_all_rows(spark: Any, tmp_path: Path) -> None:
    csv, lines = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    csv.write_text("n,x,day,at\n1,0.5,2024-01-31,2024-01-01T00:00:00Z\n", "utf-8")
    lines.write_text(
        '{"n": 1, "x": 0.5, "day": "2024-01-31", "at": "2024-01-01T00:00:00Z", "local": "2024-01-01 00:00:00.5", "mixed": "2024-01-31"}\n'
        '{"n": 2, "mixed": "or not"}\n',
        "utf-8",
    )
    types = {"n": "bigint", "x": "double", "day": "date", "at": "timestamp"}
    assert dict(open_frame(spark, str(csv), "csv", None).dtypes) == types
    frame = open_frame(spark, str(lines), "jsonl", None)
    assert dict(frame.dtypes) == {**types, "local": "timestamp_ntz", "mixed": "string"}
    assert frame.where("n = 1").select("local", "day").first() == (dt.datetime(2024, 1, 1, 0, 0, 0, 500_000), dt.date(2024, 1, 31))


@pytest.mark.spark
def test_files_of_one_folder_may_differ_without_losing_columns(spark: Any, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"id": [2], "text": ["x"]}), tmp_path / "b.parquet")
    frame = open_frame(spark, str(tmp_path), "parquet", TABLE)
    assert sorted(tuple(row) for row in frame.collect()) == [(1, None), (2, "x")]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("half.parquet", b"PAR1 and then the power went", SourceUnreadable, "half.parquet' cannot be read: "),
        ("empty.parquet", None, SourceUnreadable, "empty.parquet' cannot be read: "),
        (
            "bad.csv",
            b"id,text,day,at\nx1,a,2024-01-01,2024-01-01T00:00:00Z\n",
            SourceUnreadable,
            "bad.csv' cannot be read: malformed records",
        ),
        ("bad.json", b'{"id": "x1"}\n', SourceUnreadable, "bad.json' cannot be read: cannot parse the field name 'id'"),
        ("twice.json", b'{"id": 1, "id": 2}\n', SourceUnreadable, "twice.json' cannot be read: the column `id` already exists"),
        ("cut.json", b'{"id": 1', SourceUnreadable, "cut.json' cannot be read: "),
        ("more.csv", b"id,text,day,at,more\n1,a,,,x\n", SchemaMismatch, "the data has a column 'more', which the table does not have"),
        ("more.json", b'{"id": 1}\n{"id": 2, "more": 1}\n', SchemaMismatch, "the data has a column 'more', which the table does not have"),
    ],
)
def test_errors_name_what_does_not_fit(
    spark: Any, tmp_path: Path, name: str, content: bytes | None, error: type[Exception], message: str
) -> None:
    source = tmp_path / name
    source.mkdir() if content is None else source.write_bytes(content)
    with pytest.raises(error, match=message) as caught:
        rows(spark, source, FORMATS[source.suffix])
    assert "\n" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "table", "message"),
    [
        ("1,alice\n2,bob\n", None, "its first line is not a header: column 1 is '1', a number"),
        (",id\n0,1\n", None, "its first line is not a header: column 1 has no name"),
        ("id,id\n0,1\n", None, "its first line is not a header: columns 1 and 2 are both 'id'"),
        ("\ufeff\n\n1,2\n", None, "its first line is not a header: column 1 is '1', a number"),
        ("id;text\n1;a\n", None, "is separated by semicolons, not by commas"),
        ("id\ttext\n1\ta\n", TABLE, "is separated by tabs, not by commas"),
        ("1,alice\n2,bob\n", TABLE, "has none of the table's columns (id, text, day, at)"),
    ],
)
def test_a_csv_file_without_a_header_or_with_another_delimiter_is_refused(
    spark: Any, tmp_path: Path, text: str, table: pa.Schema | None, message: str
) -> None:
    (tmp_path / "x.csv").write_text(text, "utf-8")
    for source in (tmp_path / "x.csv", tmp_path):  # a file, and a folder of files
        with pytest.raises(SourceUnreadable, match=re.escape(message)):
            open_frame(spark, str(source), "csv", table)


@pytest.mark.spark
def test_a_csv_file_in_another_encoding_is_refused(spark: Any, tmp_path: Path) -> None:
    """Spark's reader would replace the characters; the terminal refuses such a file, too."""
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,plain\n")
    (tmp_path / "b.csv").write_bytes("id,text\n2,gr\xf6\xdfe\n".encode("latin-1"))
    for table in (None, TABLE):
        with pytest.raises(SourceUnreadable, match=r"the line '2,gr..e' is not UTF-8"), spark_errors_as_ours(str(tmp_path)):
            open_frame(spark, str(tmp_path), "csv", table)


@pytest.mark.spark
def test_a_csv_file_with_only_text_is_read_with_a_warning(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.csv").write_text("alice,paris\nbob,rome\n", "utf-8")
    assert open_frame(spark, str(tmp_path / "x.csv"), "csv", None).columns == ["alice", "paris"]
    assert "'alice, paris', was taken as column names; a file with only text may have no header" in caplog.text


def loaded(spark: Any, source: Path) -> dict[str, list[Any]]:
    """The rows and the warnings that the terminal and the job report for a new table."""
    found = {}
    for name, words in (("terminal", ["append", "--create"]), ("job", [])):
        table = str(source.parent / f"{source.stem}-{name}")
        if words:
            done = subprocess.run([sys.executable, "-m", "indextables", *words, table, source, "--json"], capture_output=True, check=True)
            warnings = json.loads(done.stdout)["warnings"]
        else:
            warnings = JOBS["write"].run(Write(source=str(source)), TableContext.at(table), lambda: spark).to_dict()["warnings"]
        found[name] = [it.open(table).scan().read_all().to_pylist(), warnings]
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        'id,msg\n1,"a\n2,b"\n',
        'id,msg\n1,"say ""hi"", ok"\n2,"""q"""\n3,"a\\"\n4,b\\n\n5,""\n6,\n7,"x\n\n  \ny, ""z"""\n8,5" pipe\n',
        '\r\nid,msg\r\n\r\n1,"a\r\nb"\r\n\r\n,"x\ny"\r\n2,z\r\n',  # as Excel writes it
        'msg,id\n"a\r\nb",1\n"c\r\n",2\n',
        '\ufeff"msg"\r\n"a\nb"\r\nc',
        'id,msg\n1,"  a "\n2,  b \n#3,#c\n',
    ],
)
def test_the_job_reads_a_nasty_csv_file_as_the_terminal_does(spark: Any, tmp_path: Path, text: str) -> None:
    """Line breaks and doubled quotes in quotes are text; a record with them was two rows for the job."""
    (tmp_path / "x.csv").write_text(text, "utf-8", newline="")
    found = loaded(spark, tmp_path / "x.csv")
    assert found["job"] == found["terminal"]


@pytest.mark.spark
@pytest.mark.parametrize("text", ['id,m\r\n1,a\n2,"b\nc"\r\n', 'id,m\n1,a\r\n2,"b\nc"\n', 'id,m\r1,"a\rb"\r', 'm\r\na\nb\r\n"c\nd"\r\n'])
def test_a_csv_file_with_quoted_line_breaks_and_different_line_ends_is_refused(spark: Any, tmp_path: Path, text: str) -> None:
    """Spark would join its records, or append a carriage return to the last value."""
    (tmp_path / "x.csv").write_text(text, "utf-8", newline="")
    with pytest.raises(SourceUnreadable, match="it has quoted line breaks, and not all lines end with"):
        open_frame(spark, str(tmp_path / "x.csv"), "csv", None)


@pytest.mark.spark
def test_the_job_reports_a_doubtful_header(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("alice,unknown\nbob,31\n", "utf-8")
    found = loaded(spark, tmp_path / "x.csv")
    assert found["job"] == found["terminal"]
    assert "column 2 is 'unknown', so that the file may have no header" in found["job"][1][0]


@pytest.mark.spark
def test_a_folder_of_csv_files_with_the_same_header_creates_a_table(spark: Any, tmp_path: Path) -> None:
    """The header of the second file is no value of the first."""
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"id,text\n{number},x\n", "utf-8")
    frame = open_frame(spark, str(tmp_path), "csv", None)
    assert sorted(tuple(row) for row in frame.collect()) == [(0, "x"), (1, "x"), (2, "x")]


@pytest.mark.spark
def test_a_second_csv_file_without_a_header_is_refused(spark: Any, tmp_path: Path) -> None:
    """Spark takes the column names of one file and would drop the first line of the others."""
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n3,c\n", "utf-8")
    (tmp_path / "b.csv").write_text("4,d\n5,e\n", "utf-8")
    for table in (None, TABLE):
        with (
            pytest.raises(SourceUnreadable, match=r"b\.csv' cannot be read: its first line is '4, d', but other files have 'id, text'"),
            spark_errors_as_ours(str(tmp_path)),
        ):
            open_frame(spark, str(tmp_path), "csv", table).collect()


def test_formats_are_detected_by_suffix() -> None:
    cases = {"a.csv": "csv", "a.csv.gz": "csv", "a.JSONL": "jsonl", "a.ndjson": "jsonl", "a.parquet": "parquet", "folder/": "parquet"}
    assert {name: format_of(name, None) for name in cases} == cases
    assert format_of("a.csv", "json") == "jsonl"


@pytest.mark.parametrize("name", ["rows.tsv", "rows.txt", "rows"])
def test_the_job_and_the_terminal_refuse_an_unknown_suffix_alike(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("id\n1\n")
    messages = []
    for detect in (lambda: open_source(str(file)), lambda: format_of(str(file), None)):
        with pytest.raises(InvalidArgument, match="give its format with --format") as caught:
            detect()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert format_of(str(file), "csv") == "csv"


def test_the_format_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    """Programs write Parquet without suffixes; Spark ignores names that begin with `_` or `.`."""
    lines = ("lines/day=1/a.json.gz", "lines/_SUCCESS.csv", "lines/_logs/a.csv")
    for name in ("plain/part-0", *lines, "texts.csv/part-0", "mixed/a.csv", "mixed/b.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = {name: format_of(str(tmp_path / name), None) for name in ("plain", "lines", "lines/*", "texts.csv", "mixed/*.csv")}
    assert found == {"plain": "parquet", "lines": "jsonl", "lines/*": "jsonl", "texts.csv": "csv", "mixed/*.csv": "csv"}
    with pytest.raises(InvalidArgument, match="mixed' has files of the formats csv, jsonl; load them one by one, or give --format"):
        format_of(str(tmp_path / "mixed"), None)


@pytest.mark.spark
def test_spark_lists_a_source_in_a_store_whose_name_implies_no_format(spark: Any, tmp_path: Path) -> None:
    assert format_of("s3a://bucket/logs.csv", None) == "csv"
    assert format_of("s3a://bucket/v1.2", None) is None
    for name in ("a b/day=1/rows.csv", "plain/part-0", "rows.tsv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("id\n1\n")
    assert [listed_format(spark, f"file:{tmp_path}/{name}") for name in ("a b", "a b/*", "plain")] == ["csv", "csv", "parquet"]
    assert open_frame(spark, f"file:{tmp_path}/a b", None, None).count() == 1
    with pytest.raises(InvalidArgument, match=r"rows\.tsv' is neither .parquet, .csv nor .jsonl; give its format with --format"):
        listed_format(spark, f"file:{tmp_path}/rows.tsv")


def test_sources_are_checked_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b.parquet").touch()
    assert check_source(f"file://{tmp_path}/a b.parquet") == str(tmp_path / "a b.parquet")
    assert check_source(f"{tmp_path}/*.parquet") == f"{tmp_path}/*.parquet"
    assert check_source("s3a://bucket/key") == "s3a://bucket/key"
    monkeypatch.chdir(tmp_path)
    assert check_source("a b.parquet") == str(tmp_path / "a b.parquet")
    for missing in ("", "b.parquet", f"{tmp_path}/*.csv", f"file:{tmp_path}/b"):
        with pytest.raises(SourceUnreadable, match="there is no file or folder"):
            check_source(missing)


def test_our_errors_are_recovered_from_the_text_of_sparks_exceptions() -> None:
    text = "Job aborted.\nTraceback:\n  x\nindextables.errors.SplitCorrupted: split 'a' is damaged\n\tat org.apache.spark"
    found = our_error(RuntimeError(text))
    assert isinstance(found, SplitCorrupted)
    assert str(found) == "split 'a' is damaged"
    lines = [
        "CheckpointWriteError: checkpoint 3 could not be written: no answer",
        "CheckpointCorruptionError: checkpoint file 'x' cannot be used: cut",
    ]
    for line in lines:
        kind, message = line.split(": ", maxsplit=1)
        found = our_error(RuntimeError(f"Job aborted.\nindextables.errors.{line}"))
        assert (type(found).__name__, str(found)) == (kind, message)
    assert our_error(RuntimeError("indextables.errors.os: x")) is None
    assert our_error(RuntimeError("out of memory")) is None
    assert source_error(RuntimeError("out of memory"), "s") is None
