"""The live files of a table in two layers: the files of a state, whose entries are not loaded, and the changes since.

So applying a version costs as much as its changes, whatever the size of the table, and a log is read without the manifests of its state.
Data only: `indextables.state.checkpoints.avro.file_loader` turns it into `LiveFiles`.
"""

from __future__ import annotations

from dataclasses import dataclass

from indextables.actions.live import LiveFiles
from indextables.actions.manifest_set import ManifestSet

_NONE = LiveFiles()


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
