"""The interface between a verb and what runs its tasks: threads of this process, or Spark's executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeVar

from indextables import limits

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    @property
    def workers(self) -> int:
        """Maximum number of items processed at the same time."""

    @property
    def runs_locally(self) -> bool:
        """Whether the work runs on this machine and uses its disks and memory."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Applies `work` to every item and returns the results in the order of the items; both must be picklable."""


@dataclass(frozen=True)  # without slots, which would keep ProgressThreads from setting its own attributes
class Threads:
    """Runs work in threads; for work that waits for I/O or child processes, or releases the GIL."""

    count: int | None = None  # None: the number of processors

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
in_many_threads = Threads(limits.PARALLEL_READS)  # for work that only waits for a store


@dataclass(frozen=True, slots=True)
class Workload:
    """How the work of a verb is distributed, whichever interface runs it."""

    threads: Threads
    items_per_task: int = 1  # of Spark
    spark_from: int = 1  # minimum number of items for Spark; fewer are processed in threads


THREADS_ONLY = Workload(in_threads)
DELETIONS = Workload(in_many_threads, items_per_task=500, spark_from=5_000)  # threads delete 5,000 files before Spark has started


class ProgressThreads(Threads):
    """Threads that report progress after each item: the number of items done and the total, over all calls."""

    def __init__(self, threads: Threads, report_progress: Callable[[int, int], None]) -> None:
        super().__init__(threads.count)
        self._report_progress = report_progress
        self._done = self._total = 0
        self._lock = Lock()

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self._count(0, len(items))

        def counted(item: Item) -> Result:
            result = work(item)
            self._count(1, 0)
            return result

        return super().__call__(counted, items)

    def _count(self, done: int, more: int) -> None:
        with self._lock:
            self._done += done
            self._total += more
            self._report_progress(self._done, self._total)
