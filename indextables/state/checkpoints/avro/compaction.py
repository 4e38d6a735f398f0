"""When a state is compacted instead of continued, and which of its manifests that touches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from indextables.state.checkpoints.options import StateOptions


@dataclass(frozen=True, slots=True)
class StateFigures:
    """A state that is about to be written on top of another."""

    live: int  # files, after it
    tombstones: int  # of the base
    removed: int  # of the base's files, since
    manifests: int  # of the base, and the one for what is new
    readded: bool  # whether a path that the base has or had is added again: one tombstone would hide both
    force: bool = False


def reason(facts: StateFigures, options: StateOptions) -> str | None:
    """Why to compact (CMP-01 … CMP-05, C-46, C-47); None: do not."""
    dead = facts.tombstones + facts.removed
    if facts.force:
        return "it was asked for"
    if facts.readded:
        return "a removed path was added again"
    if facts.live <= 0:
        return "no file is left"
    if dead / facts.live > options.tombstone_threshold:
        return f"{dead} of its entries are dead beside {facts.live} live files"
    if facts.removed > options.large_remove_threshold:
        return f"{facts.removed} files were removed"
    if facts.manifests > options.max_manifests:
        return f"it would have {facts.manifests} manifests"
    return None


class Fate(Enum):
    KEEP = "referenced as it is"
    CLEAN = "rewritten without its dead entries, alone"
    MERGE = "rewritten together with others"
    DROP = "left out: nothing in it lives"


def fates(manifests: Sequence[tuple[int, int]], entries_per_manifest: int, new_files: int) -> list[Fate]:
    """What becomes of each manifest, given its entries and how many of them are dead.

    Small ones are merged, so that their number stays low; a single small one that is whole is left alone.
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
