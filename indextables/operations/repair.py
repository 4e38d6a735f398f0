"""Repair: writes a new log of the valid splits into a separate folder. The damaged table is only read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from indextables.actions import Action, Add, Remove, Replay, encode_actions
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import IndexTablesError, InvalidArgument, LogCorrupted, TableNotFound, UnsafePath
from indextables.log import names, packing
from indextables.operations.expire import FolderListing
from indextables.operations.findings import Finding, command, counted
from indextables.operations.inspect import MISSING, VerifyTask
from indextables.operations.report import Report, Status, reporter
from indextables.operations.verbs import Repair
from indextables.paths import LOG_FOLDER, TableRoot, is_our_split
from indextables.state import FileLoader, is_intact
from indextables.storage import Store, StoreSpec, open_store
from indextables.table import CURRENT, TableContext, check_writable, newest_base, refuse_unsupported
from indextables.texts import first_of

_SHOWN = 3  # unreferenced splits named in the warning


def repair(
    request: Repair, source: str | os.PathLike[str], options: Mapping[str, Any] | None = None, clock: Clock = SYSTEM_CLOCK
) -> Report:
    """Writes version 0 (protocol and metadata) and version 1 (an add for every valid split) into the log folder `destination`.

    `source` is a table or its log folder. `destination` is missing or empty; the user replaces the old log with it. An unsupported protocol
    is refused even if it is declared in a damaged file: the files of such a table may only look damaged to this program.
    """
    context = TableContext.at(os.fspath(source).rstrip("/").removesuffix(f"/{LOG_FOLDER}"), options, clock)
    report = reporter("repair", str(context.root), clock)
    target = open_store(StoreSpec.of(TableRoot.parse(request.destination), Config.of(options)))
    if any(True for _ in target.list("")):
        raise InvalidArgument(f"{str(target.root)!r} is not empty; choose a missing or empty folder for the repaired log")
    if f"{target.root}/".startswith(f"{context.root}/{LOG_FOLDER}/"):
        raise InvalidArgument(f"{str(target.root)!r} is inside the log to repair; choose a folder outside of it for the repaired log")
    replay, version, broken, unread = _read_what_is_valid(context)
    if replay.metadata is None:
        raise LogCorrupted(f"the log of {context.root} has no valid file with metadata; the table cannot be repaired")
    protocol = replay.protocol or CURRENT
    check_writable(protocol)
    adds = list(FileLoader(context.log).load(replay.files()).adds())
    task = VerifyTask(context.store.spec, deep=False)
    problems = {add.path: found for add in adds if (found := task(add))}
    valid = [add for add in adds if add.path not in problems]
    if valid:  # before version 0: after a crash, a log without version 0 is not a table, while one without version 1 is an empty table
        bare = [structs.replace(add, added_at_version=None, added_at_timestamp=None) for add in valid]
        _write(target, 1, [*replay.txns.values(), *bare])
    _write(target, 0, [protocol, replay.metadata])
    warnings = [*broken, *(finding.message for found in problems.values() for finding in found), *_left_out(context, adds, problems)]
    if unread:
        warnings.extend(_unreferenced(context, adds))
    metrics = {"total_splits": len(adds), "valid_splits": len(valid), "missing_splits": len(problems), "source_version": version}
    return report(Status.PARTIAL if warnings else Status.SUCCESS, metrics, base_version=version, warnings=warnings)


def _read_what_is_valid(context: TableContext) -> tuple[Replay, int, list[str], bool]:
    """Replays the newest valid base and every readable version after it.

    Also returns the newest version read, warnings about what could not be read, and whether that includes a version after the base.
    """
    context.log.invalidate_cache()
    listing = context.log.listing()
    if listing.is_empty:
        raise TableNotFound.without_log(context.root)
    refuse_unsupported(context.log, listing, check=check_writable)
    whole = tuple(version for version in listing.states if is_intact(context.log, version))
    broken = [f"the state of version {version} was ignored: it is incomplete" for version in listing.states if version not in whole]
    base = newest_base(context.log, replace(listing, states=whole), None)
    problems = [*broken, *(f"the checkpoint of version {version} was ignored: {why}" for version, why in base.broken.items())]
    newest, unread = -1 if base.version is None else base.version, False
    for version in listing.versions:
        if version <= newest:
            continue
        if version > newest + 1:
            unread = True
            missing = f"version {newest + 1}" if version == newest + 2 else f"versions {newest + 1} to {version - 1}"
            problems.append(f"{missing} cannot be read: the splits added or removed there are unknown")
        try:
            base.replay.apply(version, context.log.read(version).actions)
            newest = version
        except UnsafePath:
            raise
        except IndexTablesError as error:
            if error.retryable:
                raise
            unread = True
            problems.append(f"version {version} was ignored: {error}")
    return base.replay, newest, problems, unread


def _left_out(context: TableContext, adds: Sequence[Add], problems: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """Warnings about the rows that the new log does not contain. Rows of a damaged split may still be readable through the old log."""
    if not problems:
        return
    rows = sum(add.num_records or 0 for add in adds if add.path in problems)
    total = sum(add.num_records or 0 for add in adds)
    missing = sum(found[0].code == MISSING for found in problems.values())
    damaged = len(problems) - missing
    why = [counted(number, "split", what) for number, what in ((missing, "missing"), (damaged, "damaged")) if number]
    yield f"the new log does not contain {rows} of {total} rows: {' and '.join(why)}"
    if damaged:
        scan = command("scan", str(context.root), "--output", "FILE")
        yield f"rows of a damaged split may still be readable: export them before you delete the old log ({scan}), then append them again"


def _unreferenced(context: TableContext, adds: Sequence[Add]) -> Iterator[str]:
    """A warning about splits that may belong to a version that was not read: purge would delete them like files of a failed write."""
    known = {add.path for add in adds} | _removed(context)
    paths = sorted(path for _, path in FolderListing.of(context.store.list("")) if is_our_split(path) and path not in known)
    if paths:
        shown = first_of(paths, _SHOWN)
        yield (
            f"the new log does not reference {len(paths)} split file{'s'[: len(paths) != 1]} of the table's folder, which may belong to the"
            f" versions that cannot be read: {shown}; purge would delete them, so check them first (docs/operations.md, Repair)"
        )


def _removed(context: TableContext) -> set[str]:
    """The paths that a readable version removed."""
    paths: set[str] = set()
    for version in context.log.listing().versions:
        try:
            paths |= {context.root.relative(action.path) for action in context.log.read(version).actions if isinstance(action, Remove)}
        except IndexTablesError as error:
            if error.retryable:
                raise
    return paths


def _write(log_folder: Store, version: int, actions: list[Action]) -> None:
    if not log_folder.create(names.version_name(version), packing.pack(encode_actions(actions), compress=True)):
        raise InvalidArgument(f"another program wrote version {version} of the new log at the same time")
