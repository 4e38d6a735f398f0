"""How many files a filter leaves before any split is opened, and which step pruned the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from indextables.actions import Totals
from indextables.log import TransactionLog
from indextables.predicates import Predicate
from indextables.state import matching_manifests
from indextables.table.loading import by_bounds, load, totals
from indextables.table.pruning import prune
from indextables.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Explain:
    """Pruning steps, in order: manifests by partition bounds, files by partition values, files by min/max."""

    version: int
    where: str | None
    query: str | None  # prunes nothing: every remaining file is opened, because the log has no terms
    manifests_total: int
    manifests_read: int
    manifests_pruned: int
    files_considered: int  # files of the manifests that were read
    files_pruned_by_partition: int
    files_skipped_by_stats: int  # by min/max, or because they have no rows
    files_remaining: int
    rows_remaining: int  # of the files whose number of rows the log records
    bytes_remaining: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(log: TransactionLog, snapshot: Snapshot, predicate: Predicate | None, query: str | None) -> Explain:
    """What `predicate` prunes of a snapshot; without one, every file remains. Loads no more files than a scan would."""
    base = snapshot.layers.base
    manifests = () if base is None else base.manifests
    read = manifests
    if predicate is None:
        remaining = totals(log, snapshot)
        considered = in_partitions = remaining.num_files
    else:
        read = () if base is None else matching_manifests(base, by_bounds(snapshot, predicate))
        files = load(log, snapshot, predicate).files
        found = prune(files, predicate, snapshot.schema, snapshot.partition_columns)
        remaining = Totals.of(files.take(np.flatnonzero(found.remaining), ["num_records", "size"]))
        considered, in_partitions = len(files), int(found.in_partitions.sum())
    return Explain(
        version=snapshot.version,
        where=None if predicate is None else predicate.text,
        query=query,
        manifests_total=len(manifests),
        manifests_read=len(read),
        manifests_pruned=len(manifests) - len(read),
        files_considered=considered,
        files_pruned_by_partition=considered - in_partitions,
        files_skipped_by_stats=in_partitions - remaining.num_files,
        files_remaining=remaining.num_files,
        rows_remaining=remaining.num_records,
        bytes_remaining=remaining.size,
    )
