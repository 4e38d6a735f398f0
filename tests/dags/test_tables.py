"""The tables file: what it accepts, and how it reports invalid entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.airflow import checks
from indextables.airflow.tables import Tables, load
from indextables.config import parse_size
from indextables.errors import IndexTablesError
from indextables.operations.request import SIZE


def read(folder: Path, text: str) -> Tables:
    (folder / "dags").mkdir(exist_ok=True)
    (folder / "dags" / "tables.yaml").write_text(text)
    return load(folder / "dags", environ={})


def entry(folder: Path, **values: Any) -> Tables:
    return read(folder, yaml.safe_dump({"tables": [{"name": "ok", "path": "a"}, {"name": "t", "path": "p"} | values]}))


def test_an_entry_needs_only_a_name_and_a_path(tmp_path: Path) -> None:
    found = read(tmp_path, "tables: [{name: t, path: warehouse/t}]")
    assert found.problems == ()
    (table,) = found.tables
    assert (table.path, table.root) == (str(tmp_path / "warehouse" / "t"), tmp_path)
    assert (table.write, table.retries, table.timeout, table.paused, table.conn_id) == (None, 3, 3600, False, "spark_default")
    assert table.maintain == {}


def test_addresses_and_absolute_paths_are_kept(tmp_path: Path) -> None:
    found = read(tmp_path, "tables: [{name: a, path: 's3://b/x'}, {name: b, path: '/data/${HOME}'}]")
    assert [table.path for table in found.tables] == ["s3://b/x", "/data/${HOME}"]


def test_an_entry_overrides_defaults_key_by_key(tmp_path: Path) -> None:
    text = """\
defaults:
  retries: 1
  maintain: {target_size: 1G, older_than: 1d}
  options: {checkpoint.interval: 1, cleanup.enabled: true}
  spark: {conf: {spark.cores.max: 2}}
tables:
  - {name: t, path: p, retries: 0, maintain: {older_than: 2d}, options: {checkpoint.interval: 5}, spark: {conf: {spark.task.cpus: 1}}}
  - {name: u, path: p, retries: null}
