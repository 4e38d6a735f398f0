"""Small tables for tests: rows of a log, a clock that tests control, and helpers that read a table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables as it
from indextables.clock import Clock

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("message", pa.string()),
        ("latency", pa.float64()),
        ("ok", pa.bool_()),
        ("date", pa.date32()),
    ]
)
WORDS = ["connection", "refused", "timeout", "disk", "full", "user", "login", "failed", "retry", "cache"]


def rows(start: int, count: int, days: int = 2) -> list[dict[str, Any]]:
    """Rows with ids from `start`, spread over `days` dates."""
    return [
        {
            "id": i,
            "ts": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=i),
            "level": ("INFO", "WARN", "ERROR")[i % 3],
            "message": f"{WORDS[i % 10]} {WORDS[(i // 3) % 10]} on host{i % 7}",
            "latency": i / 4 if i % 11 else None,
            "ok": i % 2 == 0,
            "date": date(2024, 1, 1 + i % days),
        }
        for i in range(start, start + count)
    ]


def make(path: Path, appends: int = 0, each: int = 10, partition_by: Sequence[str] = ("date",), **options: Any) -> it.Table:
    table = it.create(path, SCHEMA, partition_by=list(partition_by), options=options)
    for number in range(appends):
        table.append(rows(number * each, each))
    return table


def ids(table: it.Table, where: str | None = None) -> list[int]:
    return sorted(table.scan(where, ["id"]).read_all().column("id").to_pylist())


def tree(folder: Path) -> dict[str, bytes]:
    """Path and bytes of every file below a folder. Compare two results to show that nothing changed."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def version_file(table: Path, version: int) -> Path:
    return table / "_transaction_log" / f"{version:020d}.json"


def write_version(table: Path, version: int, *actions: dict[str, Any]) -> None:
    """Writes a version as another program may: plain JSON lines."""
    file = version_file(table, version)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))


@dataclass
class FakeTime:
    """A clock that moves only when a test moves it or the product sleeps."""

    ms: int = 1_700_000_000_000
    slept: list[float] = field(default_factory=list)
    ids: str = "0000"  # part of every generated id
    _ids: itertools.count[int] = field(default_factory=itertools.count)

    def clock(self) -> Clock:
        return Clock(lambda: self.ms, self._sleep, lambda: f"00000000-{self.ids}-4000-8000-{next(self._ids):012d}")

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ms += int(seconds * 1000)

    def pass_days(self, days: float) -> None:
        self.ms += int(days * 86_400_000)
