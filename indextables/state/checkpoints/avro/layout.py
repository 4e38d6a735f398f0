"""Distributes file entries over manifests by partition, so that the bounds of a manifest rule it out for most predicates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import strings_of, take_rows
from indextables.predicates import order_key
from indextables.state.checkpoints.avro.state_files import PartitionBounds
from indextables.values import decode_value

Kinds = dict[str, pa.DataType]  # partition column -> type


def slices(rows: pa.Table, kinds: Kinds, max_rows: int) -> Iterator[pa.Table]:
    """All rows in pieces of at most `max_rows` rows, each from few partitions; within a piece rows keep the order of the log."""
    if rows.num_rows <= max_rows or not kinds:
        yield from (rows.slice(start, max_rows) for start in range(0, rows.num_rows, max_rows))
        return
    order = np.lexsort([_ranks(rows, name, kind) for name, kind in reversed(kinds.items())])
    for start in range(0, rows.num_rows, max_rows):
        yield take_rows(rows, np.sort(order[start : start + max_rows]))


def _ranks(rows: pa.Table, name: str, kind: pa.DataType) -> npt.NDArray[np.int64]:
    """The rank of each row's value in the order of the column's type; null and values of another type come first."""
    coded = strings_of(rows.column("partition_values"), name).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    keys = [_key(text, kind) for text in texts]
    known = sorted((at for at, key in enumerate(keys) if key is not None), key=lambda at: keys[at])
    ranks = np.zeros(len(texts) + 1, np.int64)
    ranks[known] = np.arange(1, len(known) + 1)
    found: npt.NDArray[np.int64] = ranks[coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
    return found


def _key(text: str, kind: pa.DataType) -> Any:
    """The sort key of a partition value; None if the text is not a value of the type."""
    try:
        text.encode()
        return order_key(decode_value(text, kind))
    except (ValueError, OverflowError):
        return None


def bounds_of(rows: pa.Table, kinds: Kinds) -> dict[str, PartitionBounds]:
    """The lowest and the highest value of each column in the order of its type. A column with an undecodable value has no bounds."""
    found = {}
    for name, kind in kinds.items():
        values = strings_of(rows.column("partition_values"), name)
        keyed = [(_key(text, kind), text) for text in pc.unique(values.drop_null()).to_pylist()]
        if any(key is None for key, _ in keyed):
            continue
        low, high = (min(keyed)[1], max(keyed)[1]) if keyed else (None, None)
        found[name] = PartitionBounds(min=low, max=high, has_null=values.null_count > 0)
    return found
