"""The names of files in the log folder. They are matched in full, never by prefix: killed writers leave temporary files there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from indextables.paths import LOG_FOLDER

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

    @classmethod
    def of(cls, names: Iterable[str]) -> LogListing:
        """From base names."""
        seen = list(names)
        return cls(_numbers(_VERSION, seen), _numbers(_CHECKPOINT, seen), POINTER in seen)

    @property
    def is_empty(self) -> bool:
        """No sign of a table. A pointer alone is one: it tells of a log that was lost."""
        return not self.versions and not self.checkpoints and not self.has_pointer

    def tail(self, base: int) -> tuple[tuple[int, ...], int | None]:
        """The unbroken versions after `base`, and the first missing one if later versions follow it (a gap)."""
        after = [v for v in self.versions if v > base]
        unbroken = tuple(v for index, v in enumerate(after) if v == base + 1 + index)
        return unbroken, (base + 1 + len(unbroken) if len(unbroken) < len(after) else None)


def _numbers(pattern: re.Pattern[str], names: list[str]) -> tuple[int, ...]:
    return tuple(sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name))))
