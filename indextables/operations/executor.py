"""The seam between a verb's plan and the machines that carry it out: threads here, Spark's executors there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol, TypeVar

from indextables import limits

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    @property
    def workers(self) -> int:
        """How many items are worked on at the same time."""

    @property
    def runs_locally(self) -> bool:
        """Whether the work is done on this machine, with its disks and its memory."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` of every item, in the order of the items; both must be picklable."""


@dataclass(frozen=True, slots=True)
class Threads:
    """For work that waits for disks, child processes or code that lets other threads run."""

    count: int | None = None  # as many as there are processors

    @property
    def workers(self) -> int:
        return self.count or os.cpu_count() or 2

    @property
    def runs_locally(self) -> bool:
        return True

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(len(items), self.workers)) as pool:
            return list(pool.map(work, items))


in_threads = Threads()
in_many_threads = Threads(limits.PARALLEL_READS)  # for work that waits for a store and does nothing else


@dataclass(frozen=True, slots=True)
class Workload:
    """How the work of a verb is spread, whichever interface runs it."""

    threads: Threads
    items_per_task: int = 1  # of Spark
    spark_from: int = 1  # items; fewer are worked on in threads, without Spark


IN_THREADS = Workload(in_threads)
DELETIONS = Workload(in_many_threads, items_per_task=500, spark_from=5_000)  # 5,000 files are deleted before Spark has started


@dataclass(frozen=True, slots=True)
class ProgressThreads:
    """Threads that report progress after each item: how many are done and how many there are, over all calls."""

    threads: Threads
    report_progress: Callable[[int, int], None]
    counts: list[int] = field(default_factory=lambda: [0, 0])  # done, in all
    lock: Any = field(default_factory=Lock)

    @property
    def workers(self) -> int:
        return self.threads.workers

    @property
    def runs_locally(self) -> bool:
        return True

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self._count(0, len(items))

        def counted(item: Item) -> Result:
            result = work(item)
            self._count(1, 0)
            return result

        return self.threads(counted, items)

    def _count(self, done: int, more: int) -> None:
        with self.lock:
            self.counts[0] += done
            self.counts[1] += more
            self.report_progress(*self.counts)
