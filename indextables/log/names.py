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
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9a-fA-F-]{1,36})\.([0-9]{5})\.json")
_STATE = re.compile(r"state-v([0-9]{20})/_manifest\.(?:avro|json)")
_LARGEST = 2**63 - 1  # versions are longs everywhere


def version_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.checkpoint.json"


def state_folder(version: int) -> str:
    return f"state-v{version:020d}"


def is_part_of(name: str, version: int) -> bool:
    """Whether a base name is that of a part of the multi-part checkpoint of `version`."""
    match = _PART.fullmatch(name)
    return match is not None and int(match[1]) == version


def pointer_path() -> str:
    return f"{LOG_FOLDER}/{POINTER}"


@dataclass(frozen=True, slots=True)
class LogListing:
    """What a listing of the log folder shows; foreign names are passed over."""

    versions: tuple[int, ...]  # ascending
    checkpoints: tuple[int, ...]  # ascending; JSON, in one file or with parts
    has_pointer: bool
    states: tuple[int, ...] = ()  # ascending; folders with a state manifest
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # size and time of every file, by its path in the log folder

    @classmethod
    def of_entries(cls, entries: Iterable[Entry]) -> LogListing:
        stamps = {entry.path.removeprefix(LOG_FOLDER + "/"): (entry.size, entry.modified_ms) for entry in entries}
        found = cls.of(stamps)
        return cls(found.versions, found.checkpoints, found.has_pointer, found.states, stamps)

    @classmethod
    def of(cls, names: Iterable[str]) -> LogListing:
        """From paths relative to the log folder."""
        seen = list(names)
        return cls(_numbers(_VERSION, seen), _numbers(_CHECKPOINT, seen), POINTER in seen, _numbers(_STATE, seen))

    @property
    def is_empty(self) -> bool:
        """No sign of a table. A pointer alone is one: it tells of a log that was lost."""
        return not self.versions and not self.bases and not self.has_pointer

    @property
    def bases(self) -> tuple[int, ...]:
        """Versions that a checkpoint or state stands for, ascending."""
        return tuple(sorted({*self.checkpoints, *self.states}))

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Size and time of a file of the log, if it is there."""
        return self.stamps.get(path.removeprefix(LOG_FOLDER + "/"))

    def tail(self, base: int) -> tuple[tuple[int, ...], int | None]:
        """The unbroken versions after `base`, and the first missing one if later versions follow it (a gap)."""
        after = [v for v in self.versions if v > base]
        unbroken = tuple(v for index, v in enumerate(after) if v == base + 1 + index)
        return unbroken, (base + 1 + len(unbroken) if len(unbroken) < len(after) else None)


def _numbers(pattern: re.Pattern[str], names: list[str]) -> tuple[int, ...]:
    numbers = {int(match[1]) for name in names if (match := pattern.fullmatch(name))}
    return tuple(sorted(number for number in numbers if number <= _LARGEST))
