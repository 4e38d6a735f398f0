"""A table at one version, as values: what the log says of it, and, once they are loaded, its files. No storage is reached from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import Add, LayeredFiles, LiveFiles, Metadata, Protocol, Skip, Txn
from indextables.errors import VersionGap
from indextables.log import Anchor
from indextables.schema import from_spark_json
from indextables.state import Registry

NOTHING: Mapping[int, str] = {}
_FEW_FILES = 1000  # whose actions a snapshot keeps


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Immutable. Its files may lie in manifests that were not read: `TableContext.load` makes a `LoadedSnapshot` of it."""

    version: int
    protocol: Protocol
    metadata: Metadata
    layers: LayeredFiles
    txns: Mapping[str, Txn]
    checkpoint: int | None  # the base it was read from
    gap_at: int | None  # the first missing version, where later ones exist
    anchor: Anchor  # tells this log from another that takes its place
    warnings: tuple[str, ...] = ()
    skips: Mapping[str, Skip] = field(default_factory=dict)  # by path, of files that were not removed since
    broken: Mapping[int, str] = field(default_factory=lambda: NOTHING)  # states that it was read without, and why

    @cached_property
    def schema(self) -> pa.Schema:
        return from_spark_json(self.metadata.schema_string)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.partition_columns)

    def require_no_gap(self) -> None:
        """Writers refuse a log with a hole rather than fill it."""
        if self.gap_at is not None:
            raise VersionGap(f"version {self.gap_at} is missing from the log although later ones exist; restore it before writing")

    def with_files(self, files: LiveFiles) -> LoadedSnapshot:
        """With its files, or those of them that somebody needs."""
        return LoadedSnapshot(**{each.name: getattr(self, each.name) for each in fields(Snapshot)}, files=files)


@dataclass(frozen=True, eq=False)
class LoadedSnapshot(Snapshot):
    """`files` has the number, size and paths of the live files; paths are relative to the table."""

    files: LiveFiles = field(kw_only=True)

    def files_table(self) -> pa.Table:
        """Everything the log says of the live files, in columns (`actions.columns.SCHEMA`), oldest first."""
        return self.files.table()

    def adds(self, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Add]:
        """Those rows of `files_table()` as actions, by default all; each is made when it is asked for, with its doc mapping (SDD-03)."""
        return iter(self._few_adds) if rows is None and len(self.files) <= _FEW_FILES else self._made(rows)

    def _made(self, rows: npt.NDArray[np.int64] | None) -> Iterator[Add]:
        adds = self.files.adds(rows)
        return map(self._registry.restored, adds) if self._registry else adds

    @cached_property
    def _few_adds(self) -> tuple[Add, ...]:
        """Kept: making those of 50 files takes a quarter of the time that a search of them does."""
        return tuple(self._made(None))

    @cached_property
    def _registry(self) -> Registry:
        return Registry.of(self.metadata)
