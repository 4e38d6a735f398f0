"""Row files: the output of a scan can be read back unchanged, and errors name the column, the row number and the value."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main
from indextables.rows import jsonl, open_source
from tests.support.tables import tree

SCALARS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["a", "", "null", 'q"\n,\\ ☃', None]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 0, 1, None]),
    "byte": (pa.int8(), [-128, 127, 0, 1, None]),
    "float": (pa.float32(), [0.1, -0.0, math.inf, math.nan, None]),
    "double": (pa.float64(), [5e-324, -0.0, -math.inf, math.nan, None]),
    "decimal": (pa.decimal128(38, 10), [Decimal("9999999999999999999999999999.9999999999"), Decimal("-1.5"), Decimal(0), None, None]),
    "boolean": (pa.bool_(), [True, False, True, False, None]),
    "binary": (pa.binary(), [b"\x00\xff", b"", b"abc", b"\n", None]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(1600, 2, 29), date(2300, 1, 1), None]),
    "zoned": (
        pa.timestamp("us", tz="UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None, None, None],
    ),
    "local": (pa.timestamp("us"), [datetime(1500, 1, 1), datetime(2999, 12, 31, 23, 59, 59, 999999), None, None, None]),
}
_INNER = pa.struct(
    [("n", pa.decimal128(5, 1)), ("when", pa.timestamp("us", tz="UTC")), ("deep", pa.map_(pa.int64(), pa.list_(pa.float64())))]
)
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "array": (pa.list_(pa.string()), [["a", None, ""], [], [None], ["b"], None]),
    "days": (pa.list_(pa.date32()), [[date(1, 1, 1), None], [], None, None, None]),
    "struct": (
        _INNER,
        [{"n": Decimal("1.5"), "when": datetime(1, 1, 1, tzinfo=UTC), "deep": [(-7, [1.5, math.inf])]}, None, None, None, None],
    ),
    "map": (pa.map_(pa.string(), pa.binary()), [[("a", b"\xff"), ("", None)], [], None, None, None]),
    "maps": (pa.list_(pa.map_(pa.date32(), pa.bool_())), [[[(date(2024, 1, 1), True)], [], None], None, None, None, None]),
}


def rows_of(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


@pytest.mark.parametrize(
    ("form", "rows"), [("csv", rows_of(SCALARS)), ("jsonl", rows_of(SCALARS | NESTED)), ("parquet", rows_of(SCALARS | NESTED))]
)
def test_the_output_of_a_scan_is_read_back_unchanged(tmp_path: Path, form: str, rows: pa.Table) -> None:
    table = it.create(tmp_path / "from", rows.schema)
    table.append(rows)
    file = tmp_path / f"rows.{form}"
    assert main(["scan", str(tmp_path / "from"), "--output", str(file)]) == 0
    it.create(tmp_path / "to", rows.schema)
    assert main(["append", str(tmp_path / "to"), str(file)]) == 0
    back, before = (list(map(repr, it.open(place).scan().read_all().to_pylist())) for place in (tmp_path / "to", tmp_path / "from"))
    assert back == before


GOOD: dict[str, Any] = {
    "id": 1, "s": "x", "f": 1.5, "b": True, "day": "2024-01-01", "ts": "2024-01-01T00:00:00Z", "m": "1.25", "x": "00ff",
    "st": {"d": "2024-01-01"}, "l": ["a"], "by": {"k": 1},
}  # fmt: skip
SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("b", pa.bool_()), ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")), ("m", pa.decimal128(10, 2)), ("x", pa.binary()), ("st", pa.struct([("d", pa.date32())])),
        ("l", pa.list_(pa.string())), ("by", pa.map_(pa.string(), pa.int64())),
    ]
)  # fmt: skip
BAD: list[tuple[str, Any]] = [
    ("id", "word"), ("id", 1.5), ("id", 2**63), ("s", 5), ("f", "word"), ("f", True), ("b", "maybe"), ("day", "soon"), ("day", 5),
    ("ts", "2024-01-01T00:00:00"), ("m", "1.234"), ("m", "word"), ("m", True), ("x", "0g"), ("st", {"d": "soon"}), ("st", {"e": 1}),
    ("l", "ab"), ("l", [5]), ("by", {"k": "v"}), ("by", [["k", 1]]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value"), BAD)
def test_a_bad_value_in_jsonl_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, column: str, value: Any
) -> None:
    """The value is in the second chunk of lines, after an empty line."""
    monkeypatch.setattr(jsonl, "_ROWS", 100)
    it.create(tmp_path / "t", SCHEMA)
    lines = [json.dumps(GOOD)] * 150
    lines[120] = json.dumps({**GOOD, column: value})
    (tmp_path / "x.jsonl").write_text("\n\n".join(lines))
    before = tree(tmp_path)
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.jsonl")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: row 120, column {column!r}: ")
    assert "is not a value of type" in error
    assert tree(tmp_path) == before


def test_spaces_around_a_number_in_csv_are_ignored(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("m", pa.decimal128(10, 2))]))
    (tmp_path / "x.csv").write_text('id,m\n 1 , 1.5\t\n 2 ," 2.5 "\n3,\n')
    table.append(tmp_path / "x.csv")
    assert table.scan().read_all().column("m").to_pylist() == [Decimal("1.50"), Decimal("2.50"), None]


@pytest.mark.parametrize(
    ("column", "value"), [("id", "word"), ("f", "word"), ("b", "maybe"), ("day", "soon"), ("ts", "noon"), ("m", "1.234"), ("x", "0g")]
)
def test_a_bad_value_in_csv_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, value: str) -> None:
    names = [name for name in SCHEMA.names if isinstance(GOOD[name], str | int | float)]
    it.create(tmp_path / "t", pa.schema([SCHEMA.field(name) for name in names]))
    lines = [
        ",".join(str({**GOOD, **({column: value} if n == 3 else {})}[name]).replace("True", "true") for name in names) for n in range(5)
    ]
    (tmp_path / "x.csv").write_text("\n".join([",".join(names), *lines]))
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.csv")]) == 1
    assert capsys.readouterr().err.startswith(f"error: row 3, column {column!r}: {value!r} is not ")
    assert it.open(tmp_path / "t").version == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b'{"id": 1}\n[1]\n', "line 2 is not a JSON object"), (b'{"id": 1}\n\n{"id": \n', "line 3 is not a JSON object"),
        (b'{"s": "\xff"}\n', "line 1 is not a JSON object"), (b'{"s": "\\ud800"}\n', "line 1 is not a JSON object"),
        (b"[" * 100_000, "line 1"),
        (b'{"id": 1, "z": 2}\n', "row 0 has a column 'z', which the table does not have"),
    ],
)  # fmt: skip
def test_invalid_jsonl_lines_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, named: str) -> None:
    it.create(tmp_path / "t", SCHEMA)
    (tmp_path / "x.jsonl").write_bytes(text)
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.jsonl")]) == 1
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
    assert it.open(tmp_path / "t").version == 0


def test_a_line_that_is_too_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    it.create(tmp_path / "t", SCHEMA)
    (tmp_path / "x.jsonl").write_bytes(b'{"s": "' + b"a" * (16 << 20) + b'"}\n')
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.jsonl")]) == 1
    assert capsys.readouterr().err.endswith(" cannot be read: line 1 has more than 16 MiB\n")
    assert it.open(tmp_path / "t").version == 0


@pytest.mark.parametrize("number", ["1e30000000", "1e99999999999999999999", "-1e400", "1e-99999999999999999999"])
@pytest.mark.parametrize("column", ["id", "f", "m", "free"])
def test_numbers_that_are_too_large_among_decimals(column: str, number: str) -> None:
    """Without the check they would become infinite, fail in a library, or be read as an integer."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("m", pa.decimal128(10, 2)), ("free", pa.list_(pa.int64()))])
    line = f'{{"{column}": [{number}]}}' if column == "free" else f'{{"{column}": {number}}}'
    with pytest.raises(it.IndexTablesError, match=r"line 1 .*Number out of range"):
        list(jsonl.read_jsonl(io.BytesIO(line.encode()), "x", schema))


