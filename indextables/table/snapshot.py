"""A table at one version: what its log records and, once loaded, its files. Values only; nothing here accesses storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import MAPPING_PREFIX, Add, LayeredFiles, LiveFiles, Metadata, Protocol, Skip, Txn, restored
from indextables.errors import VersionGap
from indextables.log import Anchor
from indextables.schema import from_spark_json
from indextables.state import Registry

NO_BROKEN_STATES: Mapping[int, str] = {}
_FEW_FILES = 1000  # up to this number of files, a snapshot caches the actions


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Immutable. Its files may be in manifests that have not been read: `TableContext.load` returns a `LoadedSnapshot`."""

    version: int
    protocol: Protocol
    metadata: Metadata
    layers: LayeredFiles
    txns: Mapping[str, Txn]
    checkpoint: int | None  # the newest checkpoint known for it: the base it was read from, or one written since; None: none
    gap_at: int | None  # the first missing version, if later ones exist
    anchor: Anchor  # identifies the log, so that a replaced log is noticed
    warnings: tuple[str, ...] = ()
    skips: Mapping[str, Skip] = field(default_factory=dict)  # by path, of files that are still live
    broken: Mapping[int, str] = field(default_factory=lambda: NO_BROKEN_STATES)  # version of each state that was ignored as damaged -> why

    @cached_property
    def schema(self) -> pa.Schema:
        return from_spark_json(self.metadata.schema_string)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.partition_columns)

    @property
    def options(self) -> dict[str, str]:
        """The table's options: its configuration without the doc mappings that it also holds."""
        return {key: text for key, text in self.metadata.configuration.items() if not key.startswith(MAPPING_PREFIX)}

    def require_no_gap(self) -> None:
        """Raises VersionGap if a version is missing from the log: a writer must not fill the gap."""
        if self.gap_at is not None:
            raise VersionGap(f"version {self.gap_at} is missing from the log although later ones exist; restore it before writing")

    def with_files(self, files: LiveFiles) -> LoadedSnapshot:
        """The snapshot with its files, or with those that a caller needs."""
        return LoadedSnapshot(**{each.name: getattr(self, each.name) for each in fields(Snapshot)}, files=files)


@dataclass(frozen=True, eq=False)
class LoadedSnapshot(Snapshot):
    """`files` has the number, size and paths of the live files; paths are relative to the table."""

    files: LiveFiles = field(kw_only=True)

    def files_table(self) -> pa.Table:
        """Everything that the log records about the live files, as columns (`actions.columns.SCHEMA`), oldest first."""
        return self.files.table()

    def adds(self, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Add]:
        """Rows of `files_table()` as actions, by default all; created lazily, with their doc mappings restored (SDD-03)."""
        return iter(self._few_adds) if rows is None and len(self.files) <= _FEW_FILES else self._made(rows)

    def _made(self, rows: npt.NDArray[np.int64] | None) -> Iterator[Add]:
        adds, mappings = self.files.adds(rows), self._mappings
        return (restored(add, mappings) for add in adds) if mappings else adds

    @cached_property
    def _few_adds(self) -> tuple[Add, ...]:
        """Cached: creating the actions of 50 files takes a quarter of the time of a search over them."""
        return tuple(self._made(None))

    @cached_property
    def _mappings(self) -> Mapping[str, str]:
        return Registry.of(self.metadata).texts
