"""Whether a process that was killed has ended."""

from __future__ import annotations

import contextlib
import time

import psutil

KILL_SECONDS = 20  # until the system has ended a killed process, on a busy machine


def has_ended(pid: int) -> bool:
    """Whether the process ends within `KILL_SECONDS`; a zombie has ended."""
    deadline = time.monotonic() + KILL_SECONDS
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
    return True
