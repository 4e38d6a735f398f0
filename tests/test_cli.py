"""The terminal, for people and for programs: output, exit codes, and one clear line for every bad input."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import indextables as it
from indextables.cli.main import main
from indextables.config import KEYS, PREFIX
from indextables.rows import sources
from tests.support.tables import SCHEMA, ids, make, rows, tree, version_file

WITHOUT_RETENTION = ("--older-than", "0s", "-o", "purge.retentionCheckEnabled=false")


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    try:
        code = main([str(word) for word in argv])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def as_json(capsys: pytest.CaptureFixture[str], *argv: object) -> Any:
    code, out, err = run(capsys, *argv, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows(0, 40), schema=SCHEMA), tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def test_every_verb_as_json(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    t = tmp_path / "t"
    made = as_json(capsys, "create", t, "--like", data, "--partition-by", "date")
    assert (made["version"], made["num_files"], made["partition_columns"]) == (0, 0, ["date"])
    for version in (1, 2):
        report = as_json(capsys, "append", t, data)
        assert (report["operation"], report["status"], report["version"]) == ("append", "success", version)
    assert as_json(capsys, "count", t) == {"count": 80}
    assert as_json(capsys, "count", t, "--where", "level = 'ERROR'") == {"count": 26}
    assert len(as_json(capsys, "files", t)) == 4
    assert len(as_json(capsys, "files", t, "--where", "date = '2024-01-01'")) == 2
    explained = as_json(capsys, "explain", t, "--where", "date = '2024-01-01' AND id > 38", "--query", "refused")
    assert [explained[name] for name in ("files_considered", "files_pruned_by_partition", "files_skipped_by_stats")] == [4, 2, 2]
    found = as_json(capsys, "search", t, "connection AND refused", "--limit", 3, "--columns", "id,message")
    assert set(found[0]) == {"id", "message", "_score"}
    for columns in ("_score", "message,_score,id"):  # always returned, and may be requested
        rows_found = as_json(capsys, "search", t, "connection AND refused", "--limit", 3, "--columns", columns)
        assert rows_found == [{name: row[name] for name in (*columns.replace("_score", "").split(","), "_score") if name} for row in found]
    scanned = as_json(capsys, "scan", t, "--where", "id = 7", "--columns", "id,ts,date,latency")
    assert scanned == [{"id": 7, "ts": "2024-01-01T00:00:07Z", "date": "2024-01-02", "latency": 1.75}] * 2
    assert [entry["operation"] for entry in as_json(capsys, "history", t)] == ["append", "append", "create"]
    dry = as_json(capsys, "merge-splits", t, "--target-size", "100M", "--dry-run")
    assert [len(step["sources"]) for step in dry["plan"]] == [2, 2]
    assert as_json(capsys, "merge-splits", t)["version"] == 3
    assert as_json(capsys, "merge-splits", t)["status"] == "no_action"
    assert as_json(capsys, "checkpoint", t)["metrics"]["num_files"] == 2
    assert {step["kind"] for step in as_json(capsys, "purge", t, *WITHOUT_RETENTION, "--dry-run")["plan"]} == {"split"}
    assert as_json(capsys, "purge", t, *WITHOUT_RETENTION)["metrics"]["files_deleted"] == 4
    described = as_json(capsys, "describe", t)
    assert set(described) == {
        "path", "version", "num_files", "num_records", "size_bytes", "partition_columns", "schema", "protocol", "configuration", "metrics",
    }  # fmt: skip
    assert (described["num_records"], described["version"]) == (80, 3)
    features = ["arrowRowStore", "avroState", "schemaDeduplication"]
    assert described["protocol"] == {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": features, "writerFeatures": features}
    assert as_json(capsys, "describe", t, "--version", 1)["num_records"] == 40


def test_output_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    t = tmp_path / "t"
    make(t, appends=2)
    expectations = {
        ("files", t): "splits/split-",
        ("history", t): "create",
        ("describe", t): "partitioned by   date",
        ("explain", t, "--where", "date = '2024-01-01'"): "files pruned by partition 2",
        ("search", t, "refused"): "_score",
        ("scan", t, "--limit", 2): "message",
        ("count", t): "20",
        ("merge-splits", t, "--dry-run"): "would: merge 2 splits of date=2024-01-01, 10 rows",
        ("merge-splits", t): "success  merge_splits, version 3",
        ("checkpoint", t): "success  checkpoint",
        ("purge", t, *WITHOUT_RETENTION, "--dry-run"): "would: delete date=",
        ("purge", t): "\n  no split was removed more than 7d ago, and no log file has expired\n",
        ("merge-splits", t, "--target-size", "3M"): "\n  a merge takes two or more splits of one partition, each below 45% of 3.0 MiB\n",
    }
    for argv, expected in expectations.items():
        code, out, err = run(capsys, *argv)
        assert (code, err) == (0, ""), argv
        assert expected in out, argv


def test_append_can_create_and_reads_every_format(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = pq.ParquetFile(data).read().to_pylist()
    lines = [{k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in row.items()} for row in expected]
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(row) for row in lines))
    csv.write_csv(pq.ParquetFile(data).read(), tmp_path / "data.csv")
    for form in ("parquet", "jsonl", "csv"):
        t = tmp_path / form
        report = as_json(capsys, "append", t, tmp_path / f"data.{form}", "--create", "--partition-by", "date")
        assert report["metrics"]["rows_written"] == 40
        again = as_json(capsys, "append", t, tmp_path / f"data.{form}")
        assert again["version"] == 2
        table = it.open(t)
        assert table.schema.field("date").type == pa.date32(), form
        assert it.open(t, 1).scan(columns=["id", "message", "date", "latency"]).read_all().sort_by("id").to_pylist() == [
            {k: row[k] for k in ("id", "message", "date", "latency")} for row in expected
        ]
    as_json(capsys, "overwrite", t, tmp_path / "data.jsonl", "--where", "date = '2024-01-01' OR date = '2024-01-02'")
    assert ids(it.open(t)) == list(range(40))


def test_standard_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "or - for standard input, whose format is detected" in " ".join(run(capsys, "append", "--help")[1].split())

    class Stdin:
        buffer = io.BytesIO(b'{"id": 1, "message": "from a pipe"}\n{"id": 2}\n')

    monkeypatch.setattr(sys, "stdin", Stdin())
    as_json(capsys, "append", tmp_path / "t", "-", "--create")
    assert it.open(tmp_path / "t").scan().read_all().to_pylist() == [{"id": 1, "message": "from a pipe"}, {"id": 2, "message": None}]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_the_format_of_standard_input_is_detected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Into a new table, whose types are inferred, and into an existing one; a byte order mark is not data."""
    rows = pa.table({"id": [1, 2], "day": pa.array([19_000, None], pa.date32())})
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(rows, sink)
    elif form == "csv":
        sink.write(b"\xef\xbb\xbf")
        csv.write_csv(rows, sink)
    else:
        sink.write(b'\n  {"id": 1, "day": "2022-01-08"}\n{"id": 2}\n')
    for number in (1, 2):

        class Stdin:
            buffer = io.BytesIO(sink.getvalue())

        monkeypatch.setattr(sys, "stdin", Stdin())
        as_json(capsys, "append", tmp_path / "t", "-", "--create")
        assert it.open(tmp_path / "t").scan().read_all().to_pydict() == {
            "id": [1, 2] * number,
            "day": [date(2022, 1, 8), None] * number,
        }