"""
    first, second = read(tmp_path, text).tables
    assert (first.retries, first.maintain["target_size"], first.maintain["older_than"]) == (0, "1G", "2d")
    assert first.options == {"checkpoint.interval": "5", "cleanup.enabled": "true"}
    assert first.conf == {"spark.cores.max": "2", "spark.task.cpus": "1"}
    assert second.retries == 1


def test_the_environment_may_name_another_file(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "mine.yaml").write_text("tables: [{name: t, path: p}]")
    for named in ("mine.yaml", str(tmp_path / "mine.yaml")):
        found = load(tmp_path / "dags", environ={"INDEXTABLES_TABLES": named})
        assert [table.path for table in found.tables] == [str(tmp_path / "p")]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": "Bad Name"}, "name: 'Bad Name' is not a name"),
    ({"name": "a/../b"}, "name: 'a/../b' is not a name"),
    ({"name": "x" * 101}, "is not a name of 1 to 100"),
    ({"name": True}, "name: True is not a name"),
    ({"name": None}, "name: is missing"),
    ({"name": "ok"}, "name: 'ok' is already used by an earlier entry"),
    ({"path": None}, "path: is missing"),
    ({"path": "--conf=spark.jars=x"}, "path: '--conf=spark.jars=x' begins with '-'"),
    ({"path": "~/t"}, "path: '~/t' begins with '~'"),
    ({"path": "a\nb"}, "control character"),
    ({"path": "a\0b"}, "control character"),
    ({"path": "{{ conn.x.password }}"}, "contains a template"),
    ({"path": "s3://key:pass@bucket/t"}, "user or password in its address"),
    ({"path": "x" * 5000}, "longer than 4096 characters"),
    ({"path": ["a"]}, "path: ['a'] is not a non-empty string"),
    ({"path": ""}, "path: '' is not a non-empty string"),
    ({"tabel": 1}, "tabel: is not a known key"),
    ({"retries": -1}, "retries: -1 is not a whole number from 0 to 20"),
    ({"retries": True}, "retries: True is not a whole number"),
    ({"retries": "3"}, "retries: '3' is not a whole number"),
    ({"retry_delay": "0s"}, "retry_delay: '0s' is not longer than zero"),
    ({"retry_delay": "11y"}, "retry_delay: '11y' is not a duration"),
    ({"timeout": "600w"}, "timeout: '600w' is longer than ten years"),
    ({"timeout": 60}, "timeout: 60 is not a duration"),
    ({"paused": "no"}, "paused: 'no' is neither true nor false"),
    ({"write": []}, "write: [] is not a mapping"),
    ({"write": {}}, "write.source: is missing"),
    ({"write": {"source": "a", "mode": "delete"}}, "write.mode: 'delete' is not one of append, overwrite"),
    ({"write": {"source": "a", "format": "xml"}}, "write.format: 'xml' is not one of"),
    ({"write": {"source": "a", "partition_by": "date"}}, "write.partition_by: 'date' is not a list"),
    ({"write": {"source": "a", "partition_by": ["a,b"]}}, "'a,b' contains a comma"),
    ({"write": {"source": "a", "partition_by": ["a", "a"]}}, "names a column twice"),
    ({"write": {"source": "a", "schedule": "soon"}}, "write.schedule: 'soon' is neither a cron expression"),
    ({"write": {"source": "a", "extra": 1}}, "write.extra: is not a known key"),
    ({"maintain": {"target_size": "10X"}}, "maintain.target_size: '10X' is not a size"),
    ({"maintain": {"target_size": "100K"}}, "maintain.target_size: '100K' is below the minimum of 1M"),
    ({"maintain": {"target_size": 100}}, "maintain.target_size: 100 is below the minimum of 1M"),
    ({"maintain": {"older_than": "7 days"}}, "maintain.older_than: '7 days' is not a duration"),
    ({"maintain": {"max_dest_splits": 0}}, "maintain.max_dest_splits: 0 is not"),
    ({"maintain": {"max_source_splits": 1}}, "maintain.max_source_splits: 1 is not"),
    ({"maintain": {"where": 1}}, "maintain.where: 1 is not a non-empty string"),
    ({"spark": {"conn_id": "a b"}}, "spark.conn_id: 'a b' is not the id"),
    ({"spark": {"jars": "x"}}, "spark.jars: is not a known key"),
    ({"spark": {"conf": {"spark.jars": "x"}}}, "'spark.jars' is not a Spark setting that a table may set"),
    ({"spark": {"conf": {"spark.jars.packages": "x"}}}, "'spark.jars.packages'"),
    ({"spark": {"conf": {"spark.submit.pyFiles": "x"}}}, "'spark.submit.pyFiles'"),
    ({"spark": {"conf": {"spark.driver.extraClassPath": "x"}}}, "'spark.driver.extraClassPath'"),
    ({"spark": {"conf": {"spark.executor.extraJavaOptions": "x"}}}, "'spark.executor.extraJavaOptions'"),
    ({"spark": {"conf": {"spark.executor.memory=1g --jars": "x"}}}, "is not a Spark setting"),
    ({"spark": {"conf": {"spark.sql.extensions": "x"}}}, "'spark.sql.extensions'"),
    ({"spark": {"conf": {"spark.hadoop.fs.s3a.access.key": "x"}}}, "'spark.hadoop.fs.s3a.access.key'"),
    ({"spark": {"conf": {"spark.executor.memory": ["1g"]}}}, "the value ['1g'] of 'spark.executor.memory'"),
    ({"spark": {"conf": {"spark.executor.memory": "1g\n--jars"}}}, "control character"),
    ({"options": {"s3.secretKey": "x"}}, "option 's3.secretKey' looks like a credential"),
    ({"options": {"s3.accessKey": "x"}}, "option 's3.accessKey' looks like a credential"),
    ({"options": {"--report": "x"}}, "option '--report' is not a key"),
    ({"options": {"a=b": "x"}}, "option 'a=b' is not a key"),
    ({"options": {"a": {}}}, "the value {} of 'a'"),
    ({"options": {"a": float("nan")}}, "the value nan of 'a'"),
    ({"options": "a=b"}, "options: 'a=b' is not a mapping"),
    ({"options": {"merge.targetSiez": "1G"}}, "options: unknown option 'merge.targetSiez', did you mean 'merge.targetSize'?"),
    ({"options": {"merge.targetSize": "1X"}}, "options: option merge.targetSize = '1X' is not a size"),
]


@pytest.mark.parametrize(("values", "message"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_a_bad_entry_is_reported_and_does_not_affect_the_others(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    found = entry(tmp_path, **values)
    assert [table.name for table in found.tables] == ["ok"]
    (problem,) = found.problems
    assert message in problem
    assert "entry 2" in problem
    assert str(found.file) in problem
    assert "\n" not in problem


def test_all_problems_of_an_entry_are_reported_at_once(tmp_path: Path) -> None:
    found = entry(tmp_path, retries="x", write={"mode": "y"}, extra=1)
    assert len(found.problems) == 4


@pytest.mark.parametrize("value", ["text", 7, None, ["a"]])
def test_an_entry_that_is_not_a_mapping_is_reported(tmp_path: Path, value: Any) -> None:
    found = read(tmp_path, yaml.safe_dump({"tables": [value, {"name": "ok", "path": "a"}]}))
    assert [table.name for table in found.tables] == ["ok"]
    assert any(f"entry 1: the entry: {value!r} is not a mapping" in problem for problem in found.problems)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tables: [", "is not YAML"),
        ("tables: [{name: a, path: p, path: q}]", "the key 'path' is given twice"),
        ("tables: [!!python/object/apply:os.system ['true']]", "is not YAML"),
        ("tables: {a: 1}", "tables: {'a': 1} is not a list of tables"),
        ("", "None is not a mapping"),
        ("table: []", "table: is not a known key"),
        ("? [a]\n: b", "is not"),
    ],
)
def test_an_invalid_file_gives_no_tables(tmp_path: Path, text: str, message: str) -> None:
    found = read(tmp_path, text)
    assert found.tables == ()
    assert any(message in problem for problem in found.problems)
    assert all("\n" not in problem and str(found.file) in problem for problem in found.problems)


def test_a_missing_or_far_too_large_file_is_reported(tmp_path: Path) -> None:
    assert "cannot be read" in load(tmp_path / "dags", environ={}).problems[0]
    assert "has 5000000 bytes, more than the" in read(tmp_path, "#" * 5_000_000).problems[0]


@pytest.mark.parametrize(
    ("head", "named"),
    [
        ("defaults: {maintain: {older_than: 90d}, retrys: 5}", "defaults.retrys: is not a known key"),
        ("defaults: {maintain: {older_than: 90d, retain: 1}}", "defaults.maintain.retain: is not a known key"),
        ("defaults: {options: {checkpoint.intervall: 5}}", "defaults.options: unknown option 'checkpoint.intervall', did you mean"),
        ("defaults: {retries: x}", "defaults.retries: 'x' is not"),
        ("defaults: 90d", "defaults: '90d' is not a mapping"),
        ("default: {maintain: {older_than: 90d}}", "default: is not a known key"),
    ],
)
def test_a_file_with_invalid_defaults_gives_no_table(tmp_path: Path, head: str, named: str) -> None:
    found = read(tmp_path, f"{head}\ntables: [{{name: a, path: p}}, {{name: b, path: p, retries: x}}, {{name: c, path: p}}]")
    assert found.tables == ()
    assert named in found.problems[0]
    assert [problem for problem in found.problems if "'x'" in problem and "table 'b'" in problem]
    assert [problem.removeprefix(f"{found.file}: ") for problem in found.problems[-2:]] == [
        "table 'a': has no DAGs until the file is corrected",
        "table 'c': has no DAGs until the file is corrected",
    ]


def test_each_mistake_in_the_defaults_is_reported_once(tmp_path: Path) -> None:
    found = read(tmp_path, "defaults: {retries: x, name: y}\ntables: [{name: a, path: p}, {name: b, path: p}]")
    assert sum("defaults." in problem for problem in found.problems) == 2


def test_a_null_in_an_entry_takes_the_default(tmp_path: Path) -> None:
    found = read(tmp_path, "defaults: {maintain: {older_than: 90d}}\ntables: [{name: a, path: p, maintain: {older_than: null}}]")
    assert found.tables[0].maintain["older_than"] == "90d"


yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "path", "write", "source", "spark", "conf"]) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(document=yaml_values, other=yaml_values)
def test_any_entry_gives_a_table_or_a_problem(tmp_path_factory: pytest.TempPathFactory, document: Any, other: Any) -> None:
    text = yaml.safe_dump({"tables": [document, {"name": "ok", "path": "a"}], "defaults": other})
    found = read(tmp_path_factory.mktemp("fuzz"), text)
    assert "ok" in [table.name for table in found.tables] or any("ok" in problem for problem in found.problems)


@pytest.mark.parametrize(("text", "number"), [("1048576", 2**20), ("1M", 2**20), ("1.5 GiB", 1.5 * 2**30), ("2tb", 2 * 2**40)])
def test_sizes(text: str, number: float) -> None:
    assert parse_size(checks.of_type(SIZE)(text)) == number


@pytest.mark.parametrize(("text", "seconds"), [("1500ms", 1.5), ("30s", 30), ("2 m", 120), ("1.5h", 5400), ("7d", 604800), ("2W", 1209600)])
def test_durations(text: str, seconds: float) -> None:
    assert checks.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "M", "-1M", "1M\n", "1 X", "1e3M", "١M", "1MM", None, 1.5, True])
def test_malformed_sizes_are_refused(text: Any) -> None:
    with pytest.raises(IndexTablesError, match="is not a size"):
        checks.of_type(SIZE)(text)
