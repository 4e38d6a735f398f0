"""One loop for every request: tried again while the fault may pass, with growing pauses, until the deadline."""

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
# Not the store's doing: an error that was told already, or a mistake in a program.
OURS = (IndexTablesError, TypeError, AttributeError, NameError, AssertionError)
ATTEMPT_SHARE = 3  # a request that hangs has a third of the time, so that another may follow


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._pauses = 0

    def attempt(self) -> float:
        """Seconds that the next request may take."""
        return max(0.01, min(self.seconds / ATTEMPT_SHARE, self._end - time.monotonic()))

    def pause(self) -> bool:
        """Waits before the next attempt (exponential, capped, full jitter); False, without waiting, if there is no time for one."""
        ceiling = min(limits.RETRY_MOST_SECONDS, limits.RETRY_FIRST_SECONDS * 2**self._pauses)
        wait = random.uniform(0, ceiling)
        self._pauses += 1
        if time.monotonic() + wait >= self._end:
            return False
        time.sleep(wait)
        return True


def retrying(root: TableRoot, path: str, seconds: float, request: Callable[[float], Result]) -> Result:
    """`request` gets the seconds it may take. FileNotFoundError, StorageRefused at once, StorageError at the deadline."""
    deadline = Deadline(seconds)
    while True:
        fault = None
        try:
            return request(deadline.attempt())
        except OURS:
            raise
        except Exception as error:
            fault = fault_of(error)
        # Outside of the handler: what we raise must not carry the library's error, which names addresses.
        if fault.kind is FaultKind.MISSING:
            raise FileNotFoundError(path)
        if not fault.is_passing:
            raise _as_refused(fault).error(root, path)
        if not deadline.pause():
            raise fault.error(root, path, seconds)


def _as_refused(fault: Fault) -> Fault:
    return Fault(FaultKind.REFUSED, fault.sentence)
