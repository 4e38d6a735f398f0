"""The operator that runs one IndexTables job with spark-submit and returns its report."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException, AirflowSkipException

from indextables.airflow.command import Value, job_arguments, job_environment, job_name, plain_text, refuse_secret_settings
from indextables.airflow.tables import resolved
from indextables.environment import spark_environment
from indextables.errors import IndexTablesError
from indextables.operations import Status

NEVER_WORKS = frozenset({2, 78})  # usage and configuration: a retry would fail in the same way
REPORT_BYTES = 64 * 1024 * 1024
PLAN_ENTRIES = 1000  # entries of a dry run's plan that go into the XCom; the task log has all of them
_STATUSES = frozenset(Status)
_DEFAULT_CONF = {"spark.ui.enabled": "false", "spark.log.level": "WARN"}
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


class JobSubmitHook(SparkSubmitHook):
    """The provider's hook, except that it refuses a command with a credential in an address, which may come from any argument of the
    operator, and that the process does not inherit Airflow's keys, database address, connections and variables.

    Variables that the operator sets (`env_vars`) are passed, whatever their names.
    """

    @classmethod
    def of(cls, hook: SparkSubmitHook) -> JobSubmitHook:
        """Copies a hook set up by the provider, whose thirty or so arguments differ between its versions."""
        own = cls.__new__(cls)
        own.__dict__.update(hook.__dict__)
        return own

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        kwargs["env"] = {**job_environment(os.environ), **(self._env_vars or {})}
        driver: str | None = super().submit(application, **kwargs)
        return driver

    def on_kill(self) -> None:
        self._env = self._env_vars  # for `yarn application -kill`
        super().on_kill()

    def _build_spark_common_args(self) -> list[str]:
        """Checks the words here because the provider logs the command as soon as it is complete."""
        words: list[str] = super()._build_spark_common_args()
        self._env = None  # if set, the provider would replace our `env` by the whole environment of the task
        if self._is_yarn or self._is_kubernetes:  # then the provider passes the variables as Spark settings
            refuse_secret_settings(self._env_vars or {})
        for word in words:
            plain_text("the spark-submit command", word)
        return words


class IndexTablesJobOperator(SparkSubmitOperator):
    """Runs `jobs_dir/<job>.py` and returns its report.

    The command runs without a shell: every value is one argument joined to its name. A job with nothing to do pushes its report as XCom and
    its task is skipped. Exit codes 2 and 78 fail at once; all other failures may be retried. When the task ends, is killed or times out, no
    process of the job is left on this machine. Credentials are refused in options, Spark settings and addresses, because Airflow logs them;
    the job's environment is that of the worker without Airflow's own variables.

    :param job: the job, e.g. ``merge_splits`` (templates are not rendered here)
    :param table: path or address of the table (templated); a relative path starts at ``base_dir``
    :param arguments: the job's arguments by name, without dashes (templated); None and "" are left out, a list is joined by commas
    :param options: ``spark.indextables.*`` options, the prefix may be left out (templated); credentials belong in the environment
    :param jobs_dir: folder of the job files
    :param base_dir: folder at which a relative ``table`` and ``source`` start; default: the folder above ``jobs_dir``
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "table", "arguments", "options")
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "arguments": "json", "options": "json", "env_vars": "json"}
    ui_color = "#e8f1fb"
    conf: dict[str, Any] | None
    env_vars: dict[str, str] | None
    _hook: Any

    def __init__(
        self,
        *,
        job: str,
        table: str,
        jobs_dir: str | Path,
        arguments: Mapping[str, Value] | None = None,
        options: Mapping[str, str | int | float | bool] | None = None,
        base_dir: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", f"indextables-{job_name(job)}")
        super().__init__(application=str(Path(jobs_dir) / f"{job}.py"), **kwargs)
        self.job = job
        self.table = table
        self.arguments = dict(arguments or {})
        self.options = dict(options or {})
        self.base_dir = str(base_dir or Path(jobs_dir).parent)
        self._report: Path | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        self._prepare()
        ti = context["ti"]
        run = {"INDEXTABLES_JOB_ID": f"{ti.dag_id}/{ti.run_id}/{ti.task_id}", "INDEXTABLES_JOB_ATTEMPT": str(ti.try_number)}
        self.env_vars = {**(self.env_vars or {}), **run}  # recorded in the commit
        with tempfile.TemporaryDirectory(prefix="indextables-") as folder:
            self._report = Path(folder) / "report.json"
            try:
                refuse_secret_settings(self.conf or {})
                self.application_args = job_arguments(*self._absolute(), self.options, self._report)
            except IndexTablesError as error:
                raise AirflowFailException(f"{self.job}: {error}") from None
            try:
                super().execute(context)
            except FileNotFoundError as error:
                raise AirflowFailException(f"{self.job}: {error.filename!r} was not found on the PATH") from None
            except IndexTablesError as error:  # the command contains a credential
                raise AirflowFailException(f"{self.job}: {error}") from None
            except AirflowException as error:
                raise self._failure(error) from None
            finally:
                self._end_processes()
                self._close()
            report = self._read_report()
        return self._outcome(report, context)

    def on_kill(self) -> None:
        """Also ends the Python driver: the provider only kills the JVM, and the driver could still commit."""
        self._end_processes()
        if self._hook is not None:
            super().on_kill()

    def _prepare(self) -> None:
        """Checks the connection and sets what depends on the Spark master. The provider would silently use YARN without a connection."""
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(f"{self.job}: there is no Airflow connection {self._conn_id!r}") from None
        if not Path(self.application).is_file():
            raise AirflowFailException(f"{self.job}: there is no job file {self.application!r}")
        self._hook = None  # this object may also run the next try
        target = self._get_hook()._connection
        if target["deploy_mode"] == "cluster":
            raise AirflowFailException(
                f"{self.job}: connection {self._conn_id!r} asks for cluster mode, which cannot return the report; use client mode"
            )
        self.conf = {**_DEFAULT_CONF, **(self.conf or {})}
        if str(target["master"]).startswith("local"):
            self.conf = {**_LOOPBACK, **self.conf}
            self.env_vars = {**self._local_environment(), **(self.env_vars or {})}

    def _get_hook(self) -> JobSubmitHook:
        return JobSubmitHook.of(super()._get_hook())

    def _local_environment(self) -> dict[str, str]:
        """The variables that spark-submit needs and that are not set; a spark-submit on the PATH takes precedence over ours."""
        try:
            variables = spark_environment()
        except IndexTablesError as error:
            raise AirflowFailException(f"{self.job}: {error}") from None
        if shutil.which("spark-submit") is not None:
            variables.pop("PATH", None)
        return {name: value for name, value in variables.items() if os.environ.get(name) != value}

    def _absolute(self) -> tuple[str, dict[str, Value]]:
        """Table and arguments with absolute paths, which do not depend on the worker's current folder."""
        arguments = dict(self.arguments)
        source = arguments.get("source")
        if isinstance(source, str) and source:
            arguments["source"] = resolved(self.base_dir, source)
        return (resolved(self.base_dir, self.table) if self.table else self.table), arguments

    def _failure(self, error: AirflowException) -> AirflowException:
        process = self._process
        code = None if process is None else process.poll()
        if code is None:
            return error
        reason = None
        with contextlib.suppress(AirflowException):
            reason = self._read_report().get("error")
        if reason:
            self.log.error("%s: %s", self.job, reason)
        else:
            lines = [line for line in self._hook._last_submit_log_lines if line.startswith("error: ")]
            reason = lines[-1].removeprefix("error: ") if lines else None
        if code in NEVER_WORKS:
            return AirflowFailException(f"{self.job}: {reason or error} (exit code {code})")
        return AirflowException(f"{self.job}: {reason} (exit code {code})") if reason else error

    @property
    def _process(self) -> Any:
        """The process of spark-submit, if it was started."""
        return self._hook._submit_sp if self._hook else None

    def _read_report(self) -> dict[str, Any]:
        assert self._report is not None
        try:
            if self._report.stat().st_size > REPORT_BYTES:
                raise AirflowException(f"{self.job}: the report is larger than {REPORT_BYTES} bytes")
            report = json.loads(self._report.read_bytes())
        except FileNotFoundError:
            raise AirflowException(f"{self.job}: the job ended without a report") from None
        except ValueError:
            raise AirflowException(f"{self.job}: the report is not JSON") from None
        if not isinstance(report, dict) or report.get("status") not in _STATUSES:
            raise AirflowException(f"{self.job}: the report has no known status")
        return report

    def _outcome(self, report: dict[str, Any], context: Context) -> dict[str, Any]:
        plan = report.get("plan")
        if isinstance(plan, list) and len(plan) > PLAN_ENTRIES:
            report = {**report, "plan": plan[:PLAN_ENTRIES], "plan_entries": len(plan)}
        for warning in report.get("warnings") or ():
            self.log.warning("%s: %s", self.job, warning)
        if report["status"] == "failed":
            raise AirflowException(f"{self.job}: {report.get('error') or 'reported a failure'}")
        # A write that an earlier try committed reports its version: the table did change, and the DAGs waiting for it must be triggered.
        if report["status"] == "no_action" and not (self.job == "write" and report.get("version") is not None):
            if self.do_xcom_push:
                context["ti"].xcom_push(key="return_value", value=report)
            raise AirflowSkipException(f"{self.job}: nothing to do")
        self.log.info("%s: %s, version %s, %s", self.job, report["status"], report.get("version"), report.get("metrics"))
        return report

    def _close(self) -> None:
        """Reaps spark-submit and closes its output, which the provider does not do; not used in `on_kill`, which may interrupt this."""
        process = self._process
        if process is not None:
            process.wait()
            process.stdout.close()

    def _end_processes(self) -> None:
        """Kills the remaining processes of the job: the tree under spark-submit, and a driver that outlived its JVM."""
        process = self._process
        remaining: list[psutil.Process] = []
        if process is not None and process.poll() is None:
            with contextlib.suppress(psutil.Error):
                parent = psutil.Process(process.pid)
                remaining = [*parent.children(recursive=True), parent]
        if self._report is not None:
            argument = f"--report={self._report}"  # only a process of this try has it
            remaining += [other for other in psutil.process_iter(["cmdline"]) if argument in (other.info["cmdline"] or ())]
        for process_left in remaining:
            with contextlib.suppress(psutil.Error):
                process_left.kill()
