"""Drop: deletes a table with its log, states and splits; files of other kinds in its folder stay."""

from __future__ import annotations

from indextables.errors import InvalidArgument, TableNotFound
from indextables.operations.purge_facts import own_files
from indextables.operations.report import Report, Status, reporter
from indextables.paths import LOG_FOLDER, is_our_split
from indextables.table.context import TableContext


def drop(context: TableContext, *, confirm: bool) -> Report:
    """InvalidArgument unless `confirm` is True. Version files go last: a drop that was interrupted can be repeated."""
    report = reporter("drop", str(context.root), context.clock)
    if confirm is not True:
        raise InvalidArgument(f"dropping {str(context.root)!r} deletes the table for good; say confirm=True if that is wanted")
    if context.log.look().is_empty:
        raise TableNotFound(f"no transaction log found at {context.root}")
    entries = list(context.store.list(""))
    splits = [entry for entry in own_files(entries) if is_our_split(entry.path)]
    log = [entry for entry in entries if entry.path.startswith(LOG_FOLDER + "/")]
    for entry in [*splits, *sorted(log, key=lambda entry: entry.path, reverse=True)]:
        context.store.delete(entry.path)
    context.log.close()
    metrics = {"files_deleted": len(splits), "bytes_deleted": sum(entry.size for entry in [*splits, *log])}
    result: Report = report(Status.SUCCESS, metrics, base_version=None)
    return result
