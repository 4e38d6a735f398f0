"""The merge plan, computed on columns: it groups 140,000 splits in less than a second and creates objects only for planned groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import Add, strings_of
from indextables.config import Config, parse_size
from indextables.operations.verbs import MergeSplits
from indextables.predicates import Predicate, parse_predicate
from indextables.rows import is_upstream
from indextables.table import LoadedSnapshot, Rows, Snapshot, files_in_cooldown, rows_of_partitions

_COLUMNS = ["path", "partition_values", "size", "modification_time", "num_records"]


@dataclass(frozen=True, slots=True)
class MergeOptions:
    target_size: int
    where: Predicate | None = None
    max_dest_splits: int | None = None
    max_source_splits: int = 1000
    skip_threshold: float = 0.45  # fraction of the target size at or above which a split is not merged again
    take_over: bool = False  # every split of another program is a source, even alone and whatever its size

    def are_small(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each size in bytes, whether a split of that size may be merged."""
        return np.asarray(sizes < self.skip_threshold * self.target_size)


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Splits of one partition to merge into one, oldest first."""

    partition_values: Mapping[str, str]
    paths: tuple[str, ...]
    file_rows: tuple[int, ...]  # their rows in the files of the plan's view
    rows: int
    size: int
    oldest: int  # modification time of the oldest source

    def describe(self) -> dict[str, Any]:
        return {"partition": dict(self.partition_values), "sources": list(self.paths), "rows": self.rows, "bytes": self.size}


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """A planned group with the add actions of its sources; picklable, sent to executors."""

    partition_values: Mapping[str, str]
    sources: tuple[Add, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(add.path for add in self.sources)

    @property
    def rows(self) -> int:
        return sum(add.num_records or 0 for add in self.sources)

    @property
    def size(self) -> int:
        return sum(add.size for add in self.sources)


def described(group: PlannedGroup | MergeGroup) -> str:
    """The subject of a sentence about the group."""
    first = f"{group.paths[0]!r}"
    return f"split {first}" if len(group.paths) == 1 else f"{len(group.paths)} splits, the oldest {first},"


def not_merged(group: PlannedGroup | MergeGroup, reason: str) -> str:
    return f"{described(group)} {'is' if len(group.paths) == 1 else 'are'} not merged: {reason}"


@dataclass(frozen=True, slots=True)
class MergePlan:
    view: LoadedSnapshot  # may lack files of partitions that `options.where` excludes
    options: MergeOptions
    groups: tuple[PlannedGroup, ...]  # ordered by number of sources, then by age
    in_cooldown: Mapping[str, int] = field(default_factory=dict)  # splits left out -> the end of their cooldown

    def with_sources(self, groups: Sequence[PlannedGroup]) -> list[MergeGroup]:
        rows = np.sort(np.fromiter((row for group in groups for row in group.file_rows), np.int64))
        adds = dict(zip(rows.tolist(), self.view.adds(rows), strict=True))
        return [MergeGroup(group.partition_values, tuple(adds[row] for row in group.file_rows)) for group in groups]


def merge_options(request: MergeSplits, config: Config, snapshot: Snapshot) -> MergeOptions:
    """The request, completed from the table's options or their defaults. InvalidPredicate if `where` is invalid for the table."""
    config = config.with_table(snapshot.metadata.configuration)
    size, sources, predicate = request.target_size, request.max_source_splits, None
    if request.where is not None:
        allowed = snapshot.partition_columns
        predicate = parse_predicate(request.where, snapshot.schema, allowed=allowed, purpose="merge (partition columns only)")
    return MergeOptions(
        target_size=config.get("merge.targetSize") if size is None else parse_size(size),
        where=predicate,
        max_dest_splits=request.max_dest_splits,
        max_source_splits=config.get("merge.maxSourceSplitsPerMerge") if sources is None else sources,
        skip_threshold=config.get("merge.skipSplitThreshold"),
        take_over=config.get("storage.takeOver"),
    )


