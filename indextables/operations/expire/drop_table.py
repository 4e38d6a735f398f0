"""Drop: deletes a table with its log, states and splits; other files in its folder are kept."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.errors import InvalidArgument, TableNotFound
from indextables.log import LogListing, names
from indextables.operations.executor import in_many_threads
from indextables.operations.expire.folder_listing import FolderListing
from indextables.operations.report import Report, Status, reporter
from indextables.operations.verbs import Drop
from indextables.paths import LOG_FOLDER, is_our_split
from indextables.state import File
from indextables.table import TableContext


def drop(request: Drop, context: TableContext) -> Report:
    """Deletes the table. InvalidArgument unless `confirm` is True.

    An interrupted drop leaves either a complete table or no table, and can be repeated.
    """
    report = reporter("drop", str(context.root), context.clock)
    if not request.confirm:
        raise InvalidArgument(f"drop deletes the table {str(context.root)!r} permanently; pass confirm=True to delete it")
    if context.log.uncached_listing().is_empty:
        raise TableNotFound.without_log(context.root)
    folder = FolderListing.of(context.store.list(""))
    splits = [file for row, path in folder if is_our_split(path) for file in folder.with_checksum_file(folder.file(row))]
    log = [File.of(f"{LOG_FOLDER}/{name}", *folder.log[name]) for name in sorted(folder.log)]
    first, last = _deletion_order(log)
    for path in first:
        context.store.delete(path)
    in_many_threads(context.store.delete, [file.path for file in splits])
    for path in last:
        context.store.delete(path)
    context.log.close()
    size = sum(file.size for file in [*splits, *log])
    metrics = {"files_deleted": sum(is_our_split(file.path) for file in splits), "bytes_deleted": size}
    return report(Status.SUCCESS, metrics, base_version=None)


def _deletion_order(log: Sequence[File]) -> tuple[Sequence[str], Sequence[str]]:
    """The log files to delete before the splits, and those to delete after them.

    First come the pointer, version 0, and the checkpoints and states: without them there is no table. Last come the other
    versions (without any: one of the first files), because a repeated drop finds the remaining files by them.
    """
    paths = dict.fromkeys(file.path for file in log)
    listing = LogListing.of(path.removeprefix(LOG_FOLDER + "/") for path in paths)
    heads = [names.pointer_path(), names.version_path(0), *(path for version in listing.bases for path in names.head_paths(version))]
    first = [path for path in heads if path in paths]
    last = [names.version_path(version) for version in listing.versions if version > 0] or [first.pop()]
    for path in (*first, *last):
        del paths[path]
    return first, [*paths, *last]
