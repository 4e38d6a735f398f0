"""Checkpoint: the table at its newest version in files of their own, so that readers need not replay the whole log."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from indextables.actions import Action, Protocol
from indextables.operations.cleanup import CleanupResult, cleanup
from indextables.operations.report import Report, Status, reporter
from indextables.state import formats
from indextables.state.avro_state import state_path
from indextables.state.contents import Contents, Written
from indextables.state.options import StateOptions
from indextables.state.pointer import read_pointer, write_pointer
from indextables.state.registry import NEEDED, Registry, registered
from indextables.table.context import TableContext
from indextables.table.protocol import LEGACY, check_writable, has_registry, is_foreign, raised, taken_over
from indextables.table.snapshot import Snapshot, on_newest_state, without_broken_states
from indextables.table.transaction import Draft, transact

logger = logging.getLogger("indextables")


def plan(snapshot: Snapshot, now_ms: int, txn_retention_ms: int) -> Contents | None:
    """Pure. What the checkpoint is to hold; None where the newest version has a valid one.

    The snapshot was read from the newest valid base, never from surviving versions alone.
    """
    return None if snapshot.checkpoint == snapshot.version else _contents(snapshot, now_ms, txn_retention_ms)


def _contents(snapshot: Snapshot, now_ms: int, txn_retention_ms: int) -> Contents:
    protocol = None if snapshot.protocol is LEGACY else snapshot.protocol
    return Contents.of(
        snapshot.version,
        protocol,
        snapshot.metadata,
        snapshot.files,
        snapshot.txns,
        snapshot.skips,
        now_ms=now_ms,
        txn_retention_ms=txn_retention_ms,
    )


@dataclass(frozen=True, slots=True)
class _Prepare:
    """What the table must say before the checkpoint of its files can be written: nothing, most of the time."""

    context: TableContext

    def __call__(self, base: Snapshot) -> Draft:
        options = options_of(self.context, base)
        retention = int(self.context.config.get("transaction.txnRetention"))
        needed = formats.needed_protocol(_contents(base, self.context.clock.now_ms(), retention), options)
        protocol = _claimed(base.protocol, base.protocol if needed is None else raised(base.protocol, needed), options)
        metadata = base.metadata
        if has_registry(protocol):
            known = {} if base.files.base is None else base.files.base.mappings  # a state of another program has them to itself
            metadata = registered(metadata, known)
            metadata = registered(metadata, Registry.of(metadata).missing(base.files, options.renormalize_threshold))
            protocol = protocol if metadata is base.metadata else raised(protocol, NEEDED)
        news: list[Action] = [] if protocol is base.protocol else [protocol]
        return Draft(news if metadata is base.metadata else [*news, metadata])


def options_of(context: TableContext, snapshot: Snapshot) -> StateOptions:
    """Another program's table gets states that it reads, too: it knows them by `_manifest.avro` (C-40)."""
    return replace(StateOptions.of(context.config), both_manifest_forms=is_foreign(snapshot.protocol))


def _claimed(old: Protocol, new: Protocol, options: StateOptions) -> Protocol:
    """A table that a checkpoint of ours raises, or whose program does not know the format, is ours from then on: a program that could not
    read it whole is to refuse it, not to miss rows. Its Avro states, with splits that are its own, another program reads (field-notes 7).
    """
    is_read = options.format == "avro" if is_foreign(old) else not is_foreign(new)
    return new if is_read else taken_over(new)


def prepare(context: TableContext, snapshot: Snapshot, *, alone: bool = False) -> tuple[Snapshot, int | None]:
    """The snapshot to make a checkpoint of. One that needs a newer protocol commits the upgrade first, as a version of its own (PRT-08);
    then also the version before that.

    An Avro state goes on from the newest one before it, unless that one is damaged and the new one is to stand `alone`.
    """
    if snapshot.checkpoint == snapshot.version:
        return snapshot, None
    if not alone and StateOptions.of(context.config).format == "avro":
        snapshot = on_newest_state(context.log, snapshot)
    outcome = transact(context.log, snapshot, "checkpoint", _Prepare(context), config=context.config, clock=context.clock)
    return outcome.snapshot, None if outcome.version is None else outcome.base_version


def contents_of(context: TableContext, snapshot: Snapshot) -> Contents | None:
    """The plan with this table's options, now; mappings that the table knows are referred to (SDD-05, SDD-06)."""
    contents = plan(snapshot, context.clock.now_ms(), int(context.config.get("transaction.txnRetention")))
    if contents is None:
        return None
    threshold = int(context.config.get("state.schema.renormalizeThreshold"))
    return replace(contents, files=Registry.of(contents.metadata).normalised(contents.files, threshold))


