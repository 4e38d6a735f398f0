"""The seam between a verb's plan and the machines that carry it out: threads here, Spark's executors there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` of every item, in the order of the items; both must be picklable."""


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """For work that waits for disks, child processes or code that lets other threads run."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), os.cpu_count() or 2)) as pool:
        return list(pool.map(work, items))
