"""Files of which every row matches a predicate, judged by partition values alone (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from indextables.actions import Add
from indextables.predicates import FALSE, NULL, Predicate, Ranges, has_keys, outcomes
from indextables.table.pruning import partition_ranges
from indextables.table.snapshot import Snapshot


def fully_matching_files(predicate: Predicate | None, adds: Sequence[Add], snapshot: Snapshot) -> frozenset[str]:
    """Paths of the files of which every row matches. Min/max cannot prove that: a row within the bounds may still be null."""
    if predicate is None or not adds:
        return frozenset(add.path for add in adds)

    @cache
    def ranges(name: str) -> Ranges:
        kind = snapshot.schema.field(name).type
        if name not in snapshot.partition_columns or kind != predicate.schema.field(name).type or not has_keys(kind):
            return Ranges(kind)
        return partition_ranges(pa.array([add.partition_values.get(name) for add in adds], pa.string()), kind)

    found = outcomes(predicate.expression, ranges, FALSE | NULL)
    matching = np.broadcast_to(~(found.false | found.null), (len(adds),))
    return frozenset(add.path for add, matches_fully in zip(adds, matching, strict=True) if matches_fully)
