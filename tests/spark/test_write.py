"""DataFrames written into tables: executors write splits, the driver commits once."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import InvalidArgument, ReplaceWhereViolation, SchemaMismatch, SplitCorrupted
from indextables.operations import Workload, in_threads, verbs
from indextables.operations.merge.run import merge_splits
from indextables.operations.write import prepare_write
from indextables.paths import NULL_PARTITION
from indextables.rows.split_task import SplitTask
from indextables.spark import distributed, read, write
from indextables.spark.session import SparkExecutor
from indextables.table.context import TableContext

pytestmark = pytest.mark.spark


def frame(spark: Any, start: int, end: int, partitions: int = 2) -> Any:
    columns = ["id", "if(id % 3 = 0, 'INFO', 'ERROR') AS level", "concat('connection ', id) AS message"]
    return spark.range(start, end, 1, partitions).selectExpr(*columns)


def ids(path: str) -> list[int]:
    return sorted(it.open(path).scan(columns=["id"]).read_all()["id"].to_pylist())


def splits_on_disk(path: str) -> set[str]:
    return {str(file.relative_to(path)) for file in Path(path).rglob("*.split")}


def test_append_creates_the_table_and_each_task_writes_its_splits(spark: Any, path: str) -> None:
    report = write(frame(spark, 0, 20), path, partition_by=["level"])
    assert (report.operation, str(report.status), report.version) == ("append", "success", 1)
    assert (report.metrics["rows_written"], report.metrics["files_added"]) == (20, 4)
    table = it.open(path)
    assert table.partition_columns == ["level"]
    assert [field.nullable for field in table.schema] == [True, True, True]
    write(frame(spark, 20, 30), path)
    assert ids(path) == list(range(30))
    assert table.refresh().search("message:7", columns=["id"]).to_pylist()[0]["id"] == 7
    assert splits_on_disk(path) == set(table.files()["path"].to_pylist())


def test_overwrite_replaces_everything_or_the_matching_partitions(spark: Any, path: str) -> None:
    write(frame(spark, 0, 9), path, partition_by=["level"])
    replaced = frame(spark, 100, 110).where("level = 'INFO'")
    write(replaced, path, mode="overwrite", replace_where="level = 'INFO'")
    assert ids(path) == [1, 2, 4, 5, 7, 8, 102, 105, 108]
    with pytest.raises(ReplaceWhereViolation, match="level = 'ERROR'"):
        write(frame(spark, 0, 9), path, mode="overwrite", replace_where="level = 'INFO'")
    assert it.open(path).version == 2
    write(frame(spark, 0, 3), path, mode="overwrite")
    assert ids(path) == [0, 1, 2]


def test_column_names_may_contain_dots_and_backticks(spark: Any, path: str) -> None:
    names = ["a.b", "c`d", "e f"]
    write(spark.createDataFrame([(1, "x", 2.5)], names), path)
    assert it.open(path).scan().read_all().to_pylist() == [dict(zip(names, (1, "x", 2.5), strict=True))]
    assert read(spark, path).collect()[0].asDict() == dict(zip(names, (1, "x", 2.5), strict=True))


def test_a_txn_is_written_once(spark: Any, path: str) -> None:
    first = write(frame(spark, 0, 3), path, txn=("job", 7))
    again = write(frame(spark, 0, 3), path, txn=("job", 7))
    assert (str(again.status), again.version) == ("no_action", first.version)
    assert len(splits_on_disk(path)) == first.metrics["files_added"]


def test_splits_roll_over_at_the_target_size(spark: Any, path: str) -> None:
    report = write(frame(spark, 0, 30_000, 1), path, target_split_size=1)
    assert report.metrics["files_added"] == 3  # one for each of Spark's batches of 10,000 rows
    assert it.open(path).count() == 30_000


def test_rows_that_do_not_fit_leave_the_table_unchanged(spark: Any, path: str) -> None:
    write(frame(spark, 0, 3), path)
    before = splits_on_disk(path)
    with pytest.raises(SchemaMismatch, match="the data has no column 'level'"):
        write(spark.range(3), path)
    with pytest.raises(SchemaMismatch, match="column 'id' is string in the data"):
        write(frame(spark, 0, 3).selectExpr("cast(id as string) id", "level", "message"), path)
    with pytest.raises(SchemaMismatch, match="'tags'"):
        write(frame(spark, 0, 3).selectExpr("*", "array(1) AS tags"), path)
    with pytest.raises(InvalidArgument, match="mode 'ignore'"):
        write(frame(spark, 0, 3), path, mode="ignore")
    it.create(path + "-narrow", pa.schema([("id", pa.int8())]))
    with pytest.raises(
        SchemaMismatch, match="row 0, column 'id': 299 is not a value of type int8: Integer value 299 not in range"
    ):  # found by an executor, told with its own type
        write(spark.range(299, 301, 1, 1), path + "-narrow")
    with pytest.raises(SchemaMismatch, match=f"partition column 'level' has the value '{NULL_PARTITION}', which stands for null"):
        write(frame(spark, 0, 3).selectExpr("id", f"'{NULL_PARTITION}' AS level", "message"), path + "-new", partition_by=["level"])
    assert not Path(path + "-new").exists()
    assert (it.open(path).version, splits_on_disk(path)) == (1, before)
    assert (it.open(path + "-narrow").version, splits_on_disk(path + "-narrow")) == (0, set())


def test_the_data_source_commits_once_although_a_task_failed(spark: Any, path: str, tmp_path: Path) -> None:
    """The first attempt of one task fails after it has written everything; only the second one is committed."""
    from pyspark import TaskContext

    marks = str(tmp_path)

    def fail_late(batches: Any) -> Any:
        yield from batches
        context = TaskContext.get()
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            Path(marks, f"failed-{context.taskAttemptId()}").touch()
            raise RuntimeError("the machine is gone")

    rows = frame(spark, 0, 20)
    failing = rows.mapInArrow(fail_late, rows.schema)
    writer = failing.write.format("indextables").mode("append").option("partition_by", "level").option("indexing.typemap.Message", "string")
    writer.save(path)
    assert len(list(tmp_path.glob("failed-*"))) == 1
    table = it.open(path)
    assert (table.version, table.partition_columns, ids(path)) == (1, ["level"], list(range(20)))
    assert table.configuration == {"spark.indextables.indexing.typemap.message": "string"}
    report = write(failing, path)
    assert (report.version, report.metrics["rows_written"]) == (2, 20)
    assert len(list(tmp_path.glob("failed-*"))) == 2


def test_the_report_names_splits_of_failed_attempts(spark: Any, path: str) -> None:
    """A task that fails after it has written its splits is retried: the rows are committed once, and the report names the other splits."""
    from pyspark import TaskContext

    class FailingOnce(SplitTask):
        __slots__ = ()

        def write(self, batches: Any) -> Any:
            adds = SplitTask.write(self, batches)
            if TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("the machine is gone")
            return adds

    write(frame(spark, 0, 3), path)
    before = splits_on_disk(path)
    prepared = prepare_write(verbs.Write(), TableContext.at(path))
    task = prepared.task
    failing_once = FailingOnce(**{name: getattr(task, name) for name in task.__dataclass_fields__})
    report = distributed.write_prepared(frame(spark, 3, 23), replace(prepared, task=failing_once))
    assert ids(path) == list(range(23))
    left = splits_on_disk(path) - before - set(it.open(path).files()["path"].to_pylist())
    assert len(left) == 2
    assert [text for text in report.warnings if all(name in text for name in left)] == report.warnings[-1:]


def test_the_error_of_a_failed_write_names_splits_of_successful_tasks(spark: Any, path: str) -> None:
    it.create(path, pa.schema([("id", pa.int8())]))

    def delay(batches: Any) -> Any:
        for batch in batches:
            if batch.column("id")[0].as_py() > 100:
                time.sleep(1)
            yield batch

    rows = spark.range(0, 256, 1, 2)
    with pytest.raises(SchemaMismatch, match="128 is not a value of type int8") as caught:
        write(rows.mapInArrow(delay, rows.schema), path)
    (left,) = splits_on_disk(path)
    assert left in str(caught.value)
    assert it.open(path).version == 0


def test_the_data_source_overwrites_and_refuses_rows_that_do_not_fit(spark: Any, path: str) -> None:
    write(frame(spark, 0, 9), path, partition_by=["level"])
    replaced = frame(spark, 100, 110).where("level = 'INFO'")
    replaced.write.format("indextables").mode("overwrite").option("replaceWhere", "level = 'INFO'").save(path)
    assert ids(path) == [1, 2, 4, 5, 7, 8, 102, 105, 108]
    with pytest.raises(Exception, match=r"indextables\.errors\.SchemaMismatch: the data has no column 'level'"):
        spark.range(3).write.format("indextables").mode("append").save(path)
    for _ in range(2):  # the second write is already committed
        once = frame(spark, 0, 3).write.format("indextables").mode("overwrite")
        once.option("txnAppId", "nightly").option("txnVersion", "7").save(path)
    assert (it.open(path).version, ids(path)) == (3, [0, 1, 2])


def test_instants_do_not_depend_on_the_sessions_time_zone(spark: Any, path: str) -> None:
    moment = spark.sql("SELECT 1L AS id, TIMESTAMP '2024-07-01 00:00:00 UTC' AS at, TIMESTAMP_NTZ '2024-07-01 00:00:00' AS local")
    write(moment, path)
    moment.write.format("indextables").mode("append").save(path)
    expected = {"id": 1, "at": dt.datetime(2024, 7, 1, tzinfo=dt.UTC), "local": dt.datetime(2024, 7, 1)}
    assert it.open(path).scan().read_all().to_pylist() == [expected, expected]


def test_merge_on_executors_keeps_every_row(spark: Any, path: str) -> None:
    for start in range(0, 40, 10):
        it_rows = [{"id": n, "level": "INFO" if n % 3 else "ERROR", "message": f"connection {n}"} for n in range(start, start + 10)]
        if not it.exists(path):
            it.create(path, pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())]), partition_by=["level"])
        it.open(path).append(it_rows)
    before = it.open(path).scan().read_all().sort_by("id")
    context = TableContext.at(path)
    report, snapshot = merge_splits(
        verbs.MergeSplits(), context, context.snapshot(), SparkExecutor(lambda: spark, verbs.MergeSplits.workload)
    )
    assert (report.metrics["groups"], report.metrics["rows"], context.totals(snapshot).num_files) == (2, 40, 2)
    assert it.open(path).scan().read_all().sort_by("id") == before
    assert it.open(path).search("message:17", columns=["id"])["id"].to_pylist() == [17]


def broken(item: int) -> int:
    raise SplitCorrupted(f"split {item} is damaged")


def test_the_executor_keeps_order_and_the_type_of_errors(spark: Any) -> None:
    assert SparkExecutor(lambda: spark, Workload(in_threads, items_per_task=3))(str, range(10)) == [str(n) for n in range(10)]
    with pytest.raises(SplitCorrupted, match=r"^split 4 is damaged$"):
        SparkExecutor(lambda: spark, Workload(in_threads))(broken, [4])


def test_few_items_are_processed_without_spark() -> None:
    def no_session() -> Any:
        raise AssertionError("Spark was started")

    assert SparkExecutor(no_session, Workload(in_threads))(str, []) == []
    assert SparkExecutor(no_session, Workload(in_threads, spark_from=3))(str, [1, 2]) == ["1", "2"]


def test_every_spark_type_round_trips(spark: Any, path: str) -> None:
    """Including nested types, whose schema is passed as Spark's own JSON."""
    fields = (
        "id int, b byte, s short, l long, f float, d double, dec decimal(20,3), ok boolean, raw binary, day date, ts timestamp, "
        "local timestamp_ntz, tags array<string>, inner struct<x:int,y:array<struct<z:date>>>, m map<string,decimal(5,1)>, nothing void"
    )
    moment = dt.datetime(2024, 1, 31, 12, 30, 0, 123456)
    values = (
        1, 2, 3, 2**62, 1.5, 2.5, Decimal("12345678901234567.125"), True, bytearray(b"\x00\xff"), dt.date(1, 1, 2), moment, moment,
        ["a", None], {"x": 1, "y": [{"z": dt.date(2024, 1, 1)}]}, {"k": Decimal("1.5")}, None,
    )  # fmt: skip
    given = spark.createDataFrame([values, (2, *[None] * 15)], fields)
    assert write(given, path).metrics["rows_written"] == 2
    back = read(spark, path).orderBy("id")
    assert [row.asDict(recursive=True) for row in back.collect()] == [row.asDict(recursive=True) for row in given.collect()]
    assert [(f.name, f.dataType.simpleString()) for f in back.schema] == [(f.name, f.dataType.simpleString()) for f in given.schema]


