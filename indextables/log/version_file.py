"""A version file as it was read: its actions, and the bytes they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from indextables.actions import Action, AddBlock, decoded
from indextables.log import files


class VersionFile(Struct, frozen=True):
    version: int
    items: Sequence[Action | AddBlock]  # in their order
    unknown: int
    data: bytes  # as it is stored, or its text

    @property
    def actions(self) -> list[Action]:
        """Each of them, decoded."""
        found: list[Action] = []
        for item in self.items:
            found.extend(decoded([(path, item) for path in item.texts]) if isinstance(item, AddBlock) else (item,))
        return found

    def __len__(self) -> int:
        """How many actions it has that we know."""
        return sum(len(item.texts) if isinstance(item, AddBlock) else 1 for item in self.items)

    @property
    def digest(self) -> bytes:
        """Of its text, however it was packed."""
        return digest_of(files.unpack(self.data, f"version {self.version}"))


def digest_of(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
