"""The files of a log folder, classified by their full names. Files with unknown names are never deleted. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from indextables.clock import UNKNOWN_MS
from indextables.log import names
from indextables.paths import LOG_FOLDER


@dataclass(frozen=True, slots=True)
class File:
    path: str  # relative to the table
    size: int
    modified_ms: int | None  # by the store's clock; None: unknown

    @classmethod
    def of(cls, path: str, size: int, modified_ms: int) -> File:
        return cls(path, size, modified_ms if modified_ms < UNKNOWN_MS else None)


def checksum_file(path: str) -> str:
    """The path of the checksum that Hadoop writes next to a local file: `.name.crc`."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The files of a log by type. Of a checkpoint or state, the files that make it valid come first."""

    versions: Mapping[int, File] = field(default_factory=dict)
    checkpoints: Mapping[int, tuple[File, ...]] = field(default_factory=dict)  # JSON and Parquet, with all parts
    states: Mapping[int, tuple[File, ...]] = field(default_factory=dict)  # state manifests only
    manifests: Mapping[str, File] = field(default_factory=dict)  # by path: shared ones, and those in the folders of states
    unfinished_parts: Mapping[int, tuple[File, ...]] = field(default_factory=dict)  # of checkpoints without a head
    checksum_files: Mapping[str, File] = field(default_factory=dict)  # checksum files, by the path of the file they belong to
    has_pointer: bool = False

    @classmethod
    def of(cls, stamps: Mapping[str, tuple[int, int]]) -> Inventory:
        """From a listing: path in the log folder -> (size, time)."""
        files = {name: File.of(f"{LOG_FOLDER}/{name}", size, time) for name, (size, time) in stamps.items()}
        checkpoints, unfinished = _families(files)
        return cls(
            versions=dict(_numbered(names.VERSION, files)),
            checkpoints=checkpoints,
            states=_grouped(_numbered(names.STATE, files)),
            manifests={file.path: file for name, file in files.items() if names.MANIFEST.fullmatch(name)},
            unfinished_parts=unfinished,
            checksum_files={file.path: files[checksum_file(name)] for name, file in files.items() if checksum_file(name) in files},
            has_pointer=names.POINTER in files,
        )

    def with_checksum_files(self, files: Iterable[File]) -> tuple[File, ...]:
        """The files, each followed by its checksum file if there is one."""
        return tuple(one for file in files for one in (file, self.checksum_files.get(file.path)) if one is not None)

    def manifests_in_folder_of(self, state: int) -> list[File]:
        """Manifests in the folder of a state, where older writers put them."""
        folder = f"{LOG_FOLDER}/{names.state_folder(state)}/"
        return [file for path, file in self.manifests.items() if path.startswith(folder)]

    @property
    def deletable_bases(self) -> list[int]:
        """Versions with a checkpoint or state, ascending; without version 0 if its file exists, because that is never deleted."""
        return sorted(version for version in {*self.checkpoints, *self.states} if version > 0 or 0 not in self.versions)


def _numbered(pattern: re.Pattern[str], files: Mapping[str, File]) -> Iterator[tuple[int, File]]:
    return ((int(match[1]), file) for name, file in sorted(files.items()) if (match := pattern.fullmatch(name)))


def _grouped(numbered: Iterable[tuple[int, File]]) -> dict[int, tuple[File, ...]]:
    groups: defaultdict[int, list[File]] = defaultdict(list)
    for number, file in numbered:
        groups[number].append(file)
    return {number: tuple(group) for number, group in groups.items()}


def _families(files: Mapping[str, File]) -> tuple[dict[int, tuple[File, ...]], dict[int, tuple[File, ...]]]:
    """The files of checkpoints with a head, and those of checkpoints without."""
    heads: dict[tuple[str, int], File] = {}
    others: defaultdict[tuple[str, int], list[File]] = defaultdict(list)
    for name, file in sorted(files.items()):
        match = names.CHECKPOINT_FILE.fullmatch(name)
        if match is not None and match[3] == names.HEAD:
            heads[match[1] or "", int(match[2])] = file
        elif match is not None and (match[1] is None or name.endswith(".parquet")):
            others[match[1] or "", int(match[2])].append(file)
    complete = _grouped((version, file) for (_, version), file in heads.items())
    unfinished: dict[int, tuple[File, ...]] = {}
    for (folder, version), parts in others.items():
        place = complete if (folder, version) in heads else unfinished
        place[version] = (*place.get(version, ()), *parts)
    return complete, unfinished
