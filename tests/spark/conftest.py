"""One Spark session for all tests of this folder, in a time zone other than UTC, with retries of failed tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark import environment


@pytest.fixture(scope="session")
def spark(shared_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        session = (
            SparkSession.builder.master("local[2,4]")
            .appName("indextables tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "OFF")
            .config("spark.sql.session.timeZone", "America/New_York")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        # py4j logs at exit, when pytest has already closed the streams.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        yield session
        session.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")
