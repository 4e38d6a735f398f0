"""The data of the demo: logs like those of a small shop's services. Equal batch numbers give equal logs."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("service", pa.string()),
        ("host", pa.string()),
        ("message", pa.string()),
        ("status", pa.int32()),
        ("latency_ms", pa.float64()),
        ("date", pa.date32()),
    ]
)
START = datetime(2026, 1, 5, tzinfo=UTC)
SERVICES = ("checkout", "catalog", "payments", "search", "auth", "mailer")
# Level, share of all lines in percent, status, median latency, messages.
KINDS = (
    ("INFO", 70, 200, 20, ("GET /items/{n} served from cache", "user {n} logged in", "order {n} placed", "index refreshed, {n} documents")),
    (
        "WARN",
        18,
        429,
        250,
        ("slow query took {n} ms on shard {m}", "retrying request {n}, attempt {m}", "queue length {n} above threshold"),
    ),
    (
        "ERROR",
        10,
        503,
        900,
        ("connection refused by 10.0.{m}.{n}", "connection to payments timed out after {n} ms", "disk full on volume {m}"),
    ),
    ("FATAL", 2, 500, 2000, ("out of memory in worker {m}, request {n} lost", "replication stopped: connection reset by peer {m}")),
)


def batch(number: int, rows: int, days: int) -> pa.Table:
    """The lines of one delivery, spread over the first `days` days."""
    chance = random.Random(number)
    kinds = chance.choices(KINDS, weights=[kind[1] for kind in KINDS], k=rows)
    seconds = sorted(chance.uniform(0, days * 86_400) for _ in range(rows))
    lines = [_line(chance, kind, START + timedelta(seconds=second)) for kind, second in zip(kinds, seconds, strict=True)]
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def _line(chance: random.Random, kind: tuple[str, int, int, int, tuple[str, ...]], moment: datetime) -> dict[str, object]:
    level, _, status, latency, messages = kind
    return {
        "ts": moment,
        "level": level,
        "service": chance.choice(SERVICES),
        "host": f"node-{chance.randrange(12):02d}",
        "message": chance.choice(messages).format(n=chance.randrange(1, 255), m=chance.randrange(1, 9)),
        "status": status,
        "latency_ms": round(chance.lognormvariate(0, 0.6) * latency, 2),
        "date": moment.date(),
    }


def write_batches(folder: Path, batches: int, rows: int, days: int) -> list[Path]:
    """Writes one parquet file per delivery."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"batch-{number}.parquet" for number in range(1, batches + 1)]
    for number, file in enumerate(files, start=1):
        parquet.write_table(batch(number, rows, days), file)
    return files
