"""The live files of a table at one version, all in memory: segments of Arrow columns that versions share, and the newest files as adds.

A removed file stays in its segment as a dead row. The newest files become a segment when there are enough of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from indextables.actions import columns
from indextables.actions.add_patterns import Source
from indextables.actions.model import Add
from indextables.actions.segments import ADD_BYTES, Part, Rows, Segment, add_of


@dataclass(frozen=True, slots=True)
class Totals:
    """Number, bytes and rows of live files."""

    num_files: int
    size: int
    num_records: int  # sum over the files that state it

    @classmethod
    def of(cls, rows: pa.Table) -> Totals:
        """Of rows with the columns `size` and `num_records`."""
        size, num_records = (pc.sum(rows.column(name)).as_py() or 0 for name in ("size", "num_records"))
        return cls(rows.num_rows, size, num_records)

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.num_files + other.num_files, self.size + other.size, self.num_records + other.num_records)

    def __sub__(self, other: Totals) -> Totals:
        return Totals(self.num_files - other.num_files, self.size - other.size, self.num_records - other.num_records)


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """Immutable. Each path is relative to the table and occurs once. The files of a state come first, in the order of its manifests, then
    all others in the order of the log."""

    parts: tuple[Part, ...] = ()
    recent: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))
    num_records: int = 0  # sum over the files that state it
    size: int = 0
    mappings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # doc mappings by hash, to which adds refer

    def __len__(self) -> int:
        return sum(map(len, self.parts)) + len(self.recent)

    @property
    def totals(self) -> Totals:
        return Totals(len(self), self.size, self.num_records)

    @cached_property
    def all_parts(self) -> tuple[Part, ...]:
        """The parts with the newest files as one more part; their rows in order are the rows of `table()`."""
        return (*self.parts, Part(Segment(list(self.recent.items())))) if self.recent else self.parts

    def __contains__(self, path: object) -> bool:
        return path in self.recent or (isinstance(path, str) and any(part.find(path) is not None for part in self.parts))

    def get(self, path: str) -> Add | None:
        if path in self.recent:
            return restored(add_of(path, self.recent[path]), self.mappings)
        for part in self.parts:
            row = part.find(path)
            if row is not None:
                return restored(part.segment.add(row), self.mappings)
        return None

    def paths(self) -> list[str]:
        found: list[str] = self.table().column("path").to_pylist()
        return found

    @cached_property
    def _table(self) -> pa.Table:
        return pa.concat_tables([columns.SCHEMA.empty_table(), *(part.table() for part in self.all_parts)])

    def table(self) -> pa.Table:
        """All fields of all adds as columns (`columns.SCHEMA`)."""
        return self._table

    def take(self, rows: Rows, names: Sequence[str] = columns.SCHEMA.names) -> pa.Table:
        """Columns of some rows of `table()`, given in ascending order, without building the whole table."""
        if len(rows) == len(self):
            return self.table().select(names)
        start, taken = 0, [columns.SCHEMA.empty_table().select(names)]
        for part in self.all_parts:
            here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(part))]
            taken.append(part.take(here - start, names))
            start += len(part)
        return pa.concat_tables(taken)

    def adds(self, rows: Rows | None = None) -> Iterator[Add]:
        """Yields the adds of some rows of `table()`, given in ascending order, by default of all; each is decoded on demand."""
        if rows is None and not self.parts:
            found: Iterator[Add] = starmap(add_of, self.recent.items())
        else:
            found = columns.decode(self.table() if rows is None else self.take(rows))
        return (restored(add, self.mappings) for add in found) if self.mappings else found

    @property
    def nbytes(self) -> int:
        """Approximate memory of these files, including what other versions share."""
        return sum(part.segment.nbytes for part in self.parts) + ADD_BYTES * len(self.recent)

    def __getstate__(self) -> dict[str, object]:
        """Leaves out cached values, and mapping proxies, which cannot be pickled."""
        counted = {"num_records": self.num_records, "size": self.size}
        return {"parts": self.all_parts, "recent": {}, **counted, "mappings": dict(self.mappings)}


def restored(add: Add, mappings: Mapping[str, str]) -> Add:
    """The add with its doc mapping in full, where it refers to one of `mappings`."""
    if add.doc_mapping_ref is None or add.doc_mapping_json is not None or add.doc_mapping_ref not in mappings:
        return add
    return structs.replace(add, doc_mapping_json=mappings[add.doc_mapping_ref])
