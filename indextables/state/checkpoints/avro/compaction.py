"""Decides when a state is compacted instead of extended, and which manifests are rewritten. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from indextables.state.checkpoints.options import StateOptions


@dataclass(frozen=True, slots=True)
class StateFigures:
    """Figures of a state that is to be written on top of a base state."""

    live: int  # live files of the new state
    tombstones: int  # tombstones of the base
    removed: int  # files of the base that were removed since
    manifests: int  # manifests of the base, plus the one for new files
    readded: bool  # whether a removed path is added again: its tombstone would hide the new entry too
    force: bool = False


def reason(facts: StateFigures, options: StateOptions) -> str | None:
    """Why the state has to be compacted (CMP-01 … CMP-05, C-46, C-47); None: extend it."""
    dead = facts.tombstones + facts.removed
    if facts.force:
        return "compaction was requested"
    if facts.readded:
        return "a removed path was added again"
    if facts.live <= 0:
        return "no file is left"
    if dead / facts.live > options.tombstone_threshold:
        return f"it has {dead} dead entries and {facts.live} live files"
    if facts.removed > options.large_remove_threshold:
        return f"{facts.removed} files were removed"
    if facts.manifests > options.max_manifests:
        return f"it would have {facts.manifests} manifests"
    return None


class Fate(Enum):
    KEEP = "referenced unchanged"
    CLEAN = "rewritten alone, without its dead entries"
    MERGE = "merged with other small manifests"
    DROP = "dropped: all its entries are dead"


def fates(manifests: Sequence[tuple[int, int]], entries_per_manifest: int, new_files: int) -> list[Fate]:
    """What to do with each manifest, given as (entries, dead entries).

    Small manifests are merged to keep their number low. A single small manifest without dead entries is kept.
    """
    small = [entries - dead > 0 and 2 * (entries - dead) < entries_per_manifest for entries, dead in manifests]
    merge = sum(small) > 1 or new_files > 0
    found = []
    for (entries, dead), is_small in zip(manifests, small, strict=True):
        if entries == dead:
            found.append(Fate.DROP)
        elif is_small and merge:
            found.append(Fate.MERGE)
        else:
            found.append(Fate.CLEAN if dead else Fate.KEEP)
    return found
