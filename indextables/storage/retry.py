"""Retries requests after temporary faults, with growing pauses, until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from indextables import limits
from indextables.errors import IndexTablesError
from indextables.paths import TableRoot
from indextables.storage.faults import FaultKind, fault_of

Result = TypeVar("Result")
# Never retried: our own errors, and programming mistakes.
OURS = (IndexTablesError, TypeError, AttributeError, NameError, AssertionError)
ATTEMPT_SHARE = 3  # a request gets at most a third of the time, so that another can follow one that hangs


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._pauses = 0

    def attempt(self) -> float:
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


def retrying(root: TableRoot, path: str, seconds: float, request: Callable[[float], Result]) -> Result:
    """Calls `request(seconds)` until it succeeds. FileNotFoundError and StorageRefused at once, StorageError at the deadline."""
    deadline = Deadline(seconds)
    while True:
        fault = None
        try:
            return request(deadline.attempt())
        except OURS:
            raise
        except Exception as error:
            fault = fault_of(error)
        # Raised outside the handler, so that the error does not carry the library's error, which contains addresses.
        if fault.kind is FaultKind.MISSING:
            raise FileNotFoundError(path)
        if not fault.is_retryable:
            raise fault.error(root, path)
        if not deadline.pause():
            raise fault.error(root, path, seconds)
