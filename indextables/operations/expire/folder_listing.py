"""The contents of a table's folder from one listing, held in columns: a million objects would take a gigabyte of memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from indextables.paths import LOG_FOLDER, is_our_temporary
from indextables.state import File, checksum_file
from indextables.storage import Entry

_OWN_LOG = f"{LOG_FOLDER}/"
_INNER_LOG = f"/{LOG_FOLDER}/"


@dataclass(slots=True)
class FolderListing:
    """The files outside the log as columns, in the order of the listing, and the sizes and times of the log's files."""

    paths: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))  # ms, by the store's clock
    log: dict[str, tuple[int, int]] = field(default_factory=dict)  # size and time by path in the log folder
    checksum_files: dict[str, File] = field(default_factory=dict)  # by their own paths; those of splits only

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> FolderListing:
        """Reads a listing. Files of another table in a subfolder are left out, since they do not belong to this table."""
        listing, inner = cls(), set()
        for entry in entries:
            path = entry.path
            if path.startswith(_OWN_LOG):
                listing.log[path.removeprefix(_OWN_LOG)] = entry.size, entry.modified_ms
                continue
            if _INNER_LOG in path:
                inner.add(path.partition(_INNER_LOG)[0] + "/")
            listing.paths.append(path)
            listing.sizes.append(entry.size)
            listing.times.append(entry.modified_ms)
            if path.endswith(".split.crc"):
                listing.checksum_files[path] = File.of(path, entry.size, entry.modified_ms)
        return listing._without(tuple(inner)) if inner else listing

    def _without(self, folders: tuple[str, ...]) -> FolderListing:
        kept = [row for row, path in enumerate(self.paths) if not path.startswith(folders)]
        return FolderListing(
            [self.paths[row] for row in kept],
            array("q", (self.sizes[row] for row in kept)),
            array("q", (self.times[row] for row in kept)),
            self.log,
            {path: file for path, file in self.checksum_files.items() if not path.startswith(folders)},
        )

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Row and path of each file."""
        return enumerate(self.paths)

    def file(self, row: int) -> File:
        return File.of(self.paths[row], self.sizes[row], self.times[row])

    def temporaries(self) -> Iterator[File]:
        """Temporary files, of killed writers and of running ones."""
        yield from (self.file(row) for row, path in self if is_our_temporary(path))
        log = ((_OWN_LOG + name, stamp) for name, stamp in self.log.items())
        yield from (File.of(path, *stamp) for path, stamp in log if is_our_temporary(path))

    def with_checksum_file(self, file: File) -> tuple[File, ...]:
        """A file, with the checksum file that Hadoop may have written for it."""
        checksum = self.checksum_files.get(checksum_file(file.path))
        return (file,) if checksum is None else (file, checksum)
