"""`partitionOverwriteMode=dynamic`, as a setting of the session or an option, replaces only the partitions that get rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.spark import write
from indextables.spark.source import OVERWRITE_MODE

pytestmark = pytest.mark.spark

OLD = [{"id": n, "day": day, "zone": zone} for n, (day, zone) in enumerate([("a", 1), ("a", 2), ("b", 1), (None, 1)])]


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    yield spark
    spark.conf.unset(OVERWRITE_MODE)


def fresh(path: str, *, partitioned: bool = True) -> str:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("zone", pa.int64())])
    it.create(path, schema, partition_by=["day", "zone"] if partitioned else []).append(OLD)
    return path


def frame(spark: Any, *rows: tuple[int, str | None, int]) -> Any:
    return spark.createDataFrame(list(rows), "id bigint, day string, zone bigint")


def ids(path: str) -> list[int]:
    return sorted(it.open(path).scan(columns=["id"]).read_all()["id"].to_pylist())


def save(rows: Any, path: str, **options: str) -> None:
    rows.write.format("indextables").mode("overwrite").options(**options).save(path)


@pytest.mark.parametrize("word", ["dynamic", "DYNAMIC"])
def test_the_setting_of_the_session_is_honoured_by_the_source_and_the_function(session: Any, tmp_path: Path, word: str) -> None:
    session.conf.set(OVERWRITE_MODE, word)
    new = frame(session, (10, "a", 1), (11, "c", 1), (12, None, 1))
    by_source, by_function = fresh(str(tmp_path / "source")), fresh(str(tmp_path / "function"))
    save(new, by_source)
    report = write(new, by_function, mode="overwrite")
    assert ids(by_source) == ids(by_function) == [1, 2, 10, 11, 12]
    assert report.metrics["files_removed"] == 2
    assert it.open(by_source, version=1).count() == len(OLD)


def test_no_rows_replace_nothing(session: Any, path: str) -> None:
    session.conf.set(OVERWRITE_MODE, "dynamic")
    save(frame(session, (10, "a", 1)).where("id < 0"), fresh(path))
    assert (ids(path), it.open(path).version) == ([0, 1, 2, 3], 1)


@pytest.mark.parametrize("key", ["partitionOverwriteMode", "PARTITIONOVERWRITEMODE", "partition_overwrite_mode"])
def test_an_option_overrules_the_session(session: Any, tmp_path: Path, key: str) -> None:
    new = frame(session, (10, "a", 1))
    for of_session, option, expected in (("static", "dynamic", [1, 2, 3, 10]), ("dynamic", "Static", [10])):
        session.conf.set(OVERWRITE_MODE, of_session)
        path = fresh(str(tmp_path / of_session))
        save(new, path, **{key: option})
        assert ids(path) == expected


def test_the_setting_does_not_apply_to_replace_where_appends_and_unpartitioned_tables(session: Any, tmp_path: Path) -> None:
    session.conf.set(OVERWRITE_MODE, "dynamic")
    new = frame(session, (10, "a", 1))
    named, appended, whole = (str(tmp_path / name) for name in ("named", "appended", "whole"))
    save(new, fresh(named), replace_where="day = 'a'")
    new.write.format("indextables").mode("append").save(fresh(appended))
    save(new, fresh(whole, partitioned=False))
    assert (ids(named), ids(appended), ids(whole)) == ([2, 3, 10], [0, 1, 2, 3, 10], [10])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitionOverwriteMode": "dynamc"}, "option partitionOverwriteMode = 'dynamc' is not static or dynamic"),
        ({"partitionOverwriteMode": "dynamic", "replace_where": "day = 'a'"}, "exclude each other"),
    ],
)
def test_contradicting_options_are_refused_and_the_table_is_unchanged(
    session: Any, path: str, options: dict[str, str], message: str
) -> None:
    fresh(path)
    with pytest.raises(Exception, match=message):
        save(frame(session, (10, "a", 1)), path, **options)
    assert (ids(path), it.open(path).version) == ([0, 1, 2, 3], 1)
