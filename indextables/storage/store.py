"""What the rest of the product may rely on from a store, whatever it is.

Paths are relative to the store's root and already checked (`indextables.paths`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from indextables.paths import TableRoot


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as a listing shows it."""

    path: str
    size: int
    modified_ms: int  # by the store's own clock


class Store(Protocol):
    """Errors other than the stated ones are StorageError."""

    root: TableRoot

    @property
    def key(self) -> str:
        """Equal for stores that show the same files: the service, its address and the root."""

    def list(self, folder: str) -> Iterator[Entry]:
        """Every plain file below `folder`, fresh; symbolic links are neither followed nor shown. Nothing there: empty."""

    def read(self, path: str) -> bytes:
        """All bytes, never half a file; FileNotFoundError if it is not there."""

    def create(self, path: str, data: bytes) -> bool:
        """Atomic create-if-absent: True if this call made the file, False if it was there; durable when it returns."""

    def replace(self, path: str, data: bytes) -> None:
        """Readers see the old bytes or the new ones."""

    def upload(self, source: Path, path: str) -> int:
        """Moves a finished local file to `path`; complete or not there at all, durable when it returns. Gives its modification time."""

    def local_path(self, path: str) -> Path:
        """A local file that holds the bytes of `path`; UnsafePath if it would lie outside of the root."""

    def delete(self, path: str) -> bool:
        """False if it was gone already."""
