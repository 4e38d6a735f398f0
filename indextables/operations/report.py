"""The report that every verb returns which changes a table, the same for Python, the terminal, jobs and Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from indextables.clock import Clock, iso_ms


class Status(StrEnum):
    SUCCESS = "success"
    NO_ACTION = "no_action"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    operation: str
    status: Status
    table: str
    base_version: int | None
    version: int | None = None  # the version committed, or for a repeated txn the version of the first attempt, if known; None: none
    dry_run: bool = False
    started_at: str
    duration_ms: int
    metrics: Mapping[str, int]
    warnings: Sequence[str] = ()
    error: str | None = None
    plan: Sequence[Mapping[str, Any]] | None = None  # the planned steps of a dry run
    health: Mapping[str, Any] | None = None  # the health document, in reports of the health job

    def to_dict(self) -> dict[str, Any]:
        """The JSON document. It has `plan` and `health` only if they are set."""
        document = {one.name: getattr(self, one.name) for one in fields(self)}
        document |= {"status": str(self.status), "metrics": dict(self.metrics), "warnings": list(self.warnings)}
        return {name: value for name, value in document.items() if value is not None or name not in ("plan", "health")}


def reporter(operation: str, table: str, clock: Clock) -> Callable[..., Report]:
    """Starts timing; the returned function creates the report with the elapsed time from the other fields."""
    started = clock.now_ms()

    def report(status: Status, metrics: Mapping[str, int], **others: Any) -> Report:
        times: dict[str, Any] = {"started_at": iso_ms(started), "duration_ms": clock.now_ms() - started}
        return Report(operation=operation, status=status, table=table, metrics=metrics, **times, **others)

    return report


def dry_run_report(
    report: Callable[..., Report], plan: Sequence[Mapping[str, Any]], metrics: Mapping[str, int], base_version: int, warnings: Sequence[str]
) -> Report:
    """The report of a dry run, whose plan has the steps that a run would take."""
    status = Status.SUCCESS if plan else Status.NO_ACTION
    return report(status, metrics, base_version=base_version, dry_run=True, warnings=warnings, plan=plan)
