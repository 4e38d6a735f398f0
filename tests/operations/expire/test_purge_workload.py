"""Purge uses the same number of threads, and the same threshold for Spark, whichever interface runs it."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables import limits
from indextables.cli.main import main as terminal
from indextables.operations.executor import DELETIONS
from indextables.spark import session as sessions
from indextables.spark.jobs import main as run_job
from tests.support.intercepted_store import Call, Perform, intercepting

_SCHEMA = pa.schema([("id", pa.int64())])


class SparkStarted(Exception):
    pass


class NoSpark:
    """A session that may only be asked for a DataFrame of the result."""

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        raise SparkStarted

    def createDataFrame(self, rows: pa.Table) -> pa.Table:  # noqa: N802
        return rows


def add_orphans(folder: Path, number: int) -> None:
    """Creates a table with old splits that no version references."""
    it.create(folder, _SCHEMA)
    (folder / "splits").mkdir()
    for _ in range(number):
        path = folder / "splits" / f"split-{uuid.uuid4()}.split"
        path.write_bytes(b"x")
        os.utime(path, (0, 0))


def orphans(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.split"))


def purge_on_write(path: str) -> None:
    it.open(path, options={"purgeOnWrite.enabled": True, "purgeOnWrite.triggerAfterWrites": 1}).append([{"id": 1}])


def sql_in_spark(path: str) -> None:
    from indextables.spark import sql  # imports pyspark

    sql(NoSpark(), f"PURGE INDEXTABLE '{path}'")  # type: ignore[arg-type]


INTERFACES: dict[str, Callable[[str], Any]] = {
    "python": lambda path: it.open(path).purge(),
    "terminal": lambda path: terminal(["purge", path]),
    "job": lambda path: run_job("purge", ["--table", path]),
    "sql": lambda path: it.sql(f"PURGE INDEXTABLE '{path}'"),
    "sql in Spark": sql_in_spark,
    "on write": purge_on_write,
}


@pytest.mark.parametrize("interface", INTERFACES)
def test_every_interface_purges_with_the_same_number_of_threads(interface: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    add_orphans(folder, 2 * limits.PARALLEL_READS)
    deleting: set[int] = set()

    def record(call: Call, perform: Perform) -> Any:
        if call.verb == "delete":
            deleting.add(threading.get_ident())
            time.sleep(0.02)  # else one thread may delete several files before the next has started
        return perform()

    with intercepting(folder, record):
        INTERFACES[interface](str(folder))
    assert len(deleting) == DELETIONS.threads.workers == limits.PARALLEL_READS
    assert orphans(folder) == (1 if interface == "on write" else 0)


@pytest.mark.parametrize("interface", ["job", "sql in Spark"])
def test_a_purge_starts_spark_only_for_many_files(interface: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise SparkStarted

    monkeypatch.setattr(sessions, "_start", refuse)
    folder = tmp_path / "t"
    add_orphans(folder, DELETIONS.spark_from)
    if interface == "job":
        assert INTERFACES[interface](str(folder)) == 1
    else:
        with pytest.raises(SparkStarted):
            INTERFACES[interface](str(folder))
    assert orphans(folder) == DELETIONS.spark_from
    next(folder.rglob("*.split")).unlink()
    deleted: list[str] = []

    def only_record(call: Call, perform: Perform) -> Any:
        return deleted.append(call.path) if call.verb == "delete" else perform()

    with intercepting(folder, only_record):
        INTERFACES[interface](str(folder))
    assert len(deleted) == DELETIONS.spark_from - 1
