"""A bad value of an option gives the same message and exit code in Python, in the terminal, in a job and in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.main import main as terminal
from indextables.spark import session as sessions
from indextables.spark.jobs import main as run_job
from tests.support.intercepted_store import Call, Perform, intercepting

_SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string())])


@dataclass(frozen=True)
class Case:
    """One bad value, as each interface takes it; `{t}` is the table and `{s}` a source that does not exist."""

    python: Callable[[it.Table], Any]
    terminal: str
    job: tuple[str, str]
    sql: str | None
    code: int
    message: str


CASES = {
    "target size": Case(
        lambda table: table.merge_splits(target_size="100K"),
        "merge-splits {t} --target-size=100K",
        ("merge_splits", "--target-size=100K"),
        "MERGE SPLITS '{t}' TARGET SIZE 100K",
        2,
        "target size '100K' is below the minimum of 1M",
    ),
    "sources": Case(
        lambda table: table.merge_splits(max_source_splits=1),
        "merge-splits {t} --max-source-splits=1",
        ("merge_splits", "--max-source-splits=1"),
        "MERGE SPLITS '{t}' MAX SOURCE SPLITS PER MERGE 1",
        2,
        "max source splits 1 is not a whole number of at least 2",
    ),
    "destinations": Case(
        lambda table: table.merge_splits(max_dest_splits=2**31),
        "merge-splits {t} --max-dest-splits=2147483648",
        ("merge_splits", "--max-dest-splits=2147483648"),
        "MERGE SPLITS '{t}' MAX DEST SPLITS 2147483648",
        2,
        "max dest splits 2147483648 is more than 2147483647",
    ),
    "where": Case(
        lambda table: table.merge_splits(where="id = 1"),
        "merge-splits {t} --where id=1",
        ("merge_splits", "--where=id=1"),
        "MERGE SPLITS '{t}' WHERE id = 1",
        2,
        "column 'id' cannot be used in merge (partition columns only); usable: level",
    ),
    "too young": Case(
        lambda table: table.purge(older_than="23h"),
        "purge {t} --older-than 23h",
        ("purge", "--older-than=23h"),
        "PURGE INDEXTABLE '{t}' OLDER THAN 23 HOURS",
        2,
        "older_than '23h' is less than 24h: running readers and writers may need the splits that were live then; "
        "set purge.retentionCheckEnabled=false if there are none",
    ),
    "log retention": Case(
        lambda table: table.purge(log_retention="soon"),
        "purge {t} --log-retention soon",
        ("purge", "--log-retention=soon"),
        None,
        2,
        "'soon' is not a duration; write it like 7d, 36h, 15m or 30s",
    ),
    "no table": Case(
        lambda table: it.open(f"{table.path}/none").purge(),
        "purge {t}/none",
        ("purge", "--table={t}/none"),
        "PURGE INDEXTABLE '{t}/none'",
        78,
        "no transaction log found at {t}/none",
    ),
    "replaced partitions": Case(
        lambda table: table.overwrite([{"id": 1, "level": "a"}], where="nosuch = 1"),
        "overwrite {t} {s} --where nosuch=1",
        ("write", "--source={s} --mode=overwrite --replace-where=nosuch=1"),
        None,
        2,
        "there is no column 'nosuch'; the columns are id, level",
    ),
}


def _plain(message: str) -> str:
    """The message without the spelling of option names, which differs between interfaces."""
    return re.sub(r"--|_|-(?=[a-z])", " ", message.removeprefix("error: ")).strip().replace("  ", " ")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> it.Table:
    def refuse(name: str) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(sessions, "_start", refuse)
    return it.create(tmp_path / "t", _SCHEMA, partition_by=["level"])


@pytest.mark.parametrize("name", CASES)
def test_a_bad_value_is_the_same_error_everywhere(name: str, table: it.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]

    def words(text: str) -> list[str]:
        return text.format(t=table.path, s=tmp_path / "missing.csv").split()

    found: dict[str, tuple[int, str]] = {}
    for interface, call in (("python", lambda: case.python(table)), ("sql", lambda: case.sql and it.sql(case.sql.format(t=table.path)))):
        if interface == "python" or case.sql is not None:
            with pytest.raises(it.IndexTablesError) as refused:
                call()
            found[interface] = (refused.value.exit_code, _plain(str(refused.value)))
    job, more = case.job
    found["terminal"] = (terminal(words(case.terminal)), _plain(capsys.readouterr().err.splitlines()[0]))
    found["job"] = (run_job(job, [f"--table={table.path}", *words(more)]), _plain(capsys.readouterr().err.splitlines()[0]))
    assert set(found.values()) == {(case.code, _plain(case.message.format(t=table.path)))}, found
    assert it.open(table.path).version == 0


def test_a_txn_without_a_name_is_refused_everywhere(table: it.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"id": 1, "level": "a"}\n', "utf-8")
    with pytest.raises(it.InvalidArgument, match="txn"):
        table.append([], txn=("", 1))
    given = ["--txn-app=", "--txn-version=1"]
    assert terminal(["append", table.path, str(source), *given]) == 2
    assert capsys.readouterr().err == "error: --txn-app is empty\n"
    assert run_job("write", [f"--table={table.path}", f"--source={source}", *given]) == 2
    assert capsys.readouterr().err == "error: --txn-app is empty\n"
    assert it.open(table.path).version == 0


def test_a_repeated_txn_needs_no_source_in_the_terminal_and_in_the_job(
    table: it.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.append([{"id": 1, "level": "a"}], txn=("nightly", 7))
    given = ["--txn-app=nightly", "--txn-version=7"]
    assert terminal(["append", table.path, str(tmp_path / "missing.csv"), *given]) == 0
    assert run_job("write", [f"--table={table.path}", f"--source={tmp_path / 'missing.csv'}", *given]) == 0
    assert '"status": "no_action"' in capsys.readouterr().out
    assert it.open(table.path).version == 1


def test_a_purge_of_a_folder_without_a_table_does_not_list_it(tmp_path: Path) -> None:
    """The path may be a typing error, and the folder a whole disk or bucket."""
    listed: list[str] = []

    def record(call: Call, perform: Perform) -> Any:
        listed.append(call.path)
        return perform()

    with intercepting(tmp_path, record), pytest.raises(it.TableNotFound, match="no transaction log found"):
        it.sql(f"PURGE INDEXTABLE '{tmp_path}'")
    assert listed
    assert all(path.startswith("_transaction_log") for path in listed)
