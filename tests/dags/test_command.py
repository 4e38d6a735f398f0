"""The argument list of a job: hostile values stay one argument, or are refused (R18)."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.airflow.command import job_arguments, job_name
from indextables.errors import ConfigError, IndexTablesError, InvalidArgument

HOSTILE = ["--jars=x.jar", "-x", "a b", "'; rm -rf /; '", '"$(id)"', "`id`", "a\\", "*", "=", "-- ", "---", "%PATH%", "ä ☃", "{{ 1 }}"]


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in ("--table", "--where", "--report"):
        parser.add_argument(name)
    parser.add_argument("--option", action="append")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args(argv)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_arrive_as_they_are(value: str) -> None:
    got = parse(job_arguments(value, {"where": value}, {"a.b": value}, "/r"))
    assert (got.table, got.where, got.option, got.report, got.dry_run) == (value, value, [f"a.b={value}"], "/r", False)


@given(value=st.text(min_size=1))
def test_any_text_is_one_argument_or_refused(value: str) -> None:
    try:
        argv = job_arguments("t", {"where": value}, {}, "/r")
    except IndexTablesError:
        return
    assert parse(argv).where == value


def test_what_has_no_value_is_left_out() -> None:
    arguments = {"where": None, "source": "", "partition-by": [], "dry-run": False, "mode": "append"}
    assert job_arguments("t", arguments, {}, "r") == ["--table=t", "--mode=append", "--report=r"]


def test_lists_numbers_and_booleans() -> None:
    arguments: dict[str, Any] = {"partition-by": ["a", "b c"], "max-dest-splits": 3}
    assert job_arguments("t", arguments, {"x": True, "y": 1.5}, "r") == [
        "--table=t",
        "--partition-by=a,b c",
        "--max-dest-splits=3",
        "--option=x=true",
        "--option=y=1.5",
        "--report=r",
    ]


@pytest.mark.parametrize(("value", "given"), [("True", True), (True, True), ("false", False), ("", False), (None, False)])
def test_flags_from_templates(value: Any, given: bool) -> None:
    assert ("--dry-run" in job_arguments("t", {"dry-run": value}, {}, "r")) == given


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dry-run": "maybe"}, "dry-run 'maybe' is neither true nor false"),
        ({"report": "x"}, "argument 'report' is not one"),
        ({"table": "x"}, "argument 'table' is not one"),
        ({"where x": "1"}, "argument 'where x' is not one"),
        ({"-where": "1"}, "argument '-where' is not one"),
        ({"where": "--"}, "where '--' is no value"),
        ({"where": "a\0b"}, "control character"),
        ({"where": "a\nb"}, "control character"),
        ({"partition-by": ["a,b"]}, "a comma"),
    ],
)
def test_what_no_job_takes_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        job_arguments("t", arguments, {}, "r")


@pytest.mark.parametrize("key", ["s3.secretKey", "fs.s3a.access.key", "PASSWORD", "sessionToken", "azure.account.key", "credentials"])
def test_credentials_never_reach_the_logged_command(key: str) -> None:
    with pytest.raises(ConfigError, match="looks like a credential") as refused:
        job_arguments("t", {}, {key: "hunter2"}, "r")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError, match="user or password") as refused:
        job_arguments("s3://AKIA:hunter2@bucket/t", {}, {}, "r")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("table", ["", "--", None, 7])
def test_a_table_is_needed(table: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not a path"):
        job_arguments(table, {}, {}, "r")


@pytest.mark.parametrize("job", ["../x", "", "Merge", "a b", "-x", None, "a/b"])
def test_a_job_is_a_plain_name(job: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not a name"):
        job_name(job)
