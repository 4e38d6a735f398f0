"""Clean-up after a checkpoint: versions, checkpoints and states that have expired. It costs one listing of the log folder.

Ages are the files' own times. A file is never older than its commit says by more than clocks differ, and one that was copied or restored
looks younger, so it stays longer; purge, which reads the versions anyway, goes by their commits. Manifests are left to purge: which of them
are in use only shows when every state is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache

from indextables.errors import IndexTablesError, LogCorrupted, StorageError, UnsafePath
from indextables.log.log import TransactionLog
from indextables.log.names import LogListing
from indextables.operations.deletion import Deleted, delete
from indextables.operations.executor import in_threads
from indextables.state import formats, retention
from indextables.state.avro_read import is_whole, verified_manifests
from indextables.state.avro_state import manifest_path, read_state_manifest, state_metadata, state_protocol
from indextables.state.contents import Format
from indextables.state.inventory import Inventory
from indextables.state.retention import Deletion, Facts, Kind, Policy
from indextables.table.context import TableContext
from indextables.table.snapshot import Snapshot

SHOWN = 20  # paths of a dry run in one line
logger = logging.getLogger("indextables")


@dataclass(frozen=True, slots=True)
class CleanupResult:
    metrics: dict[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not any(self.metrics.values())


def cleanup(context: TableContext, snapshot: Snapshot) -> CleanupResult:
    """After the checkpoint of `snapshot` was written and read back. A failure is a warning, or raised under `cleanup.failurePolicy=fail`;
    what the checkpoint or a commit before it did stands in either case."""
    if not context.config.get("cleanup.enabled"):
        return CleanupResult()
    try:
        deletions = plan(context, snapshot)
        if context.config.get("cleanup.dryRun"):
            return _preview(deletions)
        deleted = delete(context, deletions)
        if deleted.problems:
            raise StorageError(f"clean-up after checkpoint {snapshot.version} is not complete: {'; '.join(deleted.problems)}")
    except IndexTablesError as error:
        if context.config.get("cleanup.failurePolicy") == "fail":
            raise
        logger.warning("%s", error, extra={"event": "cleanup_failed", "table": str(context.root)})
        return CleanupResult(warnings=[str(error)])
    if deleted.done:
        context.log.invalidate_cache("versions")
    return CleanupResult(_counts(deleted))


def plan(context: TableContext, snapshot: Snapshot) -> Sequence[Deletion]:
    config = context.config
    policy = Policy.of(config, log=config.get("logRetention.duration"), keep_versions=config.get("checkpoint.retention"))
    found = retention.plan(gather(context.log, snapshot.version), policy, context.clock.now_ms())
    for doubt in found.doubts:
        logger.info("%s", doubt, extra={"event": "cleanup_held_back", "table": str(context.root)})
    return found.deletions


def gather(log: TransactionLog, version: int) -> Facts:
    """No version file is read, and of the checkpoints only one that is to stand for what goes."""
    listing = log.look()
    inventory = Inventory.of(listing.stamps)

    @cache
    def is_base(candidate: int) -> bool:
        """Read to its last byte: what goes could not be told again from anything else."""
        is_state = candidate in listing.states
        return (candidate == version or stands_alone(log, listing, candidate)) and (
            not is_state or is_whole(log, candidate, verified_manifests(log))
        )

    return Facts(
        inventory=inventory,
        current=version,
        latest=version if version in listing.bases else None,
        times={number: file.modified_ms for number, file in inventory.versions.items() if file.modified_ms is not None},
        is_base=is_base,
        leaning=_leaning(log, inventory),
    )


def stands_alone(log: TransactionLog, listing: LogListing, version: int, *, thorough: bool = False) -> bool:
    """Whether the checkpoint of a version is valid and needs no older file.

    A state is believed if it names manifests that are there, so that the cost does not grow with the table; `thorough` reads them too.
    """
    try:
        if version in listing.states and not thorough and version not in listing.checkpoints:
            state = read_state_manifest(log.store, version)
            present = all(listing.stamp(manifest_path(info.path, version)) is not None for info in state.manifests)
            return present and state_metadata(state) is not None and state_protocol(state) is not None
        replay, form = formats.read(log, listing, version)
        if thorough:
            replay.files().table()  # decodes what is read when first needed
    except UnsafePath:
        raise
    except LogCorrupted:
        return False
    return replay.metadata is not None and (form is not Format.AVRO or replay.protocol is not None)


def _leaning(log: TransactionLog, inventory: Inventory) -> list[int]:
    """States that leave something to older files. They find it in the versions after a base, or in a base that is a state; only in a log
    that has checkpoints of other formats too might it have been in what goes."""
    return [version for version in inventory.states if is_leaning(log, version)] if inventory.checkpoints else []


def is_leaning(log: TransactionLog, version: int) -> bool:
    try:
        state = read_state_manifest(log.store, version)
        return state_metadata(state) is None or state_protocol(state) is None
    except UnsafePath:
        raise
    except LogCorrupted:
        return False  # it is no base of anything


def named_manifests(log: TransactionLog, inventory: Inventory) -> tuple[dict[int, Collection[str]], dict[int, str]]:
    """The paths of the manifests that each state names; and, of the states that cannot be read, why."""
    named: dict[int, Collection[str]] = {}
    unreadable: dict[int, str] = {}
    states = sorted(inventory.states)
    for version, found in zip(states, in_threads(lambda state: _named_by(log, state), states), strict=True):
        if isinstance(found, str):
            unreadable[version] = found
        else:
            named[version] = found
    return named, unreadable


def _named_by(log: TransactionLog, version: int) -> Collection[str] | str:
    try:
        return frozenset(manifest_path(info.path, version) for info in read_state_manifest(log.store, version).manifests)
    except UnsafePath:
        raise
    except LogCorrupted as error:
        return str(error)


def _preview(deletions: Sequence[Deletion]) -> CleanupResult:
    if not deletions:
        return CleanupResult()
    paths = [file.path for deletion in deletions for file in deletion.files]
    shown = ", ".join(paths[:SHOWN]) + (", …" if len(paths) > SHOWN else "")
    text = f"clean-up would delete {len(paths)} files: {shown}"
    logger.info("%s", text, extra={"event": "cleanup_dry_run", "files": len(paths)})
    return CleanupResult(warnings=[text])


def _counts(deleted: Deleted) -> dict[str, int]:
    return {
        "versions_deleted": deleted.count(Kind.VERSION),
        "checkpoints_deleted": deleted.count(Kind.CHECKPOINT),
        "states_deleted": deleted.count(Kind.STATE),
    }
