"""The verbs, one a module, independent of the engine that runs them. A verb that maintains is a pure plan and a thin run."""

from __future__ import annotations

from indextables.operations.executor import Executor, ProgressThreads, Threads, Workload, in_many_threads, in_threads
from indextables.operations.findings import Finding
from indextables.operations.report import Report, Status, reporter

__all__ = [
    "Executor",
    "Finding",
    "ProgressThreads",
    "Report",
    "Status",
    "Threads",
    "Workload",
    "in_many_threads",
    "in_threads",
    "reporter",
]
