"""Live files from untrusted columns, checked column by column, so that no Python object is created per file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from indextables.actions import STRINGS, Add, LayeredFiles, LiveFiles, Metadata, Normalise, Part, Protocol, Replay, Segment, Totals, columns
from indextables.errors import LogCorrupted
from indextables.paths import NULL_PARTITION, are_plain

_REQUIRED = ("path", "partition_values", "size", "modification_time", "data_change")
_BOUNDS = {"size": (0, 2**63 - 1), "num_records": (0, 2**63 - 1), "num_merge_ops": (-(2**31), 2**31 - 1)}
_BATCH_ADDS = 4_096  # adds whose paths are checked at once
_MAPS = tuple(field.name for field in columns.SCHEMA if field.type == STRINGS)


def live_files(rows: pa.Table) -> LiveFiles:
    """Live files from valid rows of `columns.SCHEMA`: every path is unique and relative to the table."""
    if not rows.num_rows:
        return LiveFiles()
    totals = Totals.of(rows)
    return LiveFiles((Part(Segment(rows)),), num_records=totals.num_records, size=totals.size)


def replay_of_rows(rows: pa.Table, normalise: Normalise, protocol: Protocol | None, metadata: Metadata, source: str) -> Replay:
    """A replay of untrusted rows of `columns.SCHEMA`; map keys with a null value are dropped.

    LogCorrupted if a row is not a valid add, UnsafePath if a path leaves the table.
    """
    _check(rows, source)
    paths = rows.column("path").to_pylist()
    if are_plain(paths) and not _has_unusual_maps(rows):
        if len(set(paths)) < len(paths):
            raise LogCorrupted(f"{source} contains a path twice")
        return Replay(normalise, protocol=protocol, metadata=metadata, files=LayeredFiles(live_files(rows)))
    replay = Replay(normalise, protocol=protocol, metadata=metadata)
    adds = _adds(rows)
    while batch := list(islice(adds, _BATCH_ADDS)):
        replay.put_all(batch)
    if replay.num_files < len(paths):
        raise LogCorrupted(f"{source} contains a path twice")
    return replay


def _adds(rows: pa.Table) -> Iterator[Add]:
    """The files of the rows. Map keys with a null value are dropped."""
    for add in columns.decode(rows):
        maps = {name: getattr(add, name) for name in _MAPS}
        unusual = {name: found for name, found in maps.items() if found is not None and None in found.values()}
        cleaned = {name: {key: value for key, value in found.items() if value is not None} for name, found in unusual.items()}
        yield structs.replace(add, **cleaned) if cleaned else add


def _check(rows: pa.Table, source: str) -> None:
    try:
        rows.validate(full=True)  # UTF-8, and offsets within their arrays
    except pa.ArrowException as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error
    for name in _REQUIRED:
        if rows.column(name).null_count:
            raise LogCorrupted(f"{source} has a file without {name}")
    check_bounds(rows, source)


def check_bounds(rows: pa.Table, source: str) -> None:
    """LogCorrupted if a number is out of the bounds of its type."""
    for name, (low, high) in _BOUNDS.items():
        found = pc.min_max(rows.column(name)).as_py()
        if found["min"] is not None and not low <= found["min"] <= found["max"] <= high:
            raise LogCorrupted(f"{source} has a file whose {name} is not between {low} and {high}")


def _has_unusual_maps(rows: pa.Table) -> bool:
    """Whether a map has null values, or a partition value is the word that other writers use for null."""
    if any(chunk.items.null_count for name in _MAPS for chunk in rows.column(name).chunks):
        return True
    return has_null_word(rows)


def has_null_word(rows: pa.Table) -> bool:
    """Whether a partition value is the word that other writers use for null."""
    return any(pc.any(pc.equal(chunk.items, NULL_PARTITION)).as_py() for chunk in rows.column("partition_values").chunks)
