"""How many files a filter leaves before any split is opened, and which step pruned the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from indextables.actions import Totals
from indextables.predicates import Predicate
from indextables.table.pruning import prune
from indextables.table.snapshot import LoadedSnapshot


@dataclass(frozen=True, slots=True)
class ManifestCounts:
    """Number of manifests of the state that a snapshot was read from, and number of those that were not pruned by their bounds."""

    total: int = 0
    read: int = 0


NO_MANIFESTS = ManifestCounts()  # for a snapshot that was read from version files or from a checkpoint without manifests


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


def explain_all(version: int, totals: Totals, query: str | None = None, manifests: ManifestCounts = NO_MANIFESTS) -> Explain:
    """Without a filter: every file remains."""
    return _explanation(version, None, query, manifests, totals.num_files, totals.num_files, totals)


def explain(snapshot: LoadedSnapshot, predicate: Predicate, query: str | None = None, manifests: ManifestCounts = NO_MANIFESTS) -> Explain:
    """What `predicate` prunes of `snapshot`. `manifests` counts those that were pruned while the snapshot was loaded."""
    found = prune(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns)
    left = snapshot.files.take(np.flatnonzero(found.remaining), ["num_records", "size"])
    in_partitions = int(found.in_partitions.sum())
    return _explanation(snapshot.version, predicate.text, query, manifests, len(snapshot.files), in_partitions, Totals.of(left))


def _explanation(
    version: int, where: str | None, query: str | None, manifests: ManifestCounts, considered: int, in_partitions: int, remaining: Totals
) -> Explain:
    return Explain(
        version=version,
        where=where,
        query=query,
        manifests_total=manifests.total,
        manifests_read=manifests.read,
        manifests_pruned=manifests.total - manifests.read,
        files_considered=considered,
        files_pruned_by_partition=considered - in_partitions,
        files_skipped_by_stats=in_partitions - remaining.num_files,
        files_remaining=remaining.num_files,
        rows_remaining=remaining.num_records,
        bytes_remaining=remaining.size,
    )
