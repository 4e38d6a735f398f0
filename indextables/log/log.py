"""Reading and writing version files. A version is committed when its file exists, and files are never changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from indextables.actions import Action
from indextables.actions.codec import decode_actions, encode_actions
from indextables.errors import VersionNotFound
from indextables.log import files, names
from indextables.paths import LOG_FOLDER
from indextables.storage import Store


@dataclass(frozen=True, slots=True)
class VersionFile:
    version: int
    actions: list[Action]
    unknown: int


class TransactionLog:
    """The log of one table in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def listing(self) -> names.LogListing:
        """Fresh; a missing folder lists as empty."""
        return names.LogListing.of(entry.path.removeprefix(LOG_FOLDER + "/") for entry in self.store.list(LOG_FOLDER))

    def read(self, version: int) -> VersionFile:
        """One version; VersionNotFound, LogCorrupted."""
        path = names.version_path(version)
        try:
            data = self.store.read(path)
        except FileNotFoundError:
            raise VersionNotFound(f"version {version} of {self.store.root} is not in the log") from None
        return _decoded(version, data)

    def spelled(self, version: int) -> list[dict[str, Any]]:
        """The lines of a version as they stand there, checked like every version that is read."""
        self.read(version)
        text = files.unpack(self.store.read(names.version_path(version)), f"version {version}")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def read_many(self, versions: Sequence[int]) -> list[VersionFile]:
        """In the order given, read in parallel."""
        try:
            contents = self.store.read_many([names.version_path(version) for version in versions])
        except FileNotFoundError:
            return [self.read(version) for version in versions]  # which names the one that is gone
        return [_decoded(version, data) for version, data in zip(versions, contents, strict=True)]

    def read_present(self, versions: Sequence[int]) -> list[VersionFile]:
        """Like read_many, without those that expired since they were listed."""
        with suppress(VersionNotFound):
            return self.read_many(versions)
        found: list[VersionFile] = []
        for version in versions:
            with suppress(VersionNotFound):
                found.append(self.read(version))
        return found

    def withdraw(self, version: int) -> None:
        """Takes back a version that this program just wrote and no reader can see, since a later checkpoint stands for it."""
        self.store.delete(names.version_path(version))

    def write(self, version: int, actions: Sequence[Action], *, compress: bool = True) -> bool:
        """The commit itself: True if this call made the version, False if it was there (and stays as it is)."""
        return self.store.create(names.version_path(version), files.pack(encode_actions(actions), compress=compress))


def _decoded(version: int, data: bytes) -> VersionFile:
    source = f"version {version}"
    decoded = decode_actions(files.unpack(data, source), source)
    return VersionFile(version, decoded.actions, decoded.unknown)
