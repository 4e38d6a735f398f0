"""Time and the unique ids of the log, passed in so that tests can control them. Jitter and names of files use `random` and `uuid`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

HOUR_MS = 3_600_000
UNKNOWN_MS = 2**62  # stands for an unknown time: later than any other, so that the file is never taken for old


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Clock:
    """The current time in milliseconds since the epoch, sleep, and new unique ids."""

    now_ms: Callable[[], int] = field(default=_now_ms)
    sleep: Callable[[float], None] = field(default=time.sleep)
    new_id: Callable[[], str] = field(default=_new_id)


SYSTEM_CLOCK = Clock()


def iso_ms(epoch_ms: int) -> str:
    """A time as reports write it: `2026-01-02T03:04:05.678Z`."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