def test_an_error_names_the_bad_value_of_a_csv_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its column and row, wherever it is in the file; the table is not changed."""
    it.create(tmp_path / "t", pa.schema([("m", pa.string()), ("id", pa.int64())]))
    for before in (1, 150_000):  # in the first block, and in a later one
        line = '"a stack\ntrace of some length: ' + "x" * 120 + '",7\n'
        (tmp_path / "bad.csv").write_text("m,id\n" + line * before + "last,seven\n")
        code, _, err = run(capsys, "append", tmp_path / "t", tmp_path / "bad.csv")
        assert (code, err) == (1, f"error: row {before}, column 'id': 'seven' is not of type int64\n")
    assert it.open(tmp_path / "t").version == 0


def test_json_lines_are_streamed(tmp_path: Path) -> None:
    """Into a table whose types are known, so that memory does not grow with the file."""
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("none", pa.string())])
    lines = [json.dumps({"id": n, "ts": "2024-01-01T00:00:00.5Z" if n % 2 else None}) for n in range(110_000)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    batches = list(sources.open_source(str(tmp_path / "x.jsonl"), None, schema))
    assert len(batches) > 10
    found = pa.Table.from_batches(batches)
    assert found.schema.equals(schema)
    assert found.column("id").to_pylist() == list(range(110_000))
    assert found.column("ts").null_count == 55_000


def test_create_with_a_spark_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "schema.json").write_text('{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{}}]}')
    as_json(capsys, "create", tmp_path / "t", "--schema", tmp_path / "schema.json", "-o", "merge.targetSize=200M")
    table = it.open(tmp_path / "t")
    assert table.schema == pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert table.configuration == {"spark.indextables.merge.targetSize": "200M"}


BAD: list[tuple[int, str, list[str]]] = [
    (2, "invalid choice: 'serch'", ["serch", "{t}"]),
    (2, "required", ["search"]),
    (2, "unrecognized arguments: --colums id (see indextables search --help)", ["search", "{t}", "x", "--colums", "id"]),
    (2, "unrecognized arguments: refused; quote a query of several words (see", ["search", "{t}", "connection", "refused"]),
    (2, "unrecognized arguments: --wher", ["scan", "{t}", "--wher", "id = 1"]),
    (2, "(see indextables --help)", ["--vers"]),
    (2, "ends in none of .arrow, .csv, .json, .jsonl, .ndjson, .parquet, .txt", ["scan", "{t}", "--output", "{tmp}/x.xlsx"]),
    (2, "invalid int value: 'ten'", ["search", "{t}", "x", "--limit", "ten"]),
    (2, "limit 0", ["search", "{t}", "x", "--limit", "0"]),
    (2, "no column 'mesage' to search (it has id, ts, level, message,", ["search", "{t}", "mesage:x"]),
    (2, "'tss' is not a column, optionally followed by asc or desc; the table has id, ts,", ["search", "{t}", "x", "--order-by", "tss"]),
    (2, "(", ["search", "{t}", "(refused"]),
    (2, "'nosuch'", ["scan", "{t}", "--columns", "id,nosuch"]),
    (2, "level", ["scan", "{t}", "--where", "level = = 'x'"]),
    (2, "nosuch", ["count", "{t}", "--where", "nosuch = 1"]),
    (2, "nosuch", ["explain", "{t}", "--query", "nosuch:word"]),
    (2, "-1", ["scan", "{t}", "--limit", "-1"]),
    (2, "'lots'", ["merge-splits", "{t}", "--target-size", "lots"]),
    (2, "level", ["merge-splits", "{t}", "--where", "level = 'x'"]),
    (2, "'soon'", ["purge", "{t}", "--older-than", "soon"]),
    (2, "purge.retentionCheckEnabled=false", ["purge", "{t}", "--older-than", "23h"]),
    (1, "embedded null byte", ["create", "{new}", "--schema", "\0"]),
    (2, "--schema and --like cannot be combined", ["create", "{new}", "--schema", "x", "--like", "y"]),
    (2, "data.xyz", ["append", "{t}", "{tmp}/data.xyz"]),
    (1, "no file", ["append", "{t}", "{tmp}/nosuch.parquet"]),
    (1, "is a folder, not a file; the Spark job", ["append", "{t}", "{newer}"]),
    (1, "half.parquet", ["append", "{t}", "{tmp}/half.parquet"]),
    (1, "bad.jsonl", ["append", "{t}", "{tmp}/bad.jsonl"]),
    (1, "'other'", ["append", "{t}", "{tmp}/other.parquet"]),
    (1, "other", ["append", "{t}", "{tmp}/data.parquet", "--partition-by", "other"]),
    (1, "already", ["create", "{t}", "--like", "{tmp}/data.parquet"]),
    (1, "schema.json", ["create", "{new}", "--schema", "{tmp}/schema.json"]),
    (1, "version 99", ["count", "{t}", "--version", "99"]),
    (78, "no transaction log found", ["count", "{tmp}/nowhere"]),
    (78, "no transaction log", ["count", "{tmp}"]),
    (78, "is a file", ["count", "{tmp}/data.parquet"]),
    (78, "is a file", ["append", "{tmp}/data.xyz", "{tmp}/data.parquet", "--create"]),
    (78, "; --create makes a table there", ["append", "{tmp}/nowhere", "{tmp}/data.parquet"]),
    (2, "FUNCTION:COLUMN", ["aggregate", "{t}", "--agg", "n=count"]),
    (2, "aggregate 'n' has the unknown function 'median'; use one of count, ", ["aggregate", "{t}", "--agg", "n=median:id"]),
    (
        1,
        "partition columns nope not found in schema; it has id, ts",
        ["append", "{new}", "{tmp}/data.parquet", "--create", "--partition-by", "nope"],
    ),
    (2, "deletes the table permanently; add --confirm to do so", ["drop", "{t}"]),
    (2, "error: the query is empty\n", ["search", "{t}", ""]),
    (2, "required: QUERY; if '-payments' is the query, write -- before it", ["search", "{t}", "-payments"]),
    (
        2,
        "'utage' is not of the form key=value; if '-outage' is the query, write -- before it",
        ["search", "{t}", "-outage", "--limit", "3"],
    ),
    (2, "required: QUERY (see", ["search", "{t}", "--limit", "-3", "-o", "a=b"]),
    (2, "COLUMN:SIZE", ["aggregate", "{t}", "--agg", "n=count:*", "--group-by", "h=histogram:id"]),
    (2, "--json and --format csv cannot be combined", ["scan", "{t}", "--json", "--format", "csv"]),
    (2, "'xml'", ["scan", "{t}", "--format", "xml"]),
    (2, "snippets", ["search", "{t}", "x", "--snippets", "id"]),
    (78, "'nosuch.key'", ["count", "{t}", "-o", "nosuch.key=1"]),
    (2, "key=value", ["count", "{t}", "-o", "nosuch.key"]),
    (78, "'many'", ["append", "{t}", "{tmp}/data.parquet", "-o", "transaction.retry.maxAttempts=many"]),
    (78, "protocol 9", ["count", "{newer}"]),
    (78, "is not a store that fsspec supports", ["count", "weird://bucket/t"]),
]


@pytest.mark.parametrize(("code", "named", "argv"), BAD)
def test_bad_input(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], code: int, named: str, argv: list[str]) -> None:
    """One line that names the value, the documented exit code, and no file is changed."""
    make(tmp_path / "t", appends=1)
    make(tmp_path / "newer")
    version_file(tmp_path / "newer", 1).write_text('{"protocol":{"minReaderVersion":9,"minWriterVersion":9}}\n')
    (tmp_path / "half.parquet").write_bytes(data.read_bytes()[:500])
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\n{"id": ')
    (tmp_path / "data.xyz").write_text("x")
    (tmp_path / "schema.json").write_text('{"fields": ')
    pq.write_table(pa.table({"other": [1]}), tmp_path / "other.parquet")
    before = tree(tmp_path)
    places = {"t": tmp_path / "t", "tmp": tmp_path, "new": tmp_path / "new", "newer": tmp_path / "newer"}
    words = [word.format(**places) for word in argv]
    got, out, err = run(capsys, *words)
    assert (got, out) == (code, "")
    first, *rest = err.splitlines()
    assert first.startswith("error: ")
    assert named in err
    assert rest == [] or (len(rest) == 2 and rest[1].strip() == "^")
    assert tree(tmp_path) == before


def test_an_option_without_a_value_is_a_usage_error_for_every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    verbs = re.findall(r"^    ([a-z-]+) ", out, re.MULTILINE)
    assert {"append", "sql", "doctor", "config"} <= set(verbs)
    for verb in verbs:
        for option in ("foo", "=foo"):
            code, out, err = run(capsys, verb, tmp_path, "-o", option)
            expected = f"error: argument -o/--option: '{option}' is not of the form key=value (see indextables {verb} --help)\n"
            assert (code, out, err) == (2, "", expected)


def test_debug_shows_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "count", tmp_path, "--debug")
    assert code == 78
    assert "Traceback" in err


def test_the_program_as_a_process(tmp_path: Path) -> None:
    """Broken pipes, `python -m`, and a run without a terminal, which prints nothing but its result."""
    make(tmp_path / "t", appends=1, each=2000)
    command = f"{sys.executable} -m indextables scan {tmp_path / 't'} --json | head -c 100"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout) == 100
    version = subprocess.run([sys.executable, "-m", "indextables", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"indextables {it.__version__}\n"


def test_a_filter_does_not_import_pandas(tmp_path: Path) -> None:
    """Arrow would import it at the first comparison, if installed, which adds a second to each command."""
    make(tmp_path / "t", appends=1, each=10)
    command = "import sys; from indextables.cli.main import main; code = main(); print(code, 'pandas' in sys.modules, file=sys.stderr)"
    for arguments in (["count", tmp_path / "t", "--where", "id > 3"], ["search", tmp_path / "t", "nothing"], ["files", tmp_path / "t"]):
        done = subprocess.run([sys.executable, "-c", command, *map(str, arguments)], capture_output=True, text=True, check=True)
        assert done.stderr == "0 False\n"


def test_csv_text_is_taken_literally_and_may_contain_line_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    it.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("m", pa.string())]))
    trace = '"Traceback:\n  at ""x"", y"'
    words = ["NA", "null", "nan", "", '""', *[trace] * 60_000]
    (tmp_path / "x.csv").write_text("id,m\n" + "".join(f"{n},{word}\n" for n, word in enumerate(words)))
    assert as_json(capsys, "append", tmp_path / "t", tmp_path / "x.csv")["metrics"]["rows_written"] == len(words)
    found = it.open(tmp_path / "t").scan("id < 6").read_all().column("m").to_pylist()
    assert found == ["NA", "null", "nan", None, "", 'Traceback:\n  at "x", y']


def test_a_long_row_of_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": 1, "m": "a " * 1_500_000}) + "\n" + '{"id": 2, "m": "b"}\n')
    assert as_json(capsys, "append", tmp_path / "t", tmp_path / "x.jsonl", "--create")["metrics"]["rows_written"] == 2


def test_times_that_python_cannot_represent_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = it.create(tmp_path / "t", pa.schema([("d", pa.date32()), ("t", pa.timestamp("us"))]))
    far = pa.array([4_000_000, None], pa.int32()).view(pa.date32()), pa.array([2**62, 0], pa.int64()).view(pa.timestamp("us"))
    table.append(pa.table({"d": far[0], "t": far[1]}))
    shown = as_json(capsys, "scan", tmp_path / "t")
    assert shown == [{"d": "12921-08-18", "t": f"<value out of range: {2**62}>"}, {"d": None, "t": "1970-01-01T00:00:00"}]


def test_timestamps_in_epoch_milliseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=2)
    moments = {entry["version"]: int(entry["timestamp"].timestamp() * 1000 + 0.5) for entry in table.history().to_pylist()}
    assert as_json(capsys, "count", tmp_path / "t", "--timestamp", moments[2]) == {"count": 20}
    code, _, err = run(capsys, "count", tmp_path / "t", "--timestamp", "10000000000")
    first = table.history().to_pylist()[-1]["timestamp"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = f"error: the table had no version at 1970-04-26T17:46:40.000Z; the first version in its log, 0, is of {first}\n"
    assert (code, err) == (1, message)
    with pytest.raises(it.VersionNotFound, match="no version at -1000000000000000000 ms since the epoch"):
        it.open(tmp_path / "t", timestamp=-(10**18))


def test_an_output_file_whose_name_has_no_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """.txt or no suffix means a text table; any other suffix requires --format."""
    make(tmp_path / "t", appends=1)
    for name, given, begins in (("a.txt", (), b"\n"), ("plain", (), b"\n"), ("a.xyz", ("--format", "csv"), b'"id"')):
        assert run(capsys, "scan", tmp_path / "t", "--columns", "id", "--output", tmp_path / name, *given) == (0, "", "")
        assert (tmp_path / name).read_bytes().lstrip(b" ").startswith(begins)


def test_repair_prints_the_next_step_and_health_one_line_per_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=1)
    code, out, _ = run(capsys, "repair", tmp_path / "t", tmp_path / "new")
    assert (code, out.splitlines()[-1]) == (0, f"  next: move the table's _transaction_log aside and put {tmp_path / 'new'} in its place")
    assert "replace the table's _transaction_log folder with it" in " ".join(run(capsys, "repair", "--help")[1].split())
    code, out, _ = run(capsys, "health", tmp_path / "t")
    assert code == 0
    assert re.search(r"^state num manifests +0$", out, re.MULTILINE)
    assert "{" not in out


def test_health_distinguishes_never_from_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", appends=3)

    def shown() -> list[str]:
        out = run(capsys, "health", tmp_path / "t")[1]
        return [line.split()[-1] for line in out.splitlines() if line.startswith(("last checkpoint", "last merge"))]

    assert shown() == ["none", "none", "never"]
    table.truncate_history()
    assert shown()[::2] == ["3", "unknown"]  # an expired version may have been a merge
    version_file(tmp_path / "t", 4).write_text("damaged")
    assert shown() == ["unknown", "unknown", "unknown"]


FORMS: dict[str, Any] = {
    "jsonl": lambda data: [json.loads(line)["id"] for line in data.splitlines()],
    "json": lambda data: [row["id"] for row in json.loads(data)],
    "csv": lambda data: csv.read_csv(io.BytesIO(data)).column("id").to_pylist(),
    "parquet": lambda data: pq.read_table(io.BytesIO(data)).column("id").to_pylist(),
    "arrow": lambda data: pa.ipc.open_file(io.BytesIO(data)).read_all().column("id").to_pylist(),
}


@pytest.mark.parametrize("form", FORMS)
def test_results_in_every_format(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], form: str) -> None:
    """To a file by its name, to a pipe by `--format`; an Arrow pipe is a stream, which can be read before it ends."""
    make(tmp_path / "t", appends=2, partition_by=[])
    to = tmp_path / f"out.{form}"
    assert main(["scan", str(tmp_path / "t"), "--output", str(to), "--limit", "15"]) == 0
    assert FORMS[form](to.read_bytes()) == list(range(15))
    assert main(["search", str(tmp_path / "t"), "*", "--limit", "3", "--format", form]) == 0
    out = capfdbinary.readouterr().out
    assert (pa.ipc.open_stream(out).read_all().column("id").to_pylist() if form == "arrow" else FORMS[form](out)) == [0, 1, 2]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".tmp-")] == []


def test_a_failed_output_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "t", appends=2, partition_by=[])
    (tmp_path / "old.parquet").write_bytes(b"as it was")
    sorted((tmp_path / "t").rglob("*.split"))[1].unlink()
    before = tree(tmp_path)
    code, out, err = run(capsys, "scan", tmp_path / "t", "--output", tmp_path / "old.parquet")
    assert (code, out, err.startswith("error: split")) == (1, "", True)
    code, _, err = run(capsys, "count", tmp_path / "t", "--output", "x")
    assert code == 2
    code, _, err = run(capsys, "scan", tmp_path / "t", "--output", tmp_path / "no" / "x.csv")
    assert (code, "cannot be written" in err) == (2, True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for form in ("arrow", "parquet"):
        code, out, err = run(capsys, "scan", tmp_path / "t", "--format", form)
        expected = f"error: {form} cannot be shown on a terminal; write it to a file with --output FILE, or pipe it to a program\n"
        assert (code, out, err) == (2, "", expected)
    assert tree(tmp_path) == before


def test_aggregate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    t = tmp_path / "t"
    make(t, appends=2)
    words = ["aggregate", t, "--agg", "n=count:*", "--agg", "slow=max:latency", "--where", "id < 12"]
    assert as_json(capsys, *words) == [{"n": 12, "slow": 2.5}]
    found = as_json(capsys, *words, "--group-by", "level,ten=histogram:id:10,m=date_histogram:ts:1m", "--query", "message:*")
    assert [(row["level"], row["ten"], row["m"], row["n"]) for row in found if row["level"] == "INFO"] == [
        ("INFO", 0, "2024-01-01T00:00:00Z", 4)
    ]
    code, out, _ = run(capsys, *words, "--group-by", "level")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[3:-1]] == ["ERROR", "INFO", "WARN"]


def test_snippets_and_pages_of_a_long_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=1, each=2300)
    (best,) = as_json(capsys, "search", tmp_path / "t", "refused AND disk", "--snippets", "message", "--limit", 1)
    assert best["_snippet"].count("**") == 4
    code, out, _ = run(capsys, "scan", tmp_path / "t", "--columns", "id,message")
    assert (code, out.count("message")) == (0, 3)  # a header for each page of 1,000 rows
    assert len(out.splitlines()) > 2300


def test_every_type_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {
        "money": (pa.decimal128(20, 2), Decimal("12345678901234567.50"), "12345678901234567.50"),
        "raw": (pa.binary(), b"\x00\xff", "00ff"),
        "tags": (pa.list_(pa.date32()), [date(2024, 1, 31), None], ["2024-01-31", None]),
        "inner": (pa.struct([("m", pa.map_(pa.string(), pa.binary()))]), {"m": [("k", b"a")]}, {"m": {"k": "61"}}),
        "map": (pa.map_(pa.string(), pa.float64()), [("a", float("nan"))], {"a": "NaN"}),
        "none": (pa.null(), None, None),
    }
    schema = pa.schema([(name, kind) for name, (kind, _, _) in kinds.items()])
    it.create(tmp_path / "t", schema).append([{name: value for name, (_, value, _) in kinds.items()}, {}])
    assert main(["scan", str(tmp_path / "t"), "--json"]) == 0
    shown = {name: text for name, (_, _, text) in kinds.items()}
    assert json.loads(capsys.readouterr().out) == [shown, dict.fromkeys(kinds)]
    assert main(["scan", str(tmp_path / "t")]) == 0
    assert "12345678901234567.50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "n,x\n9223372036854775809,1.5\n5,2\n"), ("a.jsonl", '{"n":9223372036854775809,"x":1.5}\n{"n":5,"x":2}\n')]
)
def test_integers_beyond_64_bits_stay_exact(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert main(["append", str(tmp_path / "t"), str(tmp_path / name), "--create"]) == 0
    table = it.open(tmp_path / "t")
    assert table.schema.field("n").type == pa.decimal128(38, 0)
    assert table.scan().read_all().to_pylist() == [{"n": Decimal(9223372036854775809), "x": 1.5}, {"n": Decimal(5), "x": 2.0}]


def test_a_txn_is_written_once(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A-02 on the terminal, with the options of jobs/write.py."""
    command = ("append", tmp_path / "t", data, "--create", "--txn-app", "nightly", "--txn-version", 7)
    reports = [as_json(capsys, *command) for _ in range(2)]
    assert [(report["status"], report["version"]) for report in reports] == [("success", 1), ("no_action", 1)]
    assert it.open(tmp_path / "t").count() == 40
    code, _, err = run(capsys, "append", tmp_path / "t", data, "--txn-app", "nightly")
    assert (code, err) == (2, "error: --txn-app and --txn-version must be given together\n")


