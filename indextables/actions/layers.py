"""The live files of a table in two layers: the files of a state, whose entries are not loaded, and the changes since.

So applying a version costs as much as its changes, whatever the size of the table, and a log is read without the manifests of its state.
Data only: `indextables.state.checkpoints.avro.file_loader` turns it into `LiveFiles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indextables.actions.live import LiveFiles

_NONE = LiveFiles()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower and upper bound of a partition column in a manifest, as strings of the log; None: not known."""

    low: str | None
    high: str | None
    has_null: bool  # whether a file may have no value
    by_type: bool  # whether low and high are ordered by the column's type; otherwise as strings


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Manifest:
    """A file with entries of a state. Compared by identity: what is loaded from it is cached as long as this object lives."""

    path: str  # relative to the table
    name: str  # as written in the state
    num_entries: int
    bounds: Mapping[str, Bounds]  # by partition column
    digest: str | None  # of its bytes; None where its name does not contain one
    state_version: int
    info: Any = None  # its record in the state, which the next state repeats


@dataclass(frozen=True, eq=False, slots=True)
class ManifestSet:
    """The live files of a state: its manifests, without their entries."""

    version: int
    manifests: tuple[Manifest, ...]
    tombstones: frozenset[str]  # paths of entries that are dead
    num_files: int
    size: int
    num_records: int
    mappings: Mapping[str, str]  # doc mappings by hash, to which entries refer


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class LayeredFiles:
    """Immutable. Compared by identity: files loaded for it are cached as long as this object lives."""

    newer: LiveFiles = _NONE  # the changes since the base, without its files
    base: ManifestSet | None = None
    gone: frozenset[str] = frozenset()  # paths to drop from the base: removed or put again; the base may never have had them

    @property
    def complete(self) -> LiveFiles:
        """All files; only for layers without a base."""
        assert self.base is None, "the files of a state must be loaded first"
        return self.newer


EMPTY = LayeredFiles()
