"""Writes the same history as a log of ours and as a Delta log, without checkpoints: realistic adds with the same files and statistics."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from indextables.actions import Add, CommitInfo, Metadata
from indextables.actions.codec import encode_actions
from indextables.log import names, packing
from indextables.table.protocol import CURRENT

COLUMNS = ["date", "host", "a", "b", "c", "d", "e"]
PARTITIONS = COLUMNS[:2]
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in COLUMNS]})


def statistics_of(number: int) -> dict[str, Any]:
    """Two partition values and the bounds of five columns."""
    return {
        "partition": {"date": f"2024-01-{number % 28 + 1:02d}", "host": f"h{number % 50}"},
        "low": dict.fromkeys(COLUMNS[2:], f"{number:08d}"),
        "high": dict.fromkeys(COLUMNS[2:], f"{number + 5:08d}"),
    }


def our_add(number: int) -> Add:
    values = statistics_of(number)
    folder = "/".join(f"{name}={value}" for name, value in values["partition"].items())
    return Add(
        path=f"{folder}/splits/split-{uuid.uuid4()}.split",
        partition_values=values["partition"],
        size=123_456 + number,
        modification_time=1_700_000_000_000 + number,
        data_change=True,
        min_values=values["low"],
        max_values=values["high"],
        num_records=1000,
        footer_start_offset=100_000 + number,
        footer_end_offset=123_456 + number,
        has_footer_offsets=True,
        num_merge_ops=0,
    )


def delta_add(number: int) -> dict[str, Any]:
    values = statistics_of(number)
    folder = "/".join(f"{name}={value}" for name, value in values["partition"].items())
    stats = {"numRecords": 1000, "minValues": values["low"], "maxValues": values["high"], "nullCount": dict.fromkeys(COLUMNS[2:], 0)}
    return {
        "path": f"{folder}/part-{uuid.uuid4()}.parquet",
        "partitionValues": values["partition"],
        "size": 123_456 + number,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": True,
        "stats": msgspec.json.encode(stats).decode(),
    }


def write_ours(table: Path, versions: int, adds: int, *, compress: bool = True) -> Path:
    """Write `versions` commits of `adds` adds each, compressed with gzip (the default) or uncompressed like Delta's."""
    (table / "_transaction_log").mkdir(parents=True)
    metadata = Metadata(id=str(uuid.uuid4()), schema_string=SCHEMA, partition_columns=PARTITIONS)
    for version in range(versions + 1):
        info = CommitInfo(id=str(uuid.uuid4()), timestamp=1_700_000_000_000, operation="append")
        actions = [info, *map(our_add, _numbers(version, adds))] if version else [CURRENT, metadata]
        (table / names.version_path(version)).write_bytes(packing.pack(encode_actions(actions), compress=compress))
    return table


def write_delta(table: Path, versions: int, adds: int) -> Path:
    """Write the same history as a Delta log, which is always uncompressed."""
    (table / "_delta_log").mkdir(parents=True)
    form = {"provider": "parquet", "options": {}}
    metadata = {"id": str(uuid.uuid4()), "format": form, "schemaString": SCHEMA, "partitionColumns": PARTITIONS, "configuration": {}}
    first: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "createdTime": 1}},
    ]
    for version in range(versions + 1):
        info: dict[str, Any] = {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}
        lines = [info, *({"add": delta_add(number)} for number in _numbers(version, adds))] if version else first
        (table / "_delta_log" / f"{version:020d}.json").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return table


def _numbers(version: int, adds: int) -> Iterator[int]:
    return iter(range((version - 1) * adds, version * adds))
