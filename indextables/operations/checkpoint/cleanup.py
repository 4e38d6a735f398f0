"""Cleanup after a checkpoint: deletes expired versions, checkpoints and states. It costs one listing of the log folder.

Ages are based on file times. Except for clock differences, a file is never older than its commit time; a copied or restored file looks
younger and is kept longer. Purge, which reads the versions anyway, uses commit times. Manifests are left to purge, since finding those in
use requires reading every state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from indextables.errors import IndexTablesError, LogCorrupted, StorageError, UnsafePath
from indextables.log import LogListing, TransactionLog, names
from indextables.logs import logger
from indextables.operations.deletion import delete
from indextables.operations.executor import in_threads
from indextables.state import (
    Deletion,
    File,
    FileKind,
    FileLoader,
    Format,
    Inventory,
    LogFacts,
    Plan,
    Policy,
    is_intact,
    manifest_path,
    read_checkpoint,
    read_state_manifest,
    retention,
    state_metadata,
    state_protocol,
    unchecked_base,
    verified_manifests,
)
from indextables.table import Snapshot, TableContext

EXPIRING = (FileKind.VERSION, FileKind.CHECKPOINT, FileKind.STATE)  # what a cleanup deletes
_SHOWN = 20  # paths of a dry run in one line


def cleanup(context: TableContext, snapshot: Snapshot) -> tuple[dict[str, int], Sequence[str]]:
    """Deletes expired files after the checkpoint of `snapshot` was written and read back; returns metrics and warnings.

    A failure is a warning, or raised with `cleanup.failurePolicy=fail`; it does not affect the checkpoint or a commit before it.
    """
    if not context.config.get("cleanup.enabled"):
        return {}, ()
    try:
        context.config.check()  # an invalid retention may be meant to be longer than the default
        planned = expired_files(context, snapshot.version)
        for reason in planned.kept_reasons:
            logger.info("%s", reason, extra={"event": "cleanup_held_back", "table": str(context.root)})
        if context.config.get("cleanup.dryRun"):
            return {}, _preview(planned.deletions)
        deleted = delete(context, planned.deletions)
        if deleted.problems:
            raise StorageError(f"cleanup after checkpoint {snapshot.version} is incomplete: {'; '.join(deleted.problems)}")
    except IndexTablesError as error:
        if context.config.get("cleanup.failurePolicy") == "fail":
            raise
        logger.warning("%s", error, extra={"event": "cleanup_failed", "table": str(context.root)})
        return {}, [str(error)]
    if deleted.done:
        context.log.invalidate_cache("versions")
    return deleted.counts(*EXPIRING), ()


def expired_files(context: TableContext, version: int) -> Plan:
    """The plan of a cleanup after the checkpoint of `version`, which is the newest."""
    facts, listing = gather_log_facts(context.log, version)
    return _retention_plan(context, facts, listing)


def preview_cleanup(context: TableContext, version: int, *, is_state: bool) -> Plan:
    """The plan of a cleanup after a checkpoint of `version` that is not written yet."""
    if not context.config.get("cleanup.enabled") or context.config.get("cleanup.dryRun"):
        return Plan([])
    try:
        facts, listing = gather_log_facts(context.log, version)
        return _retention_plan(context, with_checkpoint(facts, version, is_state=is_state), listing)
    except IndexTablesError as error:
        if context.config.get("cleanup.failurePolicy") == "fail":
            raise
        return Plan([], [str(error)])


def _retention_plan(context: TableContext, facts: LogFacts, listing: LogListing) -> Plan:
    log, config, now_ms = context.log, context.config, context.clock.now_ms()
    policy = Policy.of(config, log=config.get("logRetention.duration"), keep_versions=config.get("checkpoint.retention"))

    def is_base(version: int) -> bool:
        """Reads the base in full: the deleted files could not be reconstructed from anything else."""
        is_alone = version == facts.newest_version or is_self_contained(log, listing, version)
        return is_alone and (version not in listing.states or is_intact(log, version, verified_manifests(log)))

    return retention.plan(with_checked_bases(facts, policy, now_ms, is_base), policy, now_ms)


def with_checked_bases(facts: LogFacts, policy: Policy, now_ms: int, is_base: Callable[[int], bool]) -> LogFacts:
    """The facts with every base checked that the plan depends on; `is_base` reads and checks one."""
    while (version := unchecked_base(facts, policy, now_ms)) is not None:
        facts = replace(facts, is_base={**facts.is_base, version: is_base(version)})
    return facts


def with_checkpoint(facts: LogFacts, version: int, *, is_state: bool) -> LogFacts:
    """Pure. The facts of the log once `version` has a checkpoint. A new state is assumed to reference the newest state's manifests."""
    inventory, references = facts.inventory, facts.references
    made = {version: ()} if version not in inventory.deletable_bases else {}
    newest = max((state for state in references or {} if state < version), default=None)
    if made and is_state and references is not None:
        references = {**references, version: () if newest is None else references[newest]}
    inventory = replace(
        inventory,
        versions={version: File(names.version_path(version), 0, None), **inventory.versions},
        checkpoints=inventory.checkpoints if is_state else {**inventory.checkpoints, **made},
        states={**inventory.states, **made} if is_state else inventory.states,
        has_pointer=True,
    )
    return replace(facts, inventory=inventory, newest_checkpoint=version, references=references, is_base={**facts.is_base, version: True})


