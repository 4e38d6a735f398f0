"""The argument list of a job: hostile values stay one argument, or are refused (R18)."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.airflow.command import checked_option_key, job_arguments, job_environment, job_name, refuse_secret_settings
from indextables.config import checked_options, is_secret
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
def test_hostile_values_arrive_unchanged(value: str) -> None:
    got = parse(job_arguments(value, {"where": value}, {"a.b": value}, "/r"))
    assert (got.table, got.where, got.option, got.report, got.dry_run) == (value, value, [f"a.b={value}"], "/r", False)


@given(value=st.text(min_size=1))
def test_any_text_is_one_argument_or_refused(value: str) -> None:
    try:
        argv = job_arguments("t", {"where": value}, {}, "/r")
    except IndexTablesError:
        return
    assert parse(argv).where == value


def test_arguments_without_a_value_are_left_out() -> None:
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
    ("arguments", "message"),
    [
        ({"dry-run": "maybe"}, "dry-run 'maybe' is neither true nor false"),
        ({"report": "x"}, "argument 'report' is not an argument of a job"),
        ({"table": "x"}, "argument 'table' is not an argument of a job"),
        ({"where x": "1"}, "argument 'where x' is not an argument of a job"),
        ({"-where": "1"}, "argument '-where' is not an argument of a job"),
        ({"where": "--"}, "where '--' is not a valid value"),
        ({"where": "a\0b"}, "control character"),
        ({"where": "a\nb"}, "control character"),
        ({"partition-by": ["a,b"]}, "a comma"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        job_arguments("t", arguments, {}, "r")


SECRET_KEYS = [
    "s3.secretKey", "fs.s3a.access.key", "PASSWORD", "sessionToken", "azure.account.key", "credentials", "session_key", "private.key",
    "azure.connection.string", "fs.sas", "gs.serviceAccount", "fs.gs.auth.service.account.json.keyfile", "aws.oauth", "request.signature",
    "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.azure.sas.container.account", "spark.ssl.keyPassword", "spark.authenticate.secret",
    "azure.sig", "s3.key", "encryption.key", "gcs.creds", "http.bearer", "sftp.pass", "fernetKey", "azure.storageKey", "ssl.masterKey",
]  # fmt: skip
PUBLIC_KEYS = [
    "merge.targetSize", "spark.indextables.s3.endpoint", "indexing.tokenizer.message", "indexing.typemap.password_hash",
    "spark.executor.memory", "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.kubernetes.authenticate.driver.serviceAccountName",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_configuration_command_and_spark_settings_agree_on_what_is_a_credential(key: str) -> None:
    assert is_secret(key)
    for refuse in (
        lambda: checked_options({key: "hunter2"}),
        lambda: checked_option_key(key),
        lambda: refuse_secret_settings({key: "hunter2"}),
    ):
        with pytest.raises(ConfigError, match="credential") as refused:
            refuse()
        assert key in str(refused.value)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", PUBLIC_KEYS)
def test_other_keys_are_not_credentials(key: str) -> None:
    assert not is_secret(key)
    assert checked_option_key(key) == key
    refuse_secret_settings({key: "x"})


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_credentials_never_reach_the_logged_command(key: str) -> None:
    with pytest.raises(ConfigError, match="looks like a credential") as refused:
        job_arguments("t", {}, {key: "hunter2"}, "r")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError, match="user or password") as refused:
        job_arguments("s3://AKIA:hunter2@bucket/t", {}, {}, "r")
    assert "hunter2" not in str(refused.value)


SIGNED = [
    "https://a.blob.core.windows.net/c/t?sp=r&sig=hunter2",
    "https://a.blob.core.windows.net/c/t?sp=r&%73ig=hunter2",
    "https://host/t?a=1;sig=hunter2",
    "https://host/t#access_token=hunter2",
    "s3://b/t?X-Amz-Signature=hunter2",
    "s3://b/one,s3://b/two?X-Amz-Security-Token=hunter2",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2;EndpointSuffix=core.windows.net",
    "BlobEndpoint=https://a.blob.core.windows.net;SharedAccessSignature=sv=1&sig=hunter2",
]


@pytest.mark.parametrize("address", SIGNED)
def test_signed_addresses_never_reach_the_logged_command(address: str) -> None:
    for refuse in (
        lambda: job_arguments("t", {"source": address}, {}, "r"),
        lambda: job_arguments("t", {}, {"s3.endpoint": address}, "r"),
        lambda: refuse_secret_settings({"spark.hadoop.x": address}),
    ):
        with pytest.raises(ConfigError, match="contains a credential in its address") as refused:
            refuse()
        assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError, match="user or password"):
        refuse_secret_settings({"spark.hadoop.x": "s3://AKIA:hunter2@bucket/t"})


def test_an_azure_container_and_a_pattern_are_not_credentials() -> None:
    table, source = "abfss://container@account.dfs.core.windows.net/t", "s3://bucket/date=?/part-?.parquet"
    assert job_arguments(table, {"source": source}, {}, "r")[:2] == [f"--table={table}", f"--source={source}"]


def test_the_environment_of_a_job_has_no_airflow_settings() -> None:
    airflow = [
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW_CONN_X",
        "AIRFLOW_VAR_X",
        "AIRFLOW_HOME",
        "_AIRFLOW_WWW_USER_PASSWORD",
        "__AIRFLOW_SUPERVISOR_FD",
    ]
    kept = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "AIRFLOW_CTX_DAG_ID": "d", "INDEXTABLES_CACHE_DIR": "/c"}
    assert job_environment(dict.fromkeys(airflow, "x") | kept) == kept


@pytest.mark.parametrize("table", ["", "--", None, 7])
def test_a_missing_table_is_refused(table: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not a path"):
        job_arguments(table, {}, {}, "r")


@pytest.mark.parametrize("job", ["../x", "", "Merge", "a b", "-x", None, "a/b"])
def test_a_job_is_a_plain_name(job: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not a name"):
        job_name(job)
