"""The live files of a table at one version, all of them in memory, as columns that versions share and the few newest as they are.

A file that is removed stays in its segment as a dead row. The newest files are kept as they are until there are enough for a segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from msgspec import structs

from indextables.actions import columns
from indextables.actions.add_patterns import Source
from indextables.actions.model import Add
from indextables.actions.segments import ADD_BYTES, Part, Rows, Segment, add_of


@dataclass(frozen=True, slots=True)
class Totals:
    """Of live files."""

    num_files: int
    size: int
    num_records: int  # where they are known

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.num_files + other.num_files, self.size + other.size, self.num_records + other.num_records)

    def __sub__(self, other: Totals) -> Totals:
        return Totals(self.num_files - other.num_files, self.size - other.size, self.num_records - other.num_records)


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """Immutable. Paths are relative to the table and each appears once; in the order of the log, oldest first, except those of a state,
    which come first in the order of its manifests."""

    parts: tuple[Part, ...] = ()
    recent: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))
    num_records: int = 0  # where they are known
    size: int = 0
    mappings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # doc mappings by their hash, for refs of adds

    def __len__(self) -> int:
        return sum(map(len, self.parts)) + len(self.recent)

    @property
    def totals(self) -> Totals:
        return Totals(len(self), self.size, self.num_records)

    @cached_property
    def all_parts(self) -> tuple[Part, ...]:
        """Those of segments, and the newest files as one more; their rows are those of `table()`."""
        return (*self.parts, Part(Segment(list(self.recent.items())))) if self.recent else self.parts

    def __contains__(self, path: object) -> bool:
        return path in self.recent or (isinstance(path, str) and any(part.find(path) is not None for part in self.parts))

    def get(self, path: str) -> Add | None:
        if path in self.recent:
            return self._restored(add_of(path, self.recent[path]))
        for part in self.parts:
            row = part.find(path)
            if row is not None:
                return self._restored(part.segment.add(row))
        return None

    def paths(self) -> list[str]:
        found: list[str] = self.table().column("path").to_pylist()
        return found

    @cached_property
    def _table(self) -> pa.Table:
        return pa.concat_tables([columns.SCHEMA.empty_table(), *(part.table() for part in self.all_parts)])

    def table(self) -> pa.Table:
        """Everything adds hold, in columns (`columns.SCHEMA`)."""
        return self._table

    def take(self, rows: Rows, names: Sequence[str] = columns.SCHEMA.names) -> pa.Table:
        """These columns of these rows of `table()`, which ascend, without making all of it."""
        if len(rows) == len(self):
            return self.table().select(names)
        start, taken = 0, [columns.SCHEMA.empty_table().select(names)]
        for part in self.all_parts:
            here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(part))]
            taken.append(part.take(here - start, names))
            start += len(part)
        return pa.concat_tables(taken)

    def adds(self, rows: Rows | None = None) -> Iterator[Add]:
        """The adds of these rows of `table()`, which ascend, by default of all; each is made when it is asked for."""
        if rows is None and not self.parts:
            found: Iterator[Add] = starmap(add_of, self.recent.items())
        else:
            found = columns.decode(self.table() if rows is None else self.take(rows))
        return map(self._restored, found) if self.mappings else found

    def _restored(self, add: Add) -> Add:
        return restored(add, self.mappings)

    @property
    def nbytes(self) -> int:
        """Roughly what these files take in memory, shared with other versions or not."""
        return sum(part.segment.nbytes for part in self.parts) + ADD_BYTES * len(self.recent)

    def __getstate__(self) -> dict[str, object]:
        """Without what was made from the fields, and without proxies, which do not travel."""
        counted = {"num_records": self.num_records, "size": self.size}
        return {"parts": self.all_parts, "recent": {}, **counted, "mappings": dict(self.mappings)}


def restored(add: Add, mappings: Mapping[str, str]) -> Add:
    """The add with its doc mapping spelt out, where it refers to one that is known."""
    if add.doc_mapping_ref is None or add.doc_mapping_json is not None or add.doc_mapping_ref not in mappings:
        return add
    return structs.replace(add, doc_mapping_json=mappings[add.doc_mapping_ref])
