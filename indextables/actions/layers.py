"""The live files of a table as the log tells them: those of a state, whose entries are not loaded, and what changed since.

A version that follows another costs what it says and not what the table holds, and a log is read without the manifests of its state.
Data only. `indextables.state.checkpoints.avro.file_loader` makes `LiveFiles` of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from indextables.actions.live import LiveFiles
from indextables.actions.manifest_set import ManifestSet

_NONE = LiveFiles()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class LayeredFiles:
    """Immutable. Compared by identity: what is loaded for it lives as long as this object."""

    newer: LiveFiles = _NONE  # without the files of the base
    base: ManifestSet | None = None
    gone: frozenset[str] = frozenset()  # paths that are no longer those of the base, if it ever had them

    @property
    def complete(self) -> LiveFiles:
        """All files, of layers without a base."""
        assert self.base is None, "files that lie in a state have to be loaded first"
        return self.newer


EMPTY = LayeredFiles()