def test_config_shows_every_key_and_where_its_value_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "t", **{"merge.targetSize": "200M", "checkpoint.interval": 4, "indexing.typemap.level": "string"})
    monkeypatch.setenv("INDEXTABLES_CHECKPOINT_INTERVAL", "5")
    given = ("-o", "state.compressionLevel=9", "-o", "s3.endpoint=http://127.0.0.1:9", "-o", "indexing.tokenizer.message=raw")
    shown = {row["key"].removeprefix(PREFIX): row for row in as_json(capsys, "config", tmp_path / "t", *given)}
    columns = ["indexing.typemap.<column>", "indexing.typemap.level", "indexing.tokenizer.<column>", "indexing.tokenizer.message"]
    assert list(shown) == [key.name for key in KEYS] + columns
    assert [(shown[name]["value"], shown[name]["from"]) for name in columns[1::2]] == [("string", "table configuration"), ("raw", "option")]
    assert "string, text, json, ip" in shown[columns[0]]["meaning"]
    assert "default, raw, en_stem, whitespace, ngram" in shown[columns[2]]["meaning"]
    names = ("merge.targetSize", "checkpoint.interval", "state.compressionLevel", "s3.endpoint", "cleanup.enabled")
    assert [tuple(shown[name][column] for column in ("value", "from", "default")) for name in names] == [
        ("200M", "table configuration", "5G"),
        ("5", "environment", "10"),
        ("9", "option", "3"),
        ("(set)", "option", ""),
        ("true", "default", "true"),
    ]
    monkeypatch.setenv("INDEXTABLES_CHECKPOINT_INTERVAL", "many")
    code, out, err = run(capsys, "config", tmp_path / "t")
    assert (code, out) == (78, "")
    assert "environment checkpoint.interval = 'many' is not a whole number" in err


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, data: Path) -> None:
    """With a real terminal for stderr: rows of an append, splits of a verify, groups of a merge. A pipe gets nothing."""
    import pty

    table = str(tmp_path / "t")
    seen = {}
    for name, argv in (
        ("append", ["append", table, str(data), "--create"]),
        ("again", ["append", table, str(data)]),
        ("verify", ["verify", table]),
        ("merge", ["merge-splits", table]),
        ("purge", ["purge", table, "--older-than", "0s", "-o", "purge.retentionCheckEnabled=false"]),
    ):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "indextables", *argv, "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=False, env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        seen[name] = _read_all(ours)
        assert done.returncode == 0, seen[name]
        json.loads(done.stdout)
    assert re.search(r"append .* [1-9][0-9,]* rows", seen["append"])
    assert "2 of 2 splits" in seen["verify"]
    assert "1 of 1 groups" in seen["merge"]
    assert "2 of 2 splits" in seen["purge"]
    piped = subprocess.run([sys.executable, "-m", "indextables", "verify", table, "--json"], capture_output=True, check=False)
    assert (piped.returncode, piped.stderr) == (0, b"")
    verbose = subprocess.run([sys.executable, "-m", "indextables", "verify", table, "--verbose"], capture_output=True, check=False)
    assert "verifying splits …" in verbose.stderr.decode()


def _read_all(terminal: int) -> str:
    text = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed and everything was read
            part = b""
        if not part:
            os.close(terminal)
            return text.decode("utf-8", "replace")
        text += part
