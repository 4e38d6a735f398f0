"""The operator that runs one IndexTables job by spark-submit and hands its report on."""

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
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException, AirflowSkipException

from indextables.airflow.command import Value, job_arguments, job_name, public_settings
from indextables.airflow.hook import JobSubmitHook
from indextables.environment import spark_environment
from indextables.errors import IndexTablesError

NEVER_WORKS = frozenset({2, 78})  # usage and configuration: the same call fails the same way, however often it is tried
REPORT_BYTES = 64 * 1024 * 1024
PLAN_ENTRIES = 1000  # of a dry run's plan that go into the XCom; the task log has all of it
_STATUSES = frozenset({"success", "no_action", "partial", "failed"})
_QUIET = {"spark.ui.enabled": "false", "spark.log.level": "WARN"}
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


class IndexTablesJobOperator(SparkSubmitOperator):
    """Runs `jobs_dir/<job>.py` and returns its report.

    The command is a list, there is no shell: every value is one argument joined to its name. A job with nothing to do leaves its report
    as XCom and shows as skipped. Exit codes 2 and 78 fail at once, all other failures may be retried. When the task ends, by itself or
    killed or timed out, no process of the job is left on this machine. Credentials are refused in options, Spark settings and addresses,
    because Airflow logs them; the job's environment is that of the worker without Airflow's own variables.

    :param job: the job, e.g. ``merge_splits`` (templates are not rendered here)
    :param table: path or address of the table (templated); a relative path is taken against ``base_dir``
    :param arguments: the job's arguments by name, without dashes (templated); None and "" leave one out, a list is joined by commas
    :param options: ``spark.indextables.*`` options, the prefix may be left out (templated); credentials belong in the environment
    :param jobs_dir: folder of the job files
    :param base_dir: what a relative ``table`` and ``source`` are relative to; default: the folder above ``jobs_dir``
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
        who = {"INDEXTABLES_JOB_ID": f"{ti.dag_id}/{ti.run_id}/{ti.task_id}", "INDEXTABLES_JOB_ATTEMPT": str(ti.try_number)}
        self.env_vars = {**(self.env_vars or {}), **who}  # the commit says which run made it
        with tempfile.TemporaryDirectory(prefix="indextables-") as folder:
            self._report = Path(folder) / "report.json"
            try:
                public_settings(self.conf or {})
                self.application_args = job_arguments(*self._located(), self.options, self._report)
            except IndexTablesError as error:
                raise AirflowFailException(f"{self.job}: {error}") from None
            try:
                super().execute(context)
            except FileNotFoundError as error:
                raise AirflowFailException(f"{self.job}: there is no {error.filename!r} on the PATH") from None
            except AirflowException as error:
                raise self._failure(error) from None
            finally:
                self._end_processes()
                self._close()
            report = self._read_report()
        return self._outcome(report, context)

    def on_kill(self) -> None:
        """Ends the Python driver too: the provider only kills the JVM, and the driver would go on to commit."""
        self._end_processes()
        if self._hook is not None:
            super().on_kill()

    def _prepare(self) -> None:
        """Settles what depends on the Spark master. The provider takes a missing connection for YARN, silently; here it is refused."""
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(f"{self.job}: there is no Airflow connection {self._conn_id!r}") from None
        if not Path(self.application).is_file():
            raise AirflowFailException(f"{self.job}: there is no job file {self.application!r}")
        self._hook = None  # the next try may be made by this same object
        target = self._get_hook()._connection
        if target["deploy_mode"] == "cluster":
            raise AirflowFailException(f"{self.job}: connection {self._conn_id!r} asks for cluster mode, where the report cannot come back")
        self.conf = {**_QUIET, **(self.conf or {})}
        if str(target["master"]).startswith("local"):
            self.conf = {**_LOOPBACK, **self.conf}
            self.env_vars = {**self._local_environment(), **(self.env_vars or {})}

    def _get_hook(self) -> JobSubmitHook:
        return JobSubmitHook.of(super()._get_hook())

    def _local_environment(self) -> dict[str, str]:
        """What spark-submit needs here beyond what is set; a spark-submit that the PATH finds already stays the one that is run."""
        try:
            wanted = spark_environment()
        except IndexTablesError as error:
            raise AirflowFailException(f"{self.job}: {error}") from None
        if shutil.which("spark-submit") is not None:
            wanted.pop("PATH", None)
        return {name: value for name, value in wanted.items() if os.environ.get(name) != value}

    def _located(self) -> tuple[str, dict[str, Value]]:
        """Table and arguments with paths that do not depend on the worker's folder."""
        arguments = dict(self.arguments)
        source = arguments.get("source")
        if isinstance(source, str) and source:
            arguments["source"] = _against(self.base_dir, source)
        return (_against(self.base_dir, self.table) if self.table else self.table), arguments

    def _failure(self, error: AirflowException) -> AirflowException:
        process = self._hook._submit_sp if self._hook else None
        code = None if process is None else process.poll()
        if code is None:
            return error
        with contextlib.suppress(AirflowException):
            reason = self._read_report().get("error")
            if reason:
                self.log.error("%s: %s", self.job, reason)
                return (AirflowFailException if code in NEVER_WORKS else AirflowException)(f"{self.job}: {reason} (exit code {code})")
        lines = [line for line in self._hook._last_submit_log_lines if line.startswith("error: ")] if self._hook else []
        if code in NEVER_WORKS:
            return AirflowFailException(f"{self.job}: {lines[-1].removeprefix('error: ') if lines else error} (exit code {code})")
        return AirflowException(f"{self.job}: {lines[-1].removeprefix('error: ')} (exit code {code})") if lines else error

    def _read_report(self) -> dict[str, Any]:
        assert self._report is not None
        try:
            if self._report.stat().st_size > REPORT_BYTES:
                raise AirflowException(f"{self.job}: the report is larger than {REPORT_BYTES} bytes")
            report = json.loads(self._report.read_bytes())
        except FileNotFoundError:
            raise AirflowException(f"{self.job}: ended without a report") from None
        except ValueError:
            raise AirflowException(f"{self.job}: left a report that is not JSON") from None
        if not isinstance(report, dict) or report.get("status") not in _STATUSES:
            raise AirflowException(f"{self.job}: left a report without a known status")
        return report

    def _outcome(self, report: dict[str, Any], context: Context) -> dict[str, Any]:
        plan = report.get("plan")
        if isinstance(plan, list) and len(plan) > PLAN_ENTRIES:
            report = {**report, "plan": plan[:PLAN_ENTRIES], "plan_entries": len(plan)}
        for warning in report.get("warnings") or ():
            self.log.warning("%s: %s", self.job, warning)
        if report["status"] == "failed":
            raise AirflowException(f"{self.job}: {report.get('error') or 'reported a failure'}")
        # A write that an earlier try has committed names that version: the table did change, and whoever waits for it must hear of it.
        if report["status"] == "no_action" and not (self.job == "write" and report.get("version") is not None):
            if self.do_xcom_push:
                context["ti"].xcom_push(key="return_value", value=report)
            raise AirflowSkipException(f"{self.job}: nothing to do")
        self.log.info("%s: %s, version %s, %s", self.job, report["status"], report.get("version"), report.get("metrics"))
        return report

    def _close(self) -> None:
        """Fetches the ended spark-submit and closes its output, as the provider does not; never in `on_kill`, which may interrupt this."""
        process = self._hook._submit_sp if self._hook else None
        if process is not None:
            process.wait()
            process.stdout.close()

    def _end_processes(self) -> None:
        """Kills what is left of the job: the tree under spark-submit, and a driver that outlived its JVM (its command names our report)."""
        process = self._hook._submit_sp if self._hook else None
        left: list[psutil.Process] = []
        if process is not None and process.poll() is None:
            with contextlib.suppress(psutil.Error):
                parent = psutil.Process(process.pid)
                left = [*parent.children(recursive=True), parent]
        if self._report is not None:
            mark = f"--report={self._report}"
            left += [other for other in psutil.process_iter(["cmdline"]) if mark in (other.info["cmdline"] or ())]
        for one in left:
            with contextlib.suppress(psutil.Error):
                one.kill()


def _against(base: str, path: str) -> str:
    return path if "://" in path else str(Path(base) / path)
