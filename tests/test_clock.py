"""Clocks: times in milliseconds, ISO 8601, and a clock that a test can replace."""

from __future__ import annotations

import time
import uuid

from indextables.clock import SYSTEM_CLOCK, Clock, iso_ms


def test_iso_times_have_milliseconds_and_end_in_z() -> None:
    assert iso_ms(1767323045678) == "2026-01-02T03:04:05.678Z"
    assert iso_ms(0) == "1970-01-01T00:00:00.000Z"


def test_the_system_clock_gives_milliseconds_and_new_ids() -> None:
    assert abs(SYSTEM_CLOCK.now_ms() - time.time() * 1000) < 5_000
    first, second = SYSTEM_CLOCK.new_id(), SYSTEM_CLOCK.new_id()
    assert first != second
    assert str(uuid.UUID(first)) == first


def test_a_clock_can_be_replaced_in_tests() -> None:
    slept: list[float] = []
    clock = Clock(now_ms=lambda: 7, sleep=slept.append, new_id=lambda: "id")
    clock.sleep(0.5)
    assert (clock.now_ms(), clock.new_id(), slept) == (7, "id", [0.5])
