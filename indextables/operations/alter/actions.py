"""Low-level API: commits actions given by the caller, with the same checks as any other commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from indextables.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn, decode_actions
from indextables.config import check_configuration
from indextables.errors import InvalidArgument, LogCorrupted, SchemaMismatch, UnsafePath
from indextables.log import require_live, require_same_metadata
from indextables.operations.checkpoint import checkpoint_if_due
from indextables.schema import from_spark_json
from indextables.table import Draft, Snapshot, TableContext, check_writable, transact, version_of


def parse_actions(given: Iterable[Action | Mapping[str, Any]]) -> list[Action]:
    """Parses typed actions, or dicts in the log's JSON form. InvalidArgument names an invalid or repeated action."""
    if not isinstance(given, Iterable):
        raise InvalidArgument(f"{given!r} is not a list of actions")
    parsed = [_parsed(one) if isinstance(one, Mapping) else _typed(one) for one in given]
    for kind, name in ((Protocol, "protocol"), (Metadata, "metaData"), (Txn, "txn")):
        if sum(isinstance(action, kind) for action in parsed) > 1:
            raise InvalidArgument(f"a commit may contain at most one {name}")
    return parsed


def _typed(action: Any) -> Action:
    if not isinstance(action, Action) or isinstance(action, CommitInfo):
        raise InvalidArgument(f"{action!r} is not an action that can be committed")
    return action


def _parsed(raw: Mapping[str, Any]) -> Action:
    try:
        decoded = decode_actions(json.dumps(raw, allow_nan=False).encode(), "action")
    except (LogCorrupted, TypeError, ValueError) as error:
        raise InvalidArgument(f"{str(raw)[:200]} is not an action: {error}") from None
    if decoded.unknown or len(decoded.actions) != 1 or len(raw) != 1:
        raise InvalidArgument(f"{str(raw)[:200]} is not exactly one known action")
    return _typed(decoded.actions[0])


def commit_actions(
    context: TableContext, known: Snapshot, actions: Iterable[Action | Mapping[str, Any]], operation: str
) -> tuple[int | None, Snapshot]:
    """Commits the actions on top of the newest version; returns the committed version. Paths are checked before anything is written.

    A commit with a `txn` action is idempotent (A-02): a retry returns the version of the first commit, as long as it is known.
    """
    parsed = parse_actions(actions)
    if not parsed:
        raise InvalidArgument("a commit needs at least one action")
    if not isinstance(operation, str) or not operation:
        raise InvalidArgument(f"operation {operation!r} is not a name")
    base = context.newest(known)
    removed = {_checked_path(context, a) for a in parsed if isinstance(a, Remove)}
    for action in parsed:
        if isinstance(action, Add | Skip):
            _checked_path(context, action)
    live = (context.load(known).files, context.load(base).files) if removed else ()
    sources = sorted(path for path in removed if any(path in files for files in live))

    def build(base: Snapshot) -> Draft:
        """The same actions on every base. Conflicts if a removed split is no longer live or the metadata to replace has changed."""
        if sources:
            require_live(operation, sources, context.load(base).files, base.version)
        for action in parsed:
            if isinstance(action, Protocol):
                _check_protocol(action, base.protocol)
            elif isinstance(action, Metadata):
                _check_metadata(action, base)
                require_same_metadata(operation, known.metadata, base.metadata, base.version)
        return Draft(parsed)

    txn = next((action for action in parsed if isinstance(action, Txn)), None)
    outcome = transact(context.log, base, operation, build, config=context.for_table(base).config, clock=context.clock, txn=txn)
    if outcome.version is None:
        return version_of(context.log, txn, outcome.snapshot.version) if txn is not None else None, outcome.snapshot
    return outcome.version, checkpoint_if_due(context, outcome.snapshot)[0]


def _checked_path(context: TableContext, action: Add | Remove | Skip) -> str:
    try:
        return context.root.relative(action.path)
    except UnsafePath as error:
        raise UnsafePath(str(error).replace(" in the log", " of the commit")) from None


def _check_protocol(new: Protocol, old: Protocol) -> None:
    check_writable(new)
    if new.min_reader_version < old.min_reader_version or new.min_writer_version < old.min_writer_version:
        raise InvalidArgument(
            f"protocol {new.min_reader_version}/{new.min_writer_version} is lower than the table's"
            f" {old.min_reader_version}/{old.min_writer_version}; protocol versions cannot be lowered"
        )
    lost = {*(old.reader_features or ()), *(old.writer_features or ())} - {*(new.reader_features or ()), *(new.writer_features or ())}
    if lost:
        raise InvalidArgument(f"the protocol removes {', '.join(sorted(lost))} from the table; a feature, once enabled, cannot be removed")


def _check_metadata(new: Metadata, base: Snapshot) -> None:
    """Refuses a change of schema, partition columns or id; name, description and configuration may change (C-29)."""
    old = base.metadata
    try:
        same_schema = new.schema_string == old.schema_string or from_spark_json(new.schema_string) == base.schema
    except LogCorrupted as error:
        raise InvalidArgument(f"the metaData of the commit is invalid: {error}") from None
    if not same_schema or new.partition_columns != old.partition_columns:
        raise SchemaMismatch("a commit cannot change the table's schema or partition columns")
    if new.id != old.id:
        raise InvalidArgument(f"a commit cannot change the table's id from {old.id!r} to {new.id!r}")
    check_configuration(dict(new.configuration.items() - old.configuration.items()))
