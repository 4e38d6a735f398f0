"""Retries requests after temporary faults, with growing pauses, until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from indextables import limits
from indextables.errors import IndexTablesError
from indextables.paths import TableRoot
from indextables.storage.faults import Fault, FaultKind, fault_of

Result = TypeVar("Result")
# Never retried: our own errors, and programming mistakes.
OURS = (IndexTablesError, TypeError, AttributeError, NameError, AssertionError)
ATTEMPT_SHARE = 3  # a request gets at most a third of the time, so that another can follow one that hangs


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._pauses = 0

    def seconds_left(self) -> float:
        """Seconds that the next request may take."""
        return max(0.01, min(self.seconds / ATTEMPT_SHARE, self._end - time.monotonic()))

    def pause(self) -> bool:
        """Waits before the next attempt (exponential, capped, full jitter); returns False without waiting if no time is left for one."""
        ceiling = min(limits.RETRY_MOST_SECONDS, limits.RETRY_FIRST_SECONDS * 2**self._pauses)
        wait = random.uniform(0, ceiling)
        self._pauses += 1
        if time.monotonic() + wait >= self._end:
            return False
        time.sleep(wait)
        return True


def attempt(deadline: Deadline, request: Callable[[float], Result]) -> Result | Fault:
    """The result of one request, or its fault: without the library's error, which contains addresses."""
    try:
        return request(deadline.seconds_left())
    except OURS:
        raise
    except Exception as error:
        return fault_of(error)


def retrying(root: TableRoot, path: str, seconds: float, request: Callable[[float], Result]) -> Result:
    """Calls `request(seconds)` until it succeeds. FileNotFoundError and StorageRefused at once, StorageError at the deadline."""
    deadline = Deadline(seconds)
    while True:
        found = attempt(deadline, request)
        if not isinstance(found, Fault):
            return found
        if found.kind is FaultKind.MISSING:
            raise FileNotFoundError(path)
        if not found.is_retryable:
            raise found.error(root, path)
        if not deadline.pause():
            raise found.error(root, path, seconds)