def test_a_file_without_lines_has_no_rows(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", SCHEMA)
    (tmp_path / "x.jsonl").write_bytes(b"\xef\xbb\xbf\n \n")
    assert table.append(tmp_path / "x.jsonl").status == "no_action"


def test_times_inside_nested_values_are_inferred_as_strings(tmp_path: Path) -> None:
    """Arrow would drop their time zone."""
    (tmp_path / "x.jsonl").write_text('{"t": "2024-01-01T00:00:00Z", "st": {"t": "2024-01-01T00:00:00Z"}}\n')
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.jsonl"), "--create"]) == 0
    assert it.open(tmp_path / "t").scan().read_all().to_pylist() == [
        {"t": datetime(2024, 1, 1, tzinfo=UTC), "st": {"t": "2024-01-01T00:00:00Z"}}
    ]


@pytest.mark.parametrize(("name", "text"), [("x.csv", "a,b\n"), ("x.csv", "a,b\n,\n"), ("x.jsonl", '{"a": null, "b": null}\n')])
def test_a_column_without_values_is_a_string(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    """Later files can fill it. The report says that a table was created even if no row was written."""
    (tmp_path / name).write_text(text)
    assert main(["append", str(tmp_path / "t"), str(tmp_path / name), "--create", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    table = it.open(tmp_path / "t")
    assert table.schema == pa.schema([("a", pa.string()), ("b", pa.string())])
    created = ["the table was created, but the source has no rows"]
    doubt = [f"the first line of {str(tmp_path / name)!r}, 'a, b', was taken as column names; a file with only text may have no header"]
    expected = [*(doubt if name == "x.csv" else []), *([] if table.version else created)]
    assert (report["status"], report["warnings"]) == ("success" if table.version else "no_action", expected)
    (tmp_path / "more.csv").write_text("a,b\n1,word\n")
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "more.csv")]) == 0
    assert table.refresh().count("a = '1' AND b = 'word'") == 1


def test_a_nested_field_without_values_is_a_string(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"l": [], "st": {"n": null}}\n')
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "x.jsonl"), "--create"]) == 0
    table = it.open(tmp_path / "t")
    table.append([{"l": ["a"], "st": {"n": "b"}}])
    assert table.scan().read_all().to_pylist() == [{"l": [], "st": {"n": None}}, {"l": ["a"], "st": {"n": "b"}}]


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"a,b\nx,ok\ny,Caf\xe9\n", "row 1, column 'b' is not UTF-8"),
        pytest.param(
            b"a,b\n" + (b"x," + b"k" * 65_536 + b"\n") * 300 + b"y,Caf\xe9\n", "row 300, column 'b' is not UTF-8", id="in a later block"
        ),
        (b"a,n\xe9\nx,ok\n", "the names of its columns are not UTF-8"),
    ],
)
def test_a_csv_that_is_not_utf_8_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, named: str, create: bool
) -> None:
    if not create:
        it.create(tmp_path / "t", pa.schema([("a", pa.string()), ("b", pa.string())]))
    file = tmp_path / "x.csv"
    file.write_bytes(text)
    before = tree(tmp_path)
    assert main(["append", str(tmp_path / "t"), str(file), *(["--create"] if create else [])]) == 1
    assert capsys.readouterr().err == f"error: {str(file)!r} cannot be read: {named}\n"
    assert tree(tmp_path) == before


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("text", ['[{"a": "x"}]', '[\n{"a": "x"},\n{"a": "y"}\n]\n', '{\n"a": "x"\n}\n'])
def test_json_that_is_not_one_object_per_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, create: bool
) -> None:
    if not create:
        it.create(tmp_path / "t", pa.schema([("a", pa.string())]))
    (tmp_path / "x.jsonl").write_text(text)
    for source in (str(tmp_path / "x.jsonl"), "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main(["append", str(tmp_path / "t"), source, *(["--create"] if create else [])]) == 1
        assert "line 1 is not a JSON object: expected one object per line" in capsys.readouterr().err


def test_missing_or_invalid_sources_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["append", str(tmp_path / "t"), "-", "--create"]) == 1
    assert capsys.readouterr().err == "error: standard input is empty\n"
    assert main(["append", str(tmp_path / "t"), "a" * 500 + ".csv", "--create"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no file 'aaa")
    for given in ("a int64", "a" * 500):
        assert main(["create", str(tmp_path / "t"), "--schema", given]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"error: {given!r} cannot be read: ")
        assert err.endswith("; --schema takes a file with Spark's JSON (df.schema.json())\n")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("name", ["rows.tsv", "rows.txt", "rows"])
def test_a_file_with_an_unknown_suffix_needs_a_format(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("id\n1\n")
    with pytest.raises(it.InvalidArgument) as caught:
        open_source(str(file))
    assert str(caught.value) == f"{str(file)!r} is neither .parquet, .csv nor .jsonl; give its format with --format"
    assert open_source(str(file), "csv").read_all().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz", "rows.ndjson.bz2"])
def test_a_compressed_file_has_the_format_before_its_last_suffix(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    data = b"id\n1\n" if ".csv" in name else b'{"id": 1}\n'
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else bz2.compress(data))
    for schema in (None, pa.schema([("id", pa.int64())])):
        assert open_source(str(file), schema=schema).read_all().to_pylist() == [{"id": 1}]


def test_the_error_in_a_compressed_file_names_the_column(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"text,id\na,x\n"))
    with pytest.raises(it.SchemaMismatch, match="column 'id': 'x' is not of type int64"):
        open_source(str(tmp_path / "rows.csv.gz"), schema=pa.schema([("text", pa.string()), ("id", pa.int64())])).read_all()
