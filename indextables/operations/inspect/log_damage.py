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
    reason: str
    is_usable: bool  # whether the version has another, readable checkpoint

    @property
    def message(self) -> str:
        other = "; another checkpoint of the same version is used instead" if self.is_usable else ""
        return f"the checkpoint of version {self.version} cannot be used: {self.reason}{other}"


def damaged_checkpoints(log: TransactionLog, listing: LogListing, versions: Iterable[int]) -> Iterator[Damage]:
    """Yields the damage of each version with an unreadable checkpoint or state. `log` must read from the store: a cache hides damage."""
    for version in versions:
        problems, usable = [], 0
        for family in families_of(listing, version):
            try:
                replay, _ = read_checkpoint(log, listing, version, family)
                FileLoader(log).load(replay.files())  # decodes every entry
                usable += 1
                problems += damaged_forms(log.store, version) if family == "avro" else []
            except UnsafePath:
                raise
            except LogCorrupted as error:
                problems.append(str(error))
        if problems:
            yield Damage(version, "; ".join(problems), usable > 0)
