"""Reading and writing version files. A version is committed when its file exists, and files are never changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from indextables.actions import Action
from indextables.actions.codec import decode_actions, encode_actions
from indextables.errors import VersionNotFound
from indextables.log import files, names
from indextables.paths import LOG_FOLDER
from indextables.storage import Store

READ_PARALLELISM = 4


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
        decoded = decode_actions(files.unpack(data, f"version {version}"), f"version {version}")
        return VersionFile(version, decoded.actions, decoded.unknown)

    def spelled(self, version: int) -> list[dict[str, Any]]:
        """The lines of a version as they stand there, checked like every version that is read."""
        self.read(version)
        text = files.unpack(self.store.read(names.version_path(version)), f"version {version}")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def read_many(self, versions: Sequence[int]) -> list[VersionFile]:
        """In the order given, read in parallel."""
        if len(versions) < 2:
            return [self.read(version) for version in versions]
        with ThreadPoolExecutor(READ_PARALLELISM) as pool:
            return list(pool.map(self.read, versions))

    def read_present(self, versions: Sequence[int]) -> list[VersionFile]:
        """Like read_many, without those that expired since they were listed."""

        def read(version: int) -> VersionFile | None:
            with suppress(VersionNotFound):
                return self.read(version)
            return None

        with ThreadPoolExecutor(READ_PARALLELISM) as pool:
            return [file for file in pool.map(read, versions) if file is not None]

    def withdraw(self, version: int) -> None:
        """Takes back a version that this program just wrote and no reader can see, since a later checkpoint stands for it."""
        self.store.delete(names.version_path(version))

    def write(self, version: int, actions: Sequence[Action], *, compress: bool = True) -> bool:
        """The commit itself: True if this call made the version, False if it was there (and stays as it is)."""
        return self.store.create(names.version_path(version), files.pack(encode_actions(actions), compress=compress))
