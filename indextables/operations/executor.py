"""The seam between a verb's plan and the machines that carry it out: threads here, Spark's executors there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    @property
    def workers(self) -> int:
        """How many items are worked on at the same time."""

    @property
    def is_here(self) -> bool:
        """Whether the work is done on this machine, with its disks and its memory."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` of every item, in the order of the items; both must be picklable."""


@dataclass(frozen=True, slots=True)
class Threads:
    """For work that waits for disks, child processes or code that lets other threads run."""

    @property
    def workers(self) -> int:
        return os.cpu_count() or 2

    @property
    def is_here(self) -> bool:
        return True

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(len(items), self.workers)) as pool:
            return list(pool.map(work, items))


in_threads = Threads()
