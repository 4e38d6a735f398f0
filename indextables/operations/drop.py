"""Drop: deletes a table with its log, states and splits; files of other kinds in its folder stay."""

from __future__ import annotations

from indextables.errors import InvalidArgument, TableNotFound
from indextables.operations.executor import in_threads
from indextables.operations.listed import Listed
from indextables.operations.report import Report, Status, reporter
from indextables.paths import LOG_FOLDER, is_our_split
from indextables.state.inventory import File
from indextables.table.context import TableContext


def drop(context: TableContext, *, confirm: bool) -> Report:
    """InvalidArgument unless `confirm` is True. Version files go last: a drop that was interrupted can be repeated."""
    report = reporter("drop", str(context.root), context.clock)
    if confirm is not True:
        raise InvalidArgument(f"dropping {str(context.root)!r} deletes the table for good; say confirm=True if that is wanted")
    if context.log.look().is_empty:
        raise TableNotFound(f"no transaction log found at {context.root}")
    listed = Listed.of(context.store.list(""))
    splits = [file for row, path in listed if is_our_split(path) for file in listed.with_side_file(listed.file(row))]
    log = [File.of(f"{LOG_FOLDER}/{name}", *listed.log[name]) for name in sorted(listed.log, reverse=True)]
    in_threads(context.store.delete, [file.path for file in splits])
    for file in log:
        context.store.delete(file.path)
    context.log.close()
    metrics = {
        "files_deleted": sum(is_our_split(file.path) for file in splits),
        "bytes_deleted": sum(file.size for file in [*splits, *log]),
    }
    result: Report = report(Status.SUCCESS, metrics, base_version=None)
    return result
