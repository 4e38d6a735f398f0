"""A DataFrame or view that is used more than once gives each query its own rows, whether Spark's filter pushdown is on or off.

Spark 4.2 stores the filters that a Python reader accepts with the relation, where they affect later queries. So our reader accepts none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.spark import write

pytestmark = pytest.mark.spark

SETTING = "spark.sql.python.filterPushdown.enabled"
ROWS = 1000
OF_STATUS_3 = 143  # of 1,000 ids, those with id % 7 = 3


@pytest.fixture(params=["true", "false"], ids=["pushdown_on", "pushdown_off"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    spark.conf.set(SETTING, request.param)
    yield spark
    spark.conf.unset(SETTING)


@pytest.fixture
def table(path: str) -> it.Table:
    made = it.create(path, pa.schema([("id", pa.int64()), ("status", pa.int64())]))
    made.append([{"id": n, "status": n % 7} for n in range(ROWS)])
    return made


@pytest.fixture
def frame(session: Any, table: it.Table) -> Any:
    return session.read.format("indextables").load(table.path)


def test_a_frame_used_again_has_all_its_rows(frame: Any) -> None:
    assert (frame.where("status = 3").count(), frame.count(), frame.where("status = 4").count()) == (OF_STATUS_3, ROWS, OF_STATUS_3)


def test_a_view_used_again_has_all_its_rows(session: Any, table: it.Table) -> None:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW statuses USING indextables OPTIONS (path '{table.path}')")
    counts = [session.sql(f"SELECT count(*) FROM statuses {where}").first()[0] for where in ("WHERE status = 3", "", "WHERE status = 4")]
    session.sql("DROP VIEW statuses")
    assert counts == [OF_STATUS_3, ROWS, OF_STATUS_3]


def test_two_filters_of_one_frame_in_one_query(frame: Any) -> None:
    both = frame.where("status = 3").union(frame.where("status = 4"))
    assert both.groupBy("status").count().orderBy("status").collect() == [(3, OF_STATUS_3), (4, OF_STATUS_3)]
    assert frame.exceptAll(frame.where("status = 3")).count() == ROWS - OF_STATUS_3


def test_a_copy_written_from_a_frame_that_was_filtered_before_is_complete(frame: Any, tmp_path: Any) -> None:
    assert frame.where("status = 3").count() == OF_STATUS_3
    by_source, by_function = str(tmp_path / "by_source"), str(tmp_path / "by_function")
    frame.write.format("indextables").mode("append").save(by_source)
    write(frame, by_function)
    assert (it.open(by_source).count(), it.open(by_function).count()) == (ROWS, ROWS)


def test_the_where_option_prunes_splits(session: Any, table: it.Table) -> None:
    """Damaged splits show which ones are opened: `where` prunes splits that a query with a filter reads."""
    table.append([{"id": ROWS, "status": 100}])
    for path in table.files("status < 7")["path"].to_pylist():
        with open(f"{table.path}/{path}", "r+b") as file:
            file.truncate(10)
    chosen = session.read.format("indextables").option("where", "status = 100").load(table.path)
    assert [row["id"] for row in chosen.where("id > 5").collect()] == [ROWS]
    with pytest.raises(Exception, match=r"indextables\.errors\.SplitCorrupted: split "):
        session.read.format("indextables").load(table.path).where("status = 100").collect()
