"""Checks before a merge whether there is enough free disk and memory for it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from indextables import limits
from indextables.operations.merge.plan import PlannedGroup
from indextables.storage import StoreSpec, cache_folder


@dataclass(frozen=True, slots=True)
class Disk:
    """One file system, with the bytes that a merge needs on it per byte of its sources."""

    folder: str
    free: int
    while_merging: float
    afterwards: float  # for the merged split; its sources remain until a purge

    def needed(self, sizes: Iterable[int], kept: int = 0) -> int:
        """Bytes that concurrent merges of these sizes need, in addition to results of earlier merges of `kept` bytes."""
        return int((self.while_merging + self.afterwards) * sum(sizes) + self.afterwards * kept)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Free disk and memory. For merges on other machines, only the disk of a table in a shared folder is known."""

    disks: tuple[Disk, ...]
    memory: int | None  # bytes; None: unknown

    @classmethod
    def of(cls, store: StoreSpec, *, runs_locally: bool) -> Capacity:
        uses: list[tuple[Path, float, float]] = []
        if runs_locally:
            uses.append((Path(tempfile.gettempdir()), limits.MERGE_DISK_RATIO, 0))
        if store.root.is_local:
            uses.append((Path(store.root.path), 0, 1))
        elif runs_locally:
            uses.append((cache_folder(), 1, 0))  # for fetched sources; the cache limits its own size
        return cls(_disks(uses), free_memory() if runs_locally else None)

    def shortage(self, sizes: Sequence[int], kept: int = 0) -> str | None:
        """Why merges of these sizes cannot run at the same time, after earlier merges with results of `kept` bytes; None if they can."""
        for disk in self.disks:
            needed = disk.needed(sizes, kept)
            if needed > disk.free:
                return f"the merge needs {needed} bytes of disk in {disk.folder}, but only {disk.free} are free"
        memory = int(limits.MERGE_MEMORY_FLOOR * len(sizes) + limits.MERGE_MEMORY_RATIO * sum(sizes))
        if self.memory is not None and memory > self.memory:
            return f"the merge needs {memory} bytes of memory, but only {self.memory} are free"
        return None


def split_by_capacity(groups: Sequence[PlannedGroup], capacity: Capacity) -> tuple[list[PlannedGroup], list[tuple[PlannedGroup, str]]]:
    """Pure. The groups that fit when merged one after the other, and those that do not fit with the reason."""
    fit, rejected = [], []
    kept = 0
    for group in groups:
        reason = capacity.shortage([group.size], kept)
        if reason is None:
            fit.append(group)
            kept += group.size
        else:
            rejected.append((group, reason))
    return fit, rejected


def next_batch(groups: Sequence[PlannedGroup], size: int, workers: int, capacity: Capacity) -> int:
    """Pure. The number of groups, from the first on, that form the next batch; at least one.

    A batch has `size` groups if `size` is not 0; otherwise it ends when it has a group for every worker and a GiB of sources. In either
    case its largest groups, one per worker, must fit into the capacity at the same time.
    """
    sizes: list[int] = []
    for group in groups:
        if sizes and capacity.shortage(sorted([*sizes, group.size])[-workers:]) is not None:
            break
        sizes.append(group.size)
        is_large = not size and len(sizes) >= workers and sum(sizes) >= limits.MERGE_BATCH_BYTES
        if is_large or len(sizes) == (size or limits.MERGE_BATCH_GROUPS):
            break
    return len(sizes)


def free_disk(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def free_memory() -> int | None:
    """Bytes that this process may still allocate, limited by the machine and its control group. None if neither is known."""
    found = [*_available("/proc/meminfo"), *_of_group()]
    return min(found, default=None)


def _available(file: str) -> list[int]:
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", Path(file).read_text(), re.MULTILINE)
    except OSError:
        return []
    return [int(match[1]) * 1024] if match else []


def _of_group(group: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """Free memory of the container's control group. Its page cache counts as free, since it can be reclaimed."""
    try:
        most, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        files = sum(int(n) for n in re.findall(r"^(?:in)?active_file (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE))
    except (OSError, ValueError):
        return []
    return [] if most == "max" else [max(0, int(most) - used + files)]


def _disks(uses: Iterable[tuple[Path, float, float]]) -> tuple[Disk, ...]:
    """The uses combined by file system, since folders on one file system share its free space."""
    found: dict[int, Disk] = {}
    for folder, while_merging, afterwards in uses:
        existing = next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))
        device = os.stat(existing).st_dev
        known = found.get(device)
        if known is None:
            found[device] = Disk(str(folder), free_disk(existing), while_merging, afterwards)
        else:
            both = f"{known.folder} and {folder}"
            found[device] = Disk(both, known.free, known.while_merging + while_merging, known.afterwards + afterwards)
    return tuple(found.values())
