"""Live files that lie in the manifests of a state: what the state says of them, without their entries.

Data only. The entries are loaded by `indextables.state.checkpoints.avro.file_loader`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the values of a partition column in a manifest, in the log's spelling; None: not known."""

    low: str | None
    high: str | None
    has_null: bool  # whether a file may have no value
    by_type: bool  # whether low and high are those in the order of the column's type; others compare texts


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Manifest:
    """A file with entries of a state. Compared by identity: what is loaded of a manifest lives as long as this object."""

    path: str  # relative to the table
    name: str  # as the state says it
    num_entries: int
    bounds: Mapping[str, Bounds]  # by partition column
    digest: str | None  # of its bytes, where its name says it
    state_version: int
    info: Any = None  # its description in the state, for whoever writes the next state


@dataclass(frozen=True, eq=False, slots=True)
class ManifestSet:
    """The live files of a state."""

    version: int
    manifests: tuple[Manifest, ...]
    tombstones: frozenset[str]  # paths of entries that are dead
    num_files: int
    size: int
    num_records: int
    mappings: Mapping[str, str]  # doc mappings by their hash, which entries refer to
