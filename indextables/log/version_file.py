"""A version file as it was read: its actions and its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from indextables.actions import Action, AddBlock, decoded
from indextables.log import packing


class VersionFile(Struct, frozen=True):
    version: int
    items: Sequence[Action | AddBlock]  # in the order of the file
    unknown: int  # number of lines with an unknown action
    data: bytes  # packed or plain

    @property
    def actions(self) -> list[Action]:
        """All actions, decoded, in the order of the file."""
        found: list[Action] = []
        for item in self.items:
            found.extend(decoded([(path, item) for path in item.texts]) if isinstance(item, AddBlock) else (item,))
        return found

    def __len__(self) -> int:
        """The number of known actions."""
        return sum(len(item.texts) if isinstance(item, AddBlock) else 1 for item in self.items)

    @property
    def digest(self) -> bytes:
        """Digest of the text, independent of how it was packed."""
        return packing.digest(self.data, f"version {self.version}")
