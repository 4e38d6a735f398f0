"""The Spark session of a job, started on first use, and the executor that runs work in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from indextables import interrupts
from indextables.environment import spark_environment
from indextables.operations import Workload
from indextables.spark.failures import spark_errors_as_ours

Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULTS = {  # for settings that spark-submit leaves open
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Times without a zone in text files are UTC, as everywhere else; times with a zone do not depend on this.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",  # type inferred for times without a zone in a CSV file
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",  # bounds batches of very long rows
}


@dataclass(slots=True)
class LazySession:
    """A session that starts on first use, so that a job with nothing to do never starts Spark."""

    name: str
    _session: Any = field(default=None, init=False)

    def __call__(self) -> Any:
        """The session; ConfigError if there is no Java."""
        if self._session is None:
            self._session = _start(self.name)
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


def under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _start(name: str) -> Any:
    if under_spark_submit():
        # Executors on this machine must run the Python that has this package, not any python3.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        os.environ.update(spark_environment())
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with interrupts.defer_interrupts():  # an unconnected JVM would never exit
        SparkContext._ensure_initialized()
    conf = SparkConf()
    for key, value in DEFAULTS.items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.app.name", f"indextables {name}")
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setJobGroup(f"indextables-{name}", f"indextables {name}", interruptOnCancel=False)
    return session


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs work on Spark's executors, with results in the order of the items. Few items are processed in this process, without Spark."""

    session: Callable[[], Any]
    workload: Workload

    @property
    def workers(self) -> int:
        """The number of parallel tasks; starts Spark to find out."""
        return max(1, int(self.session().sparkContext.defaultParallelism))

    @property
    def runs_locally(self) -> bool:
        return False

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if len(items) < self.workload.spark_from:
            return self.workload.threads(work, items)
        tasks = -(-len(items) // self.workload.items_per_task)
        with spark_errors_as_ours():
            results: list[Result] = self.session().sparkContext.parallelize(list(items), tasks).map(work).collect()
        return results
