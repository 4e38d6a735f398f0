"""The commands, as values: what was asked for, checked as far as that goes without a table."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.config import parse_duration
from indextables.limits import OLDER_THAN


@dataclass(frozen=True, slots=True)
class Where:
    """A predicate as it stands in the command, unchanged, and where it begins there."""

    text: str
    position: int


@dataclass(frozen=True, slots=True)
class MergeSplits:
    path: str
    where: Where | None = None
    target_size: int | None = None
    max_dest_splits: int | None = None
    max_source_splits: int | None = None


@dataclass(frozen=True, slots=True)
class Purge:
    path: str
    older_than_hours: int = parse_duration(OLDER_THAN) // 3_600_000
    log_retention_hours: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions:
    path: str
    where: Where


@dataclass(frozen=True, slots=True)
class Checkpoint:
    path: str
    compact: bool = False


@dataclass(frozen=True, slots=True)
class TruncateHistory:
    path: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class DescribeState:
    path: str


@dataclass(frozen=True, slots=True)
class DescribeLog:
    path: str
    include_all: bool = False


@dataclass(frozen=True, slots=True)
class InvalidateCache:
    path: str | None = None  # None: of every table


Command = MergeSplits | Purge | DropPartitions | Checkpoint | TruncateHistory | Repair | DescribeState | DescribeLog | InvalidateCache
