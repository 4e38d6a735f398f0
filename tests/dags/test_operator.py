"""The operator alone: what it refuses, and how it handles a job's exit code and report."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indextables.environment import spark_environment
from indextables.errors import InvalidArgument
from tests.support.airflow_project import StubSpark
from tests.support.processes import has_ended

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database")]


class Instance:
    """The part of a task instance that the operator uses."""

    dag_id, run_id, task_id, try_number = "d", "r", "t", 2

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def make(project: Path) -> Callable[..., Any]:
    from indextables.airflow import IndexTablesJobOperator

    def operator(**values: Any) -> Any:
        return IndexTablesJobOperator(**{"task_id": "t", "job": "purge", "table": "w/t", "jobs_dir": project / "jobs"} | values)

    return operator


def refusal(operator: Any, kind: str = "AirflowFailException") -> str:
    from airflow.sdk import exceptions

    with pytest.raises(exceptions.AirflowException) as refused:
        operator.execute({"ti": Instance()})
    assert type(refused.value).__name__ == kind
    return str(refused.value)


def test_the_operator_returns_the_report(make: Callable[..., Any], spark: StubSpark, project: Path) -> None:
    spark.answer("purge", {"report": {"version": 9, "warnings": ["old"]}})
    report = make(arguments={"older-than": "1d"}, options={"a": 1}).execute({"ti": Instance()})
    assert report["version"] == 9
    assert spark.calls[0]["arguments"][:3] == [f"--table={project / 'w' / 't'}", "--older-than=1d", "--option=a=1"]
    assert not Path(spark.arguments("purge")["report"]).parent.exists()


AIRFLOW_SETTINGS = {
    "AIRFLOW__CORE__FERNET_KEY": "canary-fernet",
    "AIRFLOW__API_AUTH__JWT_SECRET": "canary-jwt",
    "AIRFLOW__API__SECRET_KEY": "canary-api",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD": "canary-database",
    "AIRFLOW_CONN_OTHER": "canary-connection",
    "AIRFLOW_VAR_OTHER": "canary-variable",
    "_AIRFLOW_WWW_USER_PASSWORD": "canary-password",
}


def test_the_process_of_a_job_does_not_inherit_airflows_keys(
    make: Callable[..., Any], spark: StubSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (AIRFLOW_SETTINGS | {"AWS_SECRET_ACCESS_KEY": "needed by the job"}).items():
        monkeypatch.setenv(name, value)
    make(env_vars={"MINE": "1"}).execute({"ti": Instance()})
    environment = spark.calls[0]["environment"]
    assert not [name for name in environment if "AIRFLOW" in name and not name.startswith("AIRFLOW_CTX_")]
    assert "canary" not in str(environment)
    assert (environment["MINE"], environment["AWS_SECRET_ACCESS_KEY"]) == ("1", "needed by the job")
    assert (environment["INDEXTABLES_JOB_ID"], environment["INDEXTABLES_JOB_ATTEMPT"]) == ("d/r/t", "2")


def test_a_job_with_nothing_to_do_is_skipped_and_its_report_kept(make: Callable[..., Any], spark: StubSpark) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    spark.answer("purge", {"report": {"status": "no_action"}})
    instance = Instance()
    with pytest.raises(AirflowSkipException, match="purge: nothing to do"):
        make().execute({"ti": instance})
    assert instance.pushed["return_value"]["status"] == "no_action"


@pytest.mark.parametrize("code", [2, 78])
def test_the_error_of_the_job_is_the_message(make: Callable[..., Any], spark: StubSpark, code: int) -> None:
    spark.answer("purge", {"exit": code, "report": {"status": "failed", "error": "no table at 'x'"}})
    assert refusal(make()) == f"purge: no table at 'x' (exit code {code})"
    spark.answer("purge", {"exit": code, "report": None, "say": ["usage: purge.py", "error: size '1Q' is malformed"]})
    assert refusal(make()) == f"purge: size '1Q' is malformed (exit code {code})"
    spark.answer("purge", {"exit": code, "report": None})
    assert f"Error code is: {code}" in refusal(make())


@pytest.mark.parametrize("code", [1, 75, 3, 137])
def test_other_failures_may_be_retried(make: Callable[..., Any], spark: StubSpark, code: int) -> None:
    spark.answer("purge", {"exit": code, "report": {"status": "failed", "error": "the store is away"}})
    assert refusal(make(), "AirflowException") == f"purge: the store is away (exit code {code})"
    spark.answer("purge", {"exit": code, "report": None, "say": ["error: the store is gone"]})
    assert refusal(make(), "AirflowException") == f"purge: the store is gone (exit code {code})"


def test_a_value_that_looks_like_an_exit_code_is_ignored(make: Callable[..., Any], spark: StubSpark) -> None:
    spark.answer("purge", {"exit": 75, "report": None})
    refusal(make(arguments={"where": "Error code is: 78."}), "AirflowException")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"report": None}, "the job ended without a report"),
        ({"raw": '{"status": '}, "the report is not JSON"),
        ({"raw": "[]"}, "the report has no known status"),
        ({"report": {"status": "perhaps"}}, "the report has no known status"),
        ({"report": {"status": "failed", "error": "half of it"}}, "half of it"),
        ({"report": {"status": "failed"}}, "reported a failure"),
    ],
)
def test_exit_code_zero_without_a_report_of_success_fails(
    make: Callable[..., Any], spark: StubSpark, answer: dict[str, Any], message: str
) -> None:
    spark.answer("purge", answer)
    assert message in refusal(make(), "AirflowException")


def test_a_long_plan_is_cut_for_the_xcom(make: Callable[..., Any], spark: StubSpark) -> None:
    spark.answer("purge", {"report": {"plan": list(range(2500))}})
    report = make().execute({"ti": Instance()})
    assert (len(report["plan"]), report["plan_entries"]) == (1000, 2500)


def test_bad_values_are_refused_before_spark_starts(make: Callable[..., Any], spark: StubSpark) -> None:
    assert refusal(make(arguments={"where": "a\0b"})) == "purge: where 'a\\x00b' contains a control character"
    assert refusal(make(options={"s3.secretKey": "x"})).startswith("purge: option 's3.secretKey' looks like a credential")
    assert refusal(make(options={"fs.sas": "x"})).startswith("purge: option 'fs.sas' looks like a credential")
    assert refusal(make(conf={"spark.hadoop.fs.s3a.access.key": "x"})).startswith(
        "purge: Spark setting 'spark.hadoop.fs.s3a.access.key' looks"
    )
    assert refusal(make(table="")) == "purge: table '' is not a path"
    assert refusal(make(job="nothing_like_it")).startswith("nothing_like_it: there is no job file")
    assert refusal(make(conn_id="misspelt")) == "purge: there is no Airflow connection 'misspelt'"
    assert "cluster mode" in refusal(make(conn_id="spark_cluster"))
    with pytest.raises(InvalidArgument, match=r"job '\.\./x'"):
        make(job="../x")
    assert spark.calls == []


def test_variables_that_are_on_the_command_line_hold_no_credentials(
    make: Callable[..., Any], spark: StubSpark, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With YARN, the provider passes variables as Spark settings, which Airflow logs."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    message = refusal(make(env_vars={"AWS_SECRET_ACCESS_KEY": "hunter2"}))
    assert "'AWS_SECRET_ACCESS_KEY' looks like a credential" in message
    assert "hunter2" not in message + "".join(capfd.readouterr())
    assert spark.calls == []


@pytest.mark.parametrize(
    "values",
    [
        {"repositories": "https://me:hunter2@repository.example"},
        {"jars": "s3://bucket/x.jar?X-Amz-Signature=hunter2"},
        {"conf": {"spark.hadoop.fs.sas.token": "hunter2"}},
        {"conf": {"spark.hadoop.x": "AccountName=a;AccountKey=hunter2"}},
        {"conf": {"spark.hadoop.x": "AccountKey=hunter2"}},
        {"conf": {"spark.driver.extraJavaOptions": "-Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2"}},
        {"conf": {"spark.redis.auth": "hunter2"}},
        {"options": {"s3.masterKey": "hunter2"}},
        {"options": {"s3.endpoint": "https://me:hunter2@host"}},
        {"arguments": {"where": "s3://me:hunter2@bucket"}},
        {"table": "s3://me:hunter2@bucket/t"},
    ],
)
def test_no_argument_brings_a_credential_onto_the_logged_command(
    make: Callable[..., Any], spark: StubSpark, capfd: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    message = refusal(make(**values))
    assert re.search("looks like a credential|user or password in its address|contains a credential", message)
    assert "hunter2" not in message + "".join(capfd.readouterr())  # Airflow logs to standard output
    assert spark.calls == []


def test_a_missing_spark_submit_fails_at_once(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_FAR", '{"conn_type": "spark", "host": "spark://m", "port": 7077}')
    monkeypatch.setenv("PATH", "/nowhere")
    assert refusal(make(conn_id="spark_far")) == "purge: 'spark-submit' was not found on the PATH"


def test_a_missing_java_is_reported(make: Callable[..., Any], spark: StubSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    from indextables.airflow import operator
    from indextables.errors import ConfigError

    def no_java() -> dict[str, str]:
        raise ConfigError("no Java 17 or newer")

    monkeypatch.setattr(operator, "spark_environment", no_java)
    assert refusal(make()) == "purge: no Java 17 or newer"


def test_a_spark_submit_on_the_path_takes_precedence(make: Callable[..., Any], spark: StubSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", spark_environment()["JAVA_HOME"])
    monkeypatch.delenv("SPARK_HOME", raising=False)
    task = make()
    task.execute({"ti": Instance()})
    assert task.env_vars["SPARK_HOME"]
    assert "PATH" not in task.env_vars
    monkeypatch.setenv("PATH", "/nowhere")
    assert "PATH" in make()._local_environment()


def test_killing_the_task_ends_the_driver_too(make: Callable[..., Any], spark: StubSpark) -> None:
    spark.answer("purge", {"child": 60})
    task = make()
    driver = spark.folder / "driver.pid"

    def killed(*_: Any) -> None:
        # As Airflow does: in a signal handler, while the task reads the output of spark-submit.
        if driver.exists() and driver.read_text():
            signal.setitimer(signal.ITIMER_REAL, 0)
            task.on_kill()

    before = signal.signal(signal.SIGALRM, killed)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        assert "Error code is: -9" in refusal(task, "AirflowException")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for pid in (int(driver.read_text()), spark.calls[0]["pid"]):
        assert has_ended(pid)


def test_killing_a_task_that_has_not_started_does_nothing(make: Callable[..., Any]) -> None:
    operator = make()
    operator.on_kill()
    assert operator._hook is None
