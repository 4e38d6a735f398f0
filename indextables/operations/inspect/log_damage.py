"""Finds damaged checkpoints and states of a log by reading each of them in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import LogListing, TransactionLog
from indextables.state import FileLoader, damaged_forms, families_of, read_checkpoint


@dataclass(frozen=True, slots=True)
class Damage:
    version: int
    message: str


def damaged_checkpoints(log: TransactionLog, listing: LogListing, versions: Iterable[int]) -> Iterator[Damage]:
    """Yields the damage of each version with an unreadable checkpoint or state. `log` must read from the store: a cache hides damage."""
    for version in versions:
        problems, usable = [], False
        for family in families_of(listing, version):
            try:
                replay, _ = read_checkpoint(log, listing, version, family)
                FileLoader(log).load(replay.files())  # decodes every entry
                usable = True
                problems += damaged_forms(log.store, version) if family == "avro" else []
            except UnsafePath:
                raise
            except LogCorrupted as error:
                problems.append(str(error))
        if problems:
            instead = "; another checkpoint of the same version is used instead" if usable else ""
            yield Damage(version, f"the checkpoint of version {version} cannot be used: {'; '.join(problems)}{instead}")
