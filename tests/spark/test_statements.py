"""SQL in a Spark session: our commands run on its executors, any other statement goes to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.spark import sql
from indextables.spark.session import SparkExecutor
from tests.support.tables import ids, make

pytestmark = pytest.mark.spark


def test_our_commands_run_on_executors_and_other_statements_go_to_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    make(tmp_path / "t", 3, 4)
    item_counts: list[int] = []
    original = SparkExecutor.__call__

    def counting(self: SparkExecutor, work: Any, items: Any) -> Any:
        item_counts.append(len(items))
        return original(self, work, items)

    monkeypatch.setattr(SparkExecutor, "__call__", counting)
    (row,) = sql(spark, f"merge splits '{path}' target size 100M").collect()
    assert (row.table_path, row.metrics.status, row.metrics.merged_files) == (path, "success", 6)
    options = {"purge.retentionCheckEnabled": "false"}
    (row,) = sql(spark, f"PURGE INDEXTABLE '{path}' OLDER THAN 0 HOURS", options).collect()
    assert (row.metrics.status, row.metrics.orphaned_files_deleted) == ("SUCCESS", 6)
    assert sum(item_counts) == 2 + 6, "two groups and six splits were processed by Spark"
    log = sql(spark, f"DESCRIBE INDEXTABLES TRANSACTION LOG '{path}' INCLUDE ALL")
    assert len(log.columns) == 47
    assert log.where("action_type = 'add'").count() == 6 + 2
    assert log.where("action_type = 'add'").select("partition_values.date").distinct().count() == 2
    assert sql(spark, f"DESCRIBE INDEXTABLES STATE '{path}'").first().num_files == 2
    assert ids(it.open(path)) == list(range(12))
    assert sql(spark, "SELECT 40 + 2 AS answer").first().answer == 42
    with pytest.raises(it.InvalidCommand, match="expected a path"):
        sql(spark, "MERGE SPLITS")
    with pytest.raises(it.TableNotFound):
        sql(spark, f"CHECKPOINT INDEXTABLES '{path}/nothing'")
