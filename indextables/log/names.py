"""The names of files in the log folder, matched in full and never by prefix: killed writers leave temporary files there."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from indextables.paths import LOG_FOLDER

POINTER = "_last_checkpoint"
PARQUET_FOLDER = "_checkpoints"
VERSION = re.compile(r"([0-9]{20})\.json")
STATE = re.compile(r"state-v([0-9]{20})/_manifest\.(?:avro|json)")
MANIFEST = re.compile(r"(?:manifests|state-v[0-9]{20})/manifest-[0-9A-Za-z-]{1,64}\.avro")
# A file of a checkpoint: folder, version, ending. `<version>.checkpoint.json` is the head, without which the others are unusable.
CHECKPOINT_FILE = re.compile(
    r"(_checkpoints/)?([0-9]{20})\.checkpoint(\.json|\.[0-9a-fA-F-]{1,36}\.[0-9]{5}\.json|(?:\.[0-9]{5})?\.parquet)"
)
HEAD = ".json"
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.json")
_PARQUET = re.compile(r"_checkpoints/([0-9]{20})\.checkpoint\.json")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9a-fA-F-]{1,36})\.([0-9]{5})\.json")
_ANY_CHECKPOINT_FILE = re.compile(r"(?:_checkpoints/)?([0-9]{20})\.checkpoint\..+")
_LARGEST = 2**63 - 1  # versions are Java longs


def version_name(version: int) -> str:
    """The name of a version file in the log folder."""
    return f"{version:020d}.json"


def version_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version_name(version)}"


def checkpoint_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.checkpoint.json"


def parquet_metadata_path(version: int) -> str:
    return f"{LOG_FOLDER}/{PARQUET_FOLDER}/{version:020d}.checkpoint.json"


def parquet_path(version: int, part: int | None = None) -> str:
    """The single file of a Parquet checkpoint, or one of its parts, counted from 1."""
    middle = "" if part is None else f"{part:05d}."
    return f"{LOG_FOLDER}/{PARQUET_FOLDER}/{version:020d}.checkpoint.{middle}parquet"


def part_path(version: int, unique: str, part: int) -> str:
    """A part of a multi-part JSON checkpoint, counted from 1."""
    return f"{LOG_FOLDER}/{version:020d}.checkpoint.{unique}.{part:05d}.json"


def state_folder(version: int) -> str:
    return f"state-v{version:020d}"


def state_path(version: int, form: str) -> str:
    """The path of the state manifest; `form` is json or avro."""
    return f"{LOG_FOLDER}/{state_folder(version)}/_manifest.{form}"


def manifest_path(digest: str) -> str:
    """The path of a manifest, relative to the log folder."""
    return f"manifests/manifest-{digest}.avro"


def heads(version: int) -> dict[str, tuple[str, ...]]:
    """By value of `state.format`: the files that define a checkpoint of this version in this format. It exists if any of them does."""
    return {
        "json": (checkpoint_path(version),),
        "avro": (state_path(version, "avro"), state_path(version, "json")),
        "parquet": (parquet_metadata_path(version),),
    }


def head_paths(version: int) -> tuple[str, ...]:
    """The heads of all formats. All other files of checkpoints and states are named in these."""
    return tuple(path for paths in heads(version).values() for path in paths)


def is_part_of(name: str, version: int) -> bool:
    """Whether `name`, without a folder, is a part of the multi-part checkpoint of `version`."""
    match = _PART.fullmatch(name)
    return match is not None and int(match[1]) == version


def pointer_path() -> str:
    return f"{LOG_FOLDER}/{POINTER}"


@dataclass(frozen=True, slots=True)
class LogListing:
    """A listing of the log folder; unknown names are ignored."""

    versions: tuple[int, ...]  # ascending
    checkpoints: tuple[int, ...]  # ascending; JSON checkpoints, in one file or in parts
    has_pointer: bool
    states: tuple[int, ...] = ()  # ascending; folders with a state manifest
    parquets: tuple[int, ...] = ()  # ascending; Parquet checkpoints whose metadata file exists
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # size and time of every file, by its path in the log folder
    since: int = 0  # versions and JSON checkpoints before this one were not listed

    @classmethod
    def of_stamps(cls, files: Iterable[tuple[str, int, int]], since: int = 0) -> LogListing:
        """From path in the table, size and time of each file."""
        stamps = {path.removeprefix(LOG_FOLDER + "/"): (size, modified_ms) for path, size, modified_ms in files}
        return replace(cls.of(stamps), stamps=stamps, since=since)

    @classmethod
    def of(cls, names: Iterable[str]) -> LogListing:
        """From paths relative to the log folder."""
        seen = list(names)
        versions, checkpoints, states, parquets = (_numbers(p, seen) for p in (VERSION, _CHECKPOINT, STATE, _PARQUET))
        return cls(versions, checkpoints, POINTER in seen, states, parquets)

    def before(self, version: int) -> LogListing:
        """The files whose names sort before those of `version`; the pointer, states and Parquet checkpoints sort after all versions."""
        end = f"{version:020d}"
        stamps = {name: stamp for name, stamp in self.stamps.items() if name < end}
        return LogListing(_below(self.versions, version), _below(self.checkpoints, version), False, stamps=stamps, since=self.since)

    def followed_by(self, later: LogListing) -> LogListing:
        """This listing joined with `later`, whose names all sort after these."""
        stamps = {**self.stamps, **later.stamps}
        versions, checkpoints = self.versions + later.versions, self.checkpoints + later.checkpoints
        return LogListing(versions, checkpoints, later.has_pointer, later.states, later.parquets, stamps, self.since)

    @property
    def is_empty(self) -> bool:
        """Whether there is no sign of a table. A pointer alone is a sign: the rest of the log was lost."""
        return not self.versions and not self.bases and not self.has_pointer

    @property
    def bases(self) -> tuple[int, ...]:
        """Versions with a checkpoint or state, ascending."""
        return tuple(sorted({*self.checkpoints, *self.states, *self.parquets}))

    @property
    def unreachable(self) -> tuple[int, ...]:
        """Versions up to the newest base whose files exist but cannot be read, since neither a base nor all versions before them exist."""
        found, readable, bases = [], -1, set(self.bases)
        for version in sorted({*self.versions, *bases}):
            if version in bases or version == readable + 1:
                readable = version
            elif version < max(bases, default=0):
                found.append(version)
        return tuple(found)

    def missing_before(self, version: int) -> int:
        """The newest version before this one that has no file."""
        present = set(self.versions)
        return next(earlier for earlier in range(version - 1, -2, -1) if earlier not in present)

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Size and time of a file of the log; None if it is not listed."""
        return self.stamps.get(path.removeprefix(LOG_FOLDER + "/"))

    def checkpoint_files(self, version: int) -> list[str]:
        """The paths of all files of the JSON and Parquet checkpoints of a version, complete or not, ascending."""
        matches = ((path, _ANY_CHECKPOINT_FILE.fullmatch(path)) for path in self.stamps)
        return sorted(f"{LOG_FOLDER}/{path}" for path, match in matches if match is not None and int(match[1]) == version)

    def tail(self, base: int) -> tuple[tuple[int, ...], int | None]:
        """The consecutive versions after `base`, and the first missing version if later ones exist (a gap)."""
        after = [v for v in self.versions if v > base]
        consecutive = tuple(v for index, v in enumerate(after) if v == base + 1 + index)
        return consecutive, (base + 1 + len(consecutive) if len(consecutive) < len(after) else None)


def _below(numbers: tuple[int, ...], end: int) -> tuple[int, ...]:
    return numbers[: bisect_left(numbers, end)]


def _numbers(pattern: re.Pattern[str], names: list[str]) -> tuple[int, ...]:
    numbers = {int(match[1]) for name in names if (match := pattern.fullmatch(name))}
    return tuple(sorted(number for number in numbers if number <= _LARGEST))
