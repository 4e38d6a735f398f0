"""Decides when a state is compacted instead of extended, and which manifests are rewritten. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from indextables.state.checkpoints.contents import CheckpointOptions


@dataclass(frozen=True, slots=True)
class StateFigures:
    """Figures of a state that is to be written on top of a base state."""

    live: int  # live files of the new state
    tombstones: int  # tombstones of the base
    removed: int  # files of the base that were removed since
    manifests: int  # manifests of the base, plus the one for new files
    readded: bool  # whether a removed path is added again: its tombstone would hide the new entry too
    force: bool = False


def compaction_reason(figures: StateFigures, options: CheckpointOptions) -> str | None:
    """Why the state has to be compacted (CMP-01 … CMP-05, C-46, C-47); None: extend it."""
    dead = figures.tombstones + figures.removed
    if figures.force:
        return "compaction was requested"
    if figures.readded:
        return "a removed path was added again"
    if figures.live <= 0:
        return "no file is left"
    if dead / figures.live > options.tombstone_threshold:
        return f"it has {dead} dead entries and {figures.live} live files"
    if figures.removed > options.large_remove_threshold:
        return f"{figures.removed} files were removed"
    if figures.manifests > options.max_manifests:
        return f"it would have {figures.manifests} manifests"
    return None


class ManifestAction(Enum):
    KEEP = "referenced unchanged"
    CLEAN = "rewritten alone, without its dead entries"
    MERGE = "merged with other small manifests"
    DROP = "dropped: all its entries are dead"


def manifest_actions(manifests: Sequence[tuple[int, int]], entries_per_manifest: int, new_files: int) -> list[ManifestAction]:
    """What to do with each manifest, given as (entries, dead entries).

    Small manifests are merged to keep their number low. A single small manifest without dead entries is kept.
    """
    small = [entries - dead > 0 and 2 * (entries - dead) < entries_per_manifest for entries, dead in manifests]
    merge = sum(small) > 1 or new_files > 0
    found = []
    for (entries, dead), is_small in zip(manifests, small, strict=True):
        if entries == dead:
            found.append(ManifestAction.DROP)
        elif is_small and merge:
            found.append(ManifestAction.MERGE)
        else:
            found.append(ManifestAction.CLEAN if dead else ManifestAction.KEEP)
    return found
