"""Starts spark-submit with a command that may be logged, in an environment without Airflow's own settings."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from indextables.airflow.command import job_environment, plain_text, refuse_secret_settings


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

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        self._env = None  # if set, the provider would replace our `env` by the whole environment of the task
        if self._is_yarn or self._is_kubernetes:  # then the provider passes the variables as Spark settings
            refuse_secret_settings(self._env_vars or {})
        for word in command:
            plain_text("the spark-submit command", word)
        return command
