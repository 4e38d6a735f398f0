"""A CSV file without a header or with another delimiter is refused and creates no table."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main
from indextables.rows.csv_header import HEAD_BYTES, check_header
from tests.support.tables import tree

NO_HEADER = {
    "1,alice,3.5\n2,bob,4.5\n": "column 1 is '1', a number",
    "alice,2024-01-31\nbob,2024-02-01\n": "column 2 is '2024-01-31', a time",
    "alice,31/01/2024\n": "column 2 is '31/01/2024', a time",
    "2024-01-31T10:00:00Z,INFO,up\n": "column 1 is '2024-01-31T10:00:00Z', a time",
    "12:30:01,up\n": "column 1 is '12:30:01', a time",
    "alice,-1.5e-3\n": "column 2 is '-1.5e-3', a number",
    'alice,"1,000.50"\n': "column 2 is '1,000.50', a number",
    "alice,12 %\n": "column 2 is '12 %', a number",
    "alice,True\n": "column 2 is 'True', a truth value",
    "alice,NULL\n": "column 2 is 'NULL', no value",
    "10.0.0.1,GET\n": "column 1 is '10.0.0.1', an address",
    "bob@example.org,up\n": "column 1 is 'bob@example.org', an address",
    "https://example.org/,up\n": "column 1 is 'https://example.org/', an address",
    "0b0d8a3c-0c6b-4b0e-9d5b-0c8d2f3a4b5c,up\n": "column 1 is '0b0d8a3c-0c6b-4b0e-9d5b-0c8d2f3a4b5c', an identifier",
    ",a\n0,x\n": "column 1 has no name",
    "a,b,\n1,2,3\n": "column 3 has no name",
    '"",a\n"0",x\n': "column 1 has no name",
    "a,b,a\n1,2,3\n": "columns 1 and 3 are both 'a'",
    "INFO,up\nWARN,disk full\nINFO,down\n": "column 1 is 'INFO', which is also a value of that column",
    "\n\n7\n8\n": "column 1 is '7', a number",
    "\ufeff7,x\n": "column 1 is '7', a number",
    "sep=,\na,b\n": "column 1 is 'sep=', a note for Excel",
    "Jan  5 10:00:00 host sshd[12]: closed, by peer\n": "column 1 is 'Jan  5 10:00:00 host sshd[12]: closed', which contains a time",
    "GET from 10.0.0.1,200\n": "column 1 is 'GET from 10.0.0.1', which contains an address",
    '{"a":1}\n{"a":2}\n': "column 1 is '{\"a\":1}', which begins a JSON object",
    '{"a": 1, "b": 2}\n': "column 1 is '{\"a\": 1', which begins a JSON object",
    "server started\nserver stopped\n": "'server started' has no comma and is not one word",
    "id:name\n1:a\n": "'id:name' has no comma and is not one word",
    "id name\n1 a\n": "'id name' has no comma and is not one word",
    "id^name\n1^a\n": "'id^name' has no comma and is not one word",
    "id;name;note\n1;a\n2;b;c;d\n3;e;f;g\n": "'id;name;note' has no comma and is not one word",
    "<html>\n<body>\n": "'<html>' has no comma and is not one word",
    "alice,n/a\nbob,31\n": "column 2 is 'n/a', no value",
    "alice,NA\nbob,31\n": "column 2 is 'NA', no value",
    "alice,None\nbob,31\n": "column 2 is 'None', no value",
    "alice,-\nbob,31\n": "column 2 is '-', no value",
    "alice,\\N\nbob,31\n": "column 2 is '\\\\N', no value",
}
DELIMITED = {
    "a;b\n1;2\n": "semicolons",
    "a;b\n1,5;2\n": "semicolons",  # decimal commas
    "a\tb\tc\n1\t2\t3\n": "tabs",
    'a|b\n"x|y"|2': "vertical bars",
    "a;b;c\n": "semicolons",
    "id;name, first;city\n1;Bob, B.;Rome\n2;Eve, E.;Oslo\n": "semicolons",
    "a;b\n1;2\nx;y\nsee; this; one\n": "semicolons",
    "1;2\n3;4\n": "semicolons",
    # As many commas in the header as decimal commas in each row.
    "name;price, EUR\nA;1,50\nB;2,75\n": "semicolons",
    "name|price, EUR\nA|1,50\nB|2,75\n": "vertical bars",
    "name\tprice, EUR\nA\t1,50 kg\n": "tabs",
    "item;net, EUR;gross, EUR\nA;1,50;2,00\n": "semicolons",
    "x, m;y, m\n1,5;2,5\n-3,0;1.000,25 \u20ac\n": "semicolons",
    '"name";"price, EUR"\n"A";"1,50"\n': "semicolons",
    "name;owner, first\nA;Bob, B.\nC;Eve, E.\n": "semicolons",
    "time, UTC;level\n2024-01-01 10:00:00,123;INFO\n": "semicolons",
    "name;price, EUR\n": "semicolons",
}
GOOD = [
    "größe_2\n1\n", "net.bytes-out\n1\n", "version 1.2.3,at 10:00\nx,y\n",
    "a,b\n1,2\n", "a\n1\n",  "name\nalice\n", "First name,Age (years)\nBob,3\n", "a,b\n", "id,tags\n1,x|y\n2,z|w\n",
    "lat|lon,name\n1|2,x\n3|4,y\n",
    '"a","b"\n"1","2"\n', "message\nno; really\nyes\n", "q1,2nd,v2\n1,2,3\n", "a,A\n1,2\n", "alice,paris\nbob,rome\n", 'm,"x;y"\n1,2\n', "",
    'm,"x;y"\n1,"2;3"\n', '"a;b","c;d"\n"1;2","3;5"\n', "id,a|b\n1,x|y\n2,z|w\n", "price (a|b),name\n1|2,bob\n3|4,eve\n",
    "k|v,n\nfoo|bar,3\nx|y,4\n", "id,text; more\n1,one; two\n2,three; four\n", "first; last,age\nBob; B,3\nEve; E,4\n",
    "from|to,name\n2024-01-01|2024-02-01,bob\n", 'id,msg\n1,"a;\n2,b"\n', "yes,no,unknown\n1,2,3\n",
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), NO_HEADER.items())
def test_a_first_line_that_is_data_is_refused(text: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text(text, "utf-8")
    before = tree(tmp_path)
    for words in (["append", "{t}", "{x}", "--create"], ["overwrite", "{t}", "{x}", "--create"], ["create", "{t}", "--like", "{x}"]):
        assert main([word.format(t=tmp_path / "t", x=tmp_path / "x.csv") for word in words]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"error: {str(tmp_path / 'x.csv')!r} cannot be read: its first line is not a header: {named}; a csv file ")
        assert "must begin with a line of column names (if it does, create the table first with `create --schema`" in err
    assert tree(tmp_path) == before


@pytest.mark.parametrize(("text", "named"), DELIMITED.items())
@pytest.mark.parametrize("exists", [True, False])
def test_another_delimiter_is_refused(
    text: str, named: str, exists: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if exists:
        it.create(tmp_path / "t", pa.schema([("a", pa.string()), ("b", pa.string())]))
    (tmp_path / "x.csv").write_text(text, "utf-8")
    before = tree(tmp_path)
    for source in (str(tmp_path / "x.csv"), "-"):
        for verb in ("append", "overwrite"):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            assert main([verb, str(tmp_path / "t"), source, *([] if exists else ["--create"])]) == 1
            err = capsys.readouterr().err
            assert f"is separated by {named}, not by commas; convert the file to commas\n" in err
    assert tree(tmp_path) == before


@pytest.mark.parametrize("text", GOOD)
def test_a_header_is_recognized(text: str) -> None:
    check_header(text, "x.csv", None)


@pytest.mark.parametrize("text", ["alice,paris\nbob,rome\n", "alice,paris\n", "alice\nbob\n", '"name","city"\n"eve",\n'])
def test_a_header_of_a_file_with_only_text_is_named_in_a_warning(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a file may have no header, and its first row would be lost."""
    (tmp_path / "x.csv").write_text(text, "utf-8")
    names = ", ".join(cell.strip('"') for cell in text.splitlines()[0].split(","))
    warning = f"WARNING: the first line of {str(tmp_path / 'x.csv')!r}, {names!r}, was taken as column names; "
    for number, words in enumerate((["append", "{t}", "{x}", "--create"], ["create", "{t}", "--like", "{x}"])):
        command = [word.format(t=tmp_path / str(number), x=tmp_path / "x.csv") for word in words]
        done = subprocess.run([sys.executable, "-m", "indextables", *command, "--json"], capture_output=True, text=True, check=True)
        assert done.stderr == f"{warning}a file with only text may have no header\n"
        json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("alice,unknown\nbob,31\ncarol,45\n", "column 2 is 'unknown', so that the file may have no header"),
        (
            "Report, January\nid,name\n1,a\n",
            "a file in which no column has only numbers or other values may have no header, or a title above it",
        ),
        ("alice,paris\nbob,rome\n", "a file with only text may have no header"),
    ],
)
def test_a_doubtful_header_is_a_warning_of_the_report(text: str, doubt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text(text, "utf-8")
    for verb in ("append", "overwrite"):
        assert main([verb, str(tmp_path / verb), str(tmp_path / "x.csv"), "--create", "--json"]) == 0
        (warning,) = json.loads(capsys.readouterr().out)["warnings"]
        assert warning.startswith(f"the first line of {str(tmp_path / 'x.csv')!r}, ")
        assert warning.endswith(f" was taken as column names; {doubt}")


@pytest.mark.parametrize(
    "text",
    ["name,age\nalice,3\nbob,n/a\ncarol,unknown\n", "name,age\nalice,3\n", "name,born\nalice,2001-02-03\n", "name,ok\nalice,\nbob,true\n"],
)
def test_a_header_above_other_values_is_read_without_a_warning(text: str, caplog: pytest.LogCaptureFixture) -> None:
    check_header(text, "x.csv", None)
    assert caplog.messages == []


@pytest.mark.parametrize("cell", ["a@" + "." * 60_000 + " x", "a@" + ".b" * 30_000 + "@"])
def test_a_long_cell_is_text(cell: str) -> None:
    """To compare one of these with the pattern of an address takes half a minute."""
    check_header(f"name,id\n{cell},1\n", "x.csv", None)
    with pytest.raises(it.SourceUnreadable, match="a number"):
        check_header(f"{cell},1\n", "x.csv", None)


@pytest.mark.parametrize("text", ["1,2\n3,4\n", "alice,paris\n"])
def test_a_first_line_without_a_column_of_the_table_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", pa.string()), ("b", pa.string())]))
    (tmp_path / "x.csv").write_text(text, "utf-8")
    for words in (["append"], ["overwrite"], ["append", "--create"]):
        assert main([*words, str(tmp_path / "t"), str(tmp_path / "x.csv")]) == 1
        assert "has none of the table's columns (a, b); a csv file must begin with" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["append", str(tmp_path / "t"), "-", "--format", "csv"]) == 1
    with pytest.raises(it.SourceUnreadable, match="none of the table's columns"):
        table.append(tmp_path / "x.csv")
    assert it.open(tmp_path / "t").version == 0


