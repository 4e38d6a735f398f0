"""Starts spark-submit in an environment without Airflow's own settings."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from indextables.airflow.command import job_environment


class JobSubmitHook(SparkSubmitHook):
    """The provider's hook, but the process does not inherit Airflow's keys, database address, connections and variables.

    The variables that the operator asks for (`env_vars`) are set after that, whatever their names.
    """

    @classmethod
    def of(cls, hook: SparkSubmitHook) -> JobSubmitHook:
        """Takes over a hook that the provider has set up, with its some thirty arguments, which differ between its versions."""
        own = cls.__new__(cls)
        own.__dict__.update(hook.__dict__)
        return own

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        kwargs["env"] = {**job_environment(os.environ), **(self._env_vars or {})}
        driver: str | None = super().submit(application, **kwargs)
        return driver

    def on_kill(self) -> None:
        self._env = self._env_vars  # `yarn application -kill` needs them
        super().on_kill()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        self._env = None  # where it is set, the provider replaces our `env` by the whole environment of the task
        return command