def run(
    context: TableContext,
    snapshot: Snapshot,
    contents: Contents | None,
    *,
    compact: bool = False,
    clean: bool = True,
    before: int | None = None,
) -> Report:
    """`before` is the version that an upgrade was committed on, and null where there was none."""
    report = reporter("checkpoint", str(context.root), context.clock)
    versions = {"base_version": snapshot.version} if before is None else {"base_version": before, "version": snapshot.version}
    metrics = {"num_files": len(snapshot.files), "manifests_written": 0, "manifests_reused": 0, "bytes_written": 0}
    if contents is None:
        cleaned = cleanup(context, snapshot) if clean else CleanupResult()
        status = Status.NO_ACTION if cleaned.is_empty else Status.SUCCESS
        return report(status, metrics | cleaned.metrics, warnings=cleaned.warnings, **versions)
    started = context.clock.now_ms()
    written = formats.write(context.log, contents, options_of(context, snapshot), compact=compact)
    context.log.invalidate_cache()
    write_pointer(context.store, written, context.log.listing().bases, context.clock.now_ms())
    metrics = {name: getattr(written, name) for name in metrics} | _measured(context, written, context.clock.now_ms() - started)
    cleaned = cleanup(context, snapshot) if clean else CleanupResult()
    return report(Status.SUCCESS, metrics | cleaned.metrics, warnings=cleaned.warnings, **versions)


def version_of(report: Report) -> int:
    """Of which version a checkpoint is that was made."""
    version = report.base_version if report.version is None else report.version
    assert version is not None
    return version


def _measured(context: TableContext, written: Written, duration_ms: int) -> dict[str, int]:
    """Logs and counts the checkpoint (OBS-01, 02, 05)."""
    context.metrics.checkpoint_created(duration_ms, written.size, written.compression_percent)
    measures = {"duration_ms": duration_ms, "size_bytes": written.size, "compression_percent": written.compression_percent}
    logger.info(
        "Created checkpoint at version %s: %s entries, %.2fMB",
        written.version,
        written.num_actions,
        written.size / 1_000_000,
        extra={"event": "checkpoint_created", "table": str(context.root), "version": written.version, **measures},
    )
    return measures


def _is_in_format(context: TableContext, snapshot: Snapshot) -> bool:
    version = snapshot.version
    listing = context.log.look(version - 1)
    options = options_of(context, snapshot)
    if options.format == "avro":
        form = "avro" if options.both_manifest_forms else options.manifest_format  # what another program wrote is left as it is
        return listing.stamp(state_path(version, form)) is not None
    return version in {"json": listing.checkpoints, "parquet": listing.parquets}[options.format]


def version_to_be(context: TableContext, snapshot: Snapshot) -> int:
    """Which version the next checkpoint would be of: one after the newest where the table has to say something before (PRT-08)."""
    if snapshot.checkpoint == snapshot.version and _is_in_format(context, snapshot):
        return snapshot.version
    return snapshot.version + bool(_Prepare(context)(snapshot).actions)


def _is_pointed_to(context: TableContext, version: int) -> bool:
    """As one of the format that is asked for."""
    pointer = read_pointer(context.store)
    return pointer is not None and pointer.version == version and pointer.family == context.config.get("state.format")


def checkpoint(context: TableContext, *, compact: bool = False, clean: bool = True) -> Report:
    """Of the newest version, read afresh: a broken checkpoint of it, a broken state that the new one would lean on, and a pointer that is
    missing, broken or names another version or format are mended.

    With `compact` an Avro state is made without dead entries and small manifests, also where the version has one; with `clean` what has
    expired is deleted after it, unless the table is another program's.
    """
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    check_writable(snapshot.protocol)
    bound = context.for_table(snapshot)
    is_new = snapshot.checkpoint != snapshot.version  # then the cost is that of what is new, once a process has read what it leans on
    only = None if is_new or not _is_in_format(bound, snapshot) else bound.config.get("state.format")
    is_broken = snapshot.checkpoint is not None and not formats.is_valid(context.log, snapshot.checkpoint, only, remembering=is_new)
    whole = without_broken_states(context.log, snapshot) if is_broken else snapshot
    if whole.checkpoint == whole.version and (is_broken or only is None):
        whole = replace(whole, checkpoint=None)  # one of another format is no reason not to write this one (MIG-01, MIG-03)
    if whole.checkpoint == whole.version and not _is_pointed_to(bound, whole.version):
        whole = replace(whole, checkpoint=None)  # written again, with the pointer that readers without a listing go by
    if compact and bound.config.get("state.format") == "avro":
        whole = replace(whole, checkpoint=None)
    ready, before = prepare(bound, whole, alone=is_broken)
    clean = clean and not is_foreign(ready.protocol)
    return run(bound, ready, contents_of(bound, ready), compact=compact, clean=clean, before=before)