def plan_merge(view: LoadedSnapshot, options: MergeOptions, now_ms: int = 0, without: Collection[str] = ()) -> MergePlan:
    """Pure. Packs the splits of each partition, oldest first, into groups up to the target size or the maximum number of sources.

    `view` must contain the files of the partitions that match `options.where`. Groups are ordered by number of sources, then by age;
    `max_dest_splits` limits their number. Splits of at least `skip_threshold` times the target size, splits in cooldown at `now_ms`, and
    the paths in `without` are not merged.
    """
    chosen, upstream = _candidates(view, options)
    files = view.files.take(chosen, _COLUMNS)
    paths: list[str] = files.column("path").to_pylist()
    cooling = files_in_cooldown(view, now_ms)
    kept = np.ones(len(paths), bool)
    if cooling or without:
        kept = np.fromiter((path not in cooling and path not in without for path in paths), bool, len(paths))
    partition = _partitions(files.column("partition_values"))
    order = _oldest_first(files, partition)
    groups = [
        _group(files, paths, chosen, members)
        for members in _packed(order[kept[order]], partition, files.column("size").to_numpy(), options)
        if len(members) > 1 or int(chosen[members[0]]) in upstream
    ]
    groups.sort(key=lambda group: (-len(group.paths), group.oldest, group.paths[0]))
    in_cooldown = {path: cooling[path] for path in paths if path in cooling} if cooling else {}
    return MergePlan(view, options, tuple(groups[: options.max_dest_splits]), in_cooldown)


def _candidates(view: LoadedSnapshot, options: MergeOptions) -> tuple[Rows, frozenset[int]]:
    """Rows of the view's files that may be sources, and those that may form a group alone: splits of another program to take over."""
    rows = rows_of_partitions(view, options.where)
    small = options.are_small(view.files.take(rows, ["size"]).column("size").to_numpy())
    if not options.take_over:
        return rows[small], frozenset()
    upstream = np.fromiter((is_upstream(add) for add in view.adds(rows)), bool, len(rows))
    return rows[small | upstream], frozenset(rows[upstream].tolist())


def _partitions(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number for each row; rows have equal numbers if and only if they have the same partition values."""
    numbers = np.zeros(len(values), np.int64)
    keys = sorted({key for chunk in values.chunks for key in pc.unique(chunk.keys).to_pylist()})
    for key in keys:
        texts = strings_of(values, key).dictionary_encode()
        codes = texts.indices.fill_null(-1).to_numpy() + 1
        numbers = np.unique(numbers * (len(texts.dictionary) + 1) + codes, return_inverse=True)[1]
    return numbers


def _oldest_first(files: pa.Table, partition: npt.NDArray[np.int64]) -> Rows:
    """The order of the rows by partition, then by age."""
    keys = [("partition", "ascending"), ("modification_time", "ascending"), ("path", "ascending")]
    table = files.select(["modification_time", "path"]).append_column("partition", pa.array(partition))
    found: Rows = pc.sort_indices(table, keys).to_numpy().astype(np.int64)
    return found


def _packed(order: Rows, partition: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], options: MergeOptions) -> Iterator[list[int]]:
    members: list[int] = []
    size, last = 0, -1
    for row, number, bytes_ in zip(order.tolist(), partition[order].tolist(), sizes[order].tolist(), strict=True):
        if members and (number != last or size + bytes_ > options.target_size or len(members) >= options.max_source_splits):
            yield members
            members, size = [], 0
        members.append(row)
        size, last = size + bytes_, number
    if members:
        yield members


def _group(files: pa.Table, paths: Sequence[str], chosen: Rows, members: Sequence[int]) -> PlannedGroup:
    first = members[0]
    these = np.asarray(members)
    return PlannedGroup(
        dict(files.column("partition_values")[first].as_py() or ()),
        tuple(paths[row] for row in members),
        tuple(chosen[these].tolist()),
        pc.sum(files.column("num_records").take(pa.array(these))).as_py() or 0,
        pc.sum(files.column("size").take(pa.array(these))).as_py() or 0,
        files.column("modification_time")[first].as_py(),
    )
