"""Splits that an operation could not read: it records a skip in the log, and merges leave the split out until its cooldown is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from indextables.actions import Add, Protocol, Skip
from indextables.clock import HOUR_MS
from indextables.logs import logger
from indextables.table.history import format_time
from indextables.table.protocol import LEGACY, upgraded
from indextables.table.snapshot import Snapshot

SKIPS_PROTOCOL = 2  # the protocol version that introduced skips (SKP-09)


def new_skip(base: Snapshot, add: Add, reason: str, operation: str, now_ms: int, cooldown_hours: float) -> Skip:
    """A skip of a live split; its count continues that of earlier skips."""
    known = base.skips.get(add.path)
    return Skip(
        path=add.path,
        skip_timestamp=now_ms,
        reason=reason,
        operation=operation,
        partition_values=add.partition_values,
        size=add.size,
        retry_after=now_ms + int(cooldown_hours * HOUR_MS),
        skip_count=1 + (known.count if known else 0),
    )


def protocol_for_skips(base: Snapshot) -> list[Protocol]:
    """The protocol upgrade that the first skip of an old table requires; empty if the protocol supports skips already."""
    if base.protocol is LEGACY:
        return []  # the first commit adds CURRENT, which supports skips
    new = upgraded(base.protocol, SKIPS_PROTOCOL, SKIPS_PROTOCOL)
    return [] if new is base.protocol else [new]


def log_new_skips(skips: Iterable[Skip]) -> None:
    for skip in skips:
        retry_after = "now" if skip.retry_after is None else format_time(skip.retry_after)
        logger.info("Recorded skipped file: %s (skip count: %s, retry after: %s)", skip.path, skip.count, retry_after)


def files_in_cooldown(snapshot: Snapshot, now_ms: int) -> dict[str, int]:
    """Path -> time (ms since the epoch) from which the file may be retried."""
    return {path: skip.retry_after for path, skip in snapshot.skips.items() if skip.is_cooling(now_ms) and skip.retry_after is not None}


def log_left_out(cooling: Mapping[str, int]) -> None:
    """Logs the files that an operation leaves out; path -> end of its cooldown."""
    for path, until in cooling.items():
        logger.debug("File in cooldown until %s: %s", format_time(until), path)
    if cooling:
        logger.info("Filtered out %s files currently in cooldown period", len(cooling))
