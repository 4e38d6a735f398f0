"""The names of files in the log folder. They are matched in full, never by prefix: killed writers leave temporary files there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from indextables.paths import LOG_FOLDER
from indextables.storage import Entry

POINTER = "_last_checkpoint"
_VERSION = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.json")


def version_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.checkpoint.json"


def pointer_path() -> str:
    return f"{LOG_FOLDER}/{POINTER}"


@dataclass(frozen=True, slots=True)
class LogListing:
    """What a listing of the log folder shows; foreign names are passed over."""

    versions: tuple[int, ...]  # ascending
    checkpoints: tuple[int, ...]  # ascending
    has_pointer: bool
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # size and time of every file, by base name

    @classmethod
    def of_entries(cls, entries: Iterable[Entry]) -> LogListing:
        stamps = {entry.path.removeprefix(LOG_FOLDER + "/"): (entry.size, entry.modified_ms) for entry in entries}
        found = cls.of(stamps)
        return cls(found.versions, found.checkpoints, found.has_pointer, stamps)

    @classmethod
    def of(cls, names: Iterable[str]) -> LogListing:
        """From base names."""
        seen = list(names)
        return cls(_numbers(_VERSION, seen), _numbers(_CHECKPOINT, seen), POINTER in seen)

    @property
    def is_empty(self) -> bool:
        """No sign of a table. A pointer alone is one: it tells of a log that was lost."""
        return not self.versions and not self.checkpoints and not self.has_pointer

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Size and time of a file of the log, if it is there."""
        return self.stamps.get(path.removeprefix(LOG_FOLDER + "/"))

    def tail(self, base: int) -> tuple[tuple[int, ...], int | None]:
        """The unbroken versions after `base`, and the first missing one if later versions follow it (a gap)."""
        after = [v for v in self.versions if v > base]
        unbroken = tuple(v for index, v in enumerate(after) if v == base + 1 + index)
        return unbroken, (base + 1 + len(unbroken) if len(unbroken) < len(after) else None)


def _numbers(pattern: re.Pattern[str], names: list[str]) -> tuple[int, ...]:
    return tuple(sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name))))
