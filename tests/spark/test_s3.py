"""Tables in S3 through Spark: executors reach the same server with the credentials in their environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import indextables as it
from indextables.operations import verbs
from indextables.operations.merge.run import merge_splits
from indextables.spark import write
from indextables.spark.session import SparkExecutor
from indextables.table.context import TableContext
from tests.support.s3 import Server, ministack

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ministack() as running:
        yield running


def test_write_merge_and_read(spark: Any, server: Server) -> None:
    place = server.place()
    frame = spark.range(0, 20, 1, 2).selectExpr("id", "concat('connection ', id) AS message")
    assert write(frame, place, options=server.options).metrics["rows_written"] == 20
    frame.write.format("indextables").mode("append").options(**server.options).save(place.replace("s3:", "s3a:"))
    context = TableContext.at(place, server.options)
    report, _ = merge_splits(verbs.MergeSplits(), context, context.snapshot(), SparkExecutor(lambda: spark, verbs.MergeSplits.workload))
    assert report.metrics["files_removed"] == 4
    read = spark.read.format("indextables").options(**server.options)
    assert read.load(place).count() == 40
    assert sorted(row["id"] for row in read.option("query", "message:7").load(place).collect()) == [7, 7]
    assert it.open(place, options=server.options).configuration == {}
