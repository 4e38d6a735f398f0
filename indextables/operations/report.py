"""The report that every verb returns which changes a table, the same for Python, the terminal, jobs and Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from indextables.clock import Clock, iso_ms


class Status(StrEnum):
    SUCCESS = "success"
    NO_ACTION = "no_action"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Report:
    operation: str
    status: Status
    table: str
    base_version: int | None
    version: int | None  # the version committed, or for a repeated txn the version of the first attempt, if known; None: none
    dry_run: bool
    started_at: str
    duration_ms: int
    metrics: Mapping[str, int]
    warnings: Sequence[str] = ()
    error: str | None = None
    plan: Sequence[Mapping[str, Any]] | None = None  # the planned steps of a dry run
    health: Mapping[str, Any] | None = None  # the health document, in reports of the health job

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "operation": self.operation,
            "status": str(self.status),
            "table": self.table,
            "base_version": self.base_version,
            "version": self.version,
            "dry_run": self.dry_run,
            "started_at": self.started_at,
            "duration_ms": self.duration_ms,
            "metrics": dict(self.metrics),
            "warnings": list(self.warnings),
            "error": self.error,
        }
        if self.plan is not None:
            document["plan"] = [dict(step) for step in self.plan]
        if self.health is not None:
            document["health"] = dict(self.health)
        return document


def reporter(operation: str, table: str, clock: Clock) -> Callable[..., Report]:
    """Starts timing; the returned function creates the report with the elapsed time."""
    started = clock.now_ms()

    def report(
        status: Status,
        metrics: Mapping[str, int],
        *,
        base_version: int | None,
        version: int | None = None,
        dry_run: bool = False,
        warnings: Sequence[str] = (),
        error: str | None = None,
        plan: Sequence[Mapping[str, Any]] | None = None,
        health: Mapping[str, Any] | None = None,
    ) -> Report:
        shared = operation, status, table, base_version, version, dry_run, iso_ms(started), clock.now_ms() - started
        return Report(*shared, metrics, warnings, error, plan, health)

    return report