def test_a_table_may_have_columns_that_do_not_look_like_names(tmp_path: Path) -> None:
    """They come from an explicit schema, and CSV files with these columns are read."""
    table = it.create(tmp_path / "t", pa.schema([("country", pa.string()), ("2019", pa.int64()), ("x;y", pa.string())]))
    (tmp_path / "x.csv").write_text("country,2019,x;y\nNorway,7,a;b\n", "utf-8")
    table.append(tmp_path / "x.csv")
    assert table.scan().read_all().to_pylist() == [{"country": "Norway", "2019": 7, "x;y": "a;b"}]


def test_a_misspelled_column_is_still_named(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", pa.string()), ("b", pa.string())]))
    (tmp_path / "x.csv").write_text("a,c\n1,2\n", "utf-8")
    with pytest.raises(it.SchemaMismatch, match="'c'"):
        table.append(tmp_path / "x.csv")


def test_a_column_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("a", pa.string()), ("b", pa.string())]))
    (tmp_path / "x.csv").write_text("a,a\n1,2\n", "utf-8")
    with pytest.raises(it.IndexTablesError, match="'a'"):
        table.append(tmp_path / "x.csv")


def test_a_compressed_file_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1,2\n3,4\n"))
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.csv.gz"), "--format", "csv", "--create"]) == 1
    assert "column 1 is '1', a number" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [1, 10, HEAD_BYTES])
@pytest.mark.parametrize("exists", [True, False])
def test_no_row_of_standard_input_is_lost_to_the_check(rows: int, exists: bool, tmp_path: Path) -> None:
    """Also if a pipe delivers a few bytes at a time."""
    if exists:
        it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("m", pa.string())]))
    writer = f"import sys\nprint('id,m', flush=True)\nfor n in range({rows}): print(f'{{n}},text {{n}}', flush=n < 20)"
    command = [sys.executable, "-m", "indextables", "append", str(tmp_path / "t"), "-", *([] if exists else ["--create"])]
    with subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE) as process:
        subprocess.run(command, stdin=process.stdout, check=True, capture_output=True)
    table = it.open(tmp_path / "t")
    assert table.scan(columns=["id"]).read_all().column("id").to_pylist() == list(range(rows))
