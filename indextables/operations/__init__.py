"""The operations on a table, one package or module per family of verbs, independent of the interface and of the engine that runs them.

Start with `verbs`, which defines the request of every verb. A maintenance verb consists of a pure plan and a run that executes it through
an `Executor`; its result is a `Report` or a list of `Finding`.
"""

from __future__ import annotations

from indextables.operations.executor import Executor, ProgressThreads, Threads, Workload, in_threads
from indextables.operations.findings import Finding, unreadable
from indextables.operations.report import Report, Status, reporter