def test_executors_merge_in_batches(spark: Any, path: str) -> None:
    """As with threads: one commit per batch, and the report has the sums."""
    table = it.create(path, pa.schema([("id", pa.int64()), ("level", pa.string())]), partition_by=["level"])
    for start in (0, 9):
        table.append([{"id": n, "level": ("INFO", "WARN", "ERROR")[n % 3]} for n in range(start, start + 9)])
    context = TableContext.at(path, {"merge.batchSize": "2"})
    executor = SparkExecutor(lambda: spark, verbs.MergeSplits.workload)
    assert (executor.workers, executor.runs_locally) == (spark.sparkContext.defaultParallelism, False)
    report, _ = merge_splits(verbs.MergeSplits(), context, context.snapshot(), executor)
    assert (str(report.status), report.version, report.metrics["commits"], report.metrics["groups"]) == ("success", 4, 2, 3)
    assert ids(path) == list(range(18))


def test_a_merge_and_a_purge_follow_a_write(spark: Any, path: str) -> None:
    """Executors run the merge; with the data source, the process that commits runs it."""
    options = {"mergeOnWrite.enabled": "true", "mergeOnWrite.minSourceSplits": "4", "purgeOnWrite.enabled": "true"}
    without_retention = {"purgeOnWrite.splitRetentionHours": "0", "purge.retentionCheckEnabled": "false"}
    write(frame(spark, 0, 20), path, options={**options, **without_retention})
    report = write(frame(spark, 20, 40), path)
    assert (report.version, report.metrics["files_added"], report.warnings) == (2, 2, [])
    assert (report.metrics["merge_files_removed"], report.metrics["purge_files_deleted"]) == (4, 4)
    assert (it.open(path).version, len(splits_on_disk(path))) == (3, 1)
    frame(spark, 40, 60, partitions=3).write.format("indextables").mode("append").save(path)
    assert (it.open(path).version, len(splits_on_disk(path))) == (5, 1)
    assert ids(path) == list(range(60))