def gather_log_facts(log: TransactionLog, version: int) -> tuple[LogFacts, LogListing]:
    """The facts of the log without checked bases (see `with_checked_bases`), and their listing. Reads no version file."""
    listing = log.uncached_listing()
    inventory = Inventory.of(listing.stamps)
    facts = LogFacts(
        inventory=inventory,
        newest_version=version,
        newest_checkpoint=version if version in listing.bases else None,
        times={number: file.modified_ms for number, file in inventory.versions.items() if file.modified_ms is not None},
        is_base={},
        # They matter only beside checkpoints of other formats: otherwise a reader finds both in later versions, or in a complete state.
        incomplete_states=[state for state in inventory.states if is_incomplete_state(log, state)] if inventory.checkpoints else (),
    )
    return facts, listing


def is_self_contained(log: TransactionLog, listing: LogListing, version: int, *, thorough: bool = False) -> bool:
    """Whether the checkpoint of a version is valid and depends on no older file.

    A state is accepted if its manifests exist, so that the cost does not grow with the table. `thorough` also reads the manifests from the
    store, because the local cache of decoded manifests hides damage.
    """
    try:
        if version in listing.states and not thorough and version not in listing.checkpoints:
            state = read_state_manifest(log.store, version)
            present = all(listing.stamp(manifest_path(info.path, version)) is not None for info in state.manifests)
            return present and state_metadata(state) is not None and state_protocol(state) is not None
        replay, form = read_checkpoint(log, listing, version)
        if thorough and form is Format.AVRO and not is_intact(log, version):
            return False
        if thorough:
            FileLoader(log).load(replay.files())  # decodes every entry
    except UnsafePath:
        raise
    except LogCorrupted:
        return False
    return replay.metadata is not None and (form is not Format.AVRO or replay.protocol is not None)


def is_incomplete_state(log: TransactionLog, version: int) -> bool:
    """Whether the state depends on older files for its metadata or protocol."""
    try:
        state = read_state_manifest(log.store, version)
        return state_metadata(state) is None or state_protocol(state) is None
    except UnsafePath:
        raise
    except LogCorrupted:
        return False  # an unreadable state is not a base


def referenced_manifests(log: TransactionLog, inventory: Inventory) -> tuple[dict[int, Collection[str]], dict[int, str]]:
    """The manifest paths that each state references, and the error of each state that cannot be read."""
    referenced: dict[int, Collection[str]] = {}
    unreadable: dict[int, str] = {}

    def read(version: int) -> None:
        try:
            manifests = read_state_manifest(log.store, version).manifests
            referenced[version] = frozenset(manifest_path(info.path, version) for info in manifests)
        except UnsafePath:
            raise
        except LogCorrupted as error:
            unreadable[version] = str(error)

    in_threads(read, list(inventory.states))
    return dict(sorted(referenced.items())), dict(sorted(unreadable.items()))


def _preview(deletions: Sequence[Deletion]) -> Sequence[str]:
    if not deletions:
        return ()
    paths = [file.path for deletion in deletions for file in deletion.files]
    shown = ", ".join(paths[:_SHOWN]) + (", …" if len(paths) > _SHOWN else "")
    text = f"cleanup would delete {len(paths)} files: {shown}"
    logger.info("%s", text, extra={"event": "cleanup_dry_run", "files": len(paths)})
    return [text]
