"""Checkpoint: writes the table's newest version to separate files, so that readers do not have to replay the whole log."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from indextables.actions import Action, LayeredFiles, Protocol
from indextables.log import names
from indextables.logs import logger
from indextables.operations.checkpoint.cleanup import EXPIRING, cleanup, preview_cleanup
from indextables.operations.checkpoint.plan import plan_checkpoint
from indextables.operations.deletion import Deleted
from indextables.operations.report import Report, Status, dry_run_report, reporter
from indextables.operations.verbs import Checkpoint
from indextables.state import (
    NEEDED,
    CheckpointOptions,
    Contents,
    FileKind,
    FileLoader,
    ManifestDamaged,
    Plan,
    Registry,
    WrittenCheckpoint,
    column_values,
    is_valid_checkpoint,
    needed_protocol,
    read_pointer,
    registered,
    state_path,
    write_checkpoint,
    write_pointer,
)
from indextables.table import (
    Draft,
    Snapshot,
    TableContext,
    check_writable,
    has_registry,
    is_foreign,
    on_newest_state,
    on_undamaged_base,
    taken_over,
    transact,
    upgraded_to,
    without_broken_states,
)


def _needed_actions(context: TableContext, base: Snapshot) -> list[Action]:
    """The protocol and metadata that must be committed before the checkpoint can be written; usually none."""
    options = options_of(context, base)
    needed = needed_protocol(_unnormalised_contents(context, base), options)
    protocol = _taken_over_if_unreadable(base.protocol, base.protocol if needed is None else upgraded_to(base.protocol, needed), options)
    metadata = base.metadata
    if has_registry(protocol):
        known = {} if base.layers.base is None else base.layers.base.mappings  # only the state has them if another program wrote it
        metadata = registered(metadata, known)
        registry = Registry.of(metadata)
        metadata = registered(metadata, registry.missing(base.layers, _renamed(context, base, registry)))
        protocol = protocol if metadata is base.metadata else upgraded_to(protocol, NEEDED)
    changed: list[Action] = [] if protocol is base.protocol else [protocol]
    return changed if metadata is base.metadata else [*changed, metadata]


def options_of(context: TableContext, snapshot: Snapshot) -> CheckpointOptions:
    """The options of the state. A table of another program also gets a `_manifest.avro`, by which that program finds the state (C-40)."""
    return replace(CheckpointOptions.of(context.config), both_manifest_forms=is_foreign(snapshot.protocol))


def _taken_over_if_unreadable(old: Protocol, new: Protocol, options: CheckpointOptions) -> Protocol:
    """Takes the table over if its own program could not read all rows after the checkpoint, so that it refuses the table instead.

    This is the case after a protocol upgrade, or if that program does not know the format. It can read our Avro states of its own splits.
    """
    is_read = options.format == "avro" if is_foreign(old) else not is_foreign(new)
    return new if is_read else taken_over(new)


def prepare(context: TableContext, snapshot: Snapshot, *, self_contained: bool = False) -> tuple[Snapshot, int | None]:
    """The snapshot to checkpoint. A needed protocol upgrade is committed first as a separate version (PRT-08); the second value is then the
    version it was committed on, else None.

    An Avro state continues the newest state before it, unless that one is damaged (`self_contained`).
    """
    if snapshot.checkpoint == snapshot.version:
        return snapshot, None
    snapshot = _on_newest_state(context, snapshot, self_contained=self_contained)

    def build(base: Snapshot) -> Draft:
        return Draft(_needed_actions(context, base))

    outcome = transact(context.log, snapshot, "checkpoint", build, config=context.config, clock=context.clock)
    return outcome.snapshot, None if outcome.version is None else outcome.base_version


def _on_newest_state(context: TableContext, snapshot: Snapshot, *, self_contained: bool) -> Snapshot:
    is_avro = CheckpointOptions.of(context.config).format == "avro"
    return on_newest_state(context.log, snapshot) if is_avro and not self_contained else snapshot


def _unnormalised_contents(context: TableContext, snapshot: Snapshot) -> Contents:
    return plan_checkpoint(snapshot, context.totals(snapshot), context.clock.now_ms(), context.config.get("transaction.txnRetention"))


def checkpoint_contents(context: TableContext, snapshot: Snapshot) -> Contents:
    """The contents of the checkpoint with the table's options; registered doc mappings are replaced by references (SDD-05, SDD-06)."""
    contents = _unnormalised_contents(context, snapshot)
    registry = Registry.of(contents.metadata)
    renamed = _renamed(context, snapshot, registry)
    files = _without_base(context, snapshot, renamed.keys()) if renamed else contents.files
    return replace(contents, files=registry.normalised(files, renamed))


def _renamed(context: TableContext, snapshot: Snapshot, registry: Registry) -> dict[str, str]:
    """References of live files to rename to hashes (SDD-05). Files are loaded only if the registry has references that are not hashes."""
    threshold = int(context.config.get("state.schema.renormalizeThreshold"))
    if not registry.outdated(threshold):
        return {}
    return registry.renamed(column_values(context.load(snapshot).files.all_parts, "doc_mapping_ref"), threshold)


def _without_base(context: TableContext, snapshot: Snapshot, refs: Collection[str]) -> LayeredFiles:
    """The files of the snapshot. If its state has entries with one of these references, all files are loaded and the state is not reused.

    All other contents of a state were normalised when it was written.
    """
    parts = on_undamaged_base(context.log, snapshot, lambda sound: FileLoader(context.log).parts(sound.layers))
    if set(refs).isdisjoint(column_values(parts, "doc_mapping_ref")):
        return snapshot.layers
    return LayeredFiles(context.load(snapshot).files)


def run(context: TableContext, snapshot: Snapshot, *, compact: bool = False, clean: bool = True, before: int | None = None) -> Report:
    """Writes the checkpoint unless the version has one, cleans up and returns the report.

    `before` is the version that a protocol upgrade was committed on, if there was one.
    """
    report = reporter("checkpoint", str(context.root), context.clock)
    versions = {"base_version": snapshot.version} if before is None else {"base_version": before, "version": snapshot.version}
    metrics = {"num_files": context.totals(snapshot).num_files, "manifests_written": 0, "manifests_reused": 0, "bytes_written": 0}
    has_one = snapshot.checkpoint == snapshot.version
    if not has_one:
        started = context.clock.now_ms()
        written = _written(context, snapshot, checkpoint_contents(context, snapshot), compact=compact)
        context.log.invalidate_cache()
        write_pointer(context.store, written, context.log.listing().bases, context.clock.now_ms())
        metrics = {name: getattr(written, name) for name in metrics} | _measured(context, written, context.clock.now_ms() - started)
    deleted, warnings = cleanup(context, snapshot) if clean else ({}, ())
    status = Status.NO_ACTION if has_one and not any(deleted.values()) else Status.SUCCESS
    return report(status, metrics | deleted, warnings=warnings, **versions)


def _written(context: TableContext, snapshot: Snapshot, contents: Contents, *, compact: bool) -> WrittenCheckpoint:
    """Writes the checkpoint. If the state to continue turns out to be damaged, all files are loaded from an older base instead."""
    options = options_of(context, snapshot)
    try:
        return write_checkpoint(context.log, contents, options, compact=compact)
    except ManifestDamaged:
        loaded = context.load(snapshot).files
        whole = replace(contents, files=LayeredFiles(loaded), totals=loaded.totals)
        return write_checkpoint(context.log, whole, options, compact=compact)


def checkpoint_version(report: Report) -> int:
    """The version of the checkpoint that the report is about."""
    version = report.base_version if report.version is None else report.version
    assert version is not None
    return version


def _measured(context: TableContext, written: WrittenCheckpoint, duration_ms: int) -> dict[str, int]:
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
    listing = context.log.uncached_listing(version - 1)
    options = options_of(context, snapshot)
    if options.format == "avro":
        form = "avro" if options.both_manifest_forms else options.manifest_format  # a state of another program is left unchanged
        return listing.stamp(state_path(version, form)) is not None
    return any(listing.stamp(path) is not None for path in names.heads(version)[options.format])


def next_checkpoint_version(context: TableContext, snapshot: Snapshot) -> int:
    """The version of the next checkpoint: the newest, or the one after it if a protocol upgrade must be committed first (PRT-08)."""
    if snapshot.checkpoint == snapshot.version and _is_in_format(context, snapshot):
        return snapshot.version
    return snapshot.version + bool(_needed_actions(context, snapshot))


def _is_pointed_to(context: TableContext, version: int) -> bool:
    """Whether the pointer names this version, with the configured format."""
    pointer = read_pointer(context.store)
    return pointer is not None and pointer.version == version and pointer.family == context.config.get("state.format")


def checkpoint(request: Checkpoint, context: TableContext, *, clean: bool = True) -> Report:
    """Writes a checkpoint of the newest version, which is read again from the store.

    Repairs a damaged checkpoint of that version, a damaged state that the new one would continue, and a missing, damaged or outdated
    pointer. With `compact` an Avro state is rewritten without dead entries and small manifests, even if the version has one. With `clean`
    expired files are deleted afterwards, unless the table belongs to another program. A dry run reports both and changes nothing.
    """
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    check_writable(snapshot.protocol)
    bound = context.for_table(snapshot)
    is_new = snapshot.checkpoint != snapshot.version  # then files this process has verified before are not read again
    only = None if is_new or not _is_in_format(bound, snapshot) else bound.config.get("state.format")
    is_broken = snapshot.checkpoint is not None and not is_valid_checkpoint(context.log, snapshot.checkpoint, only, skip_verified=is_new)
    target = without_broken_states(context.log, snapshot) if is_broken else snapshot
    is_unusable = is_broken or only is None  # a checkpoint in another format does not replace this one (MIG-01, MIG-03)
    rewrites = target.checkpoint == target.version and (is_unusable or not _is_pointed_to(bound, target.version))
    if rewrites or (request.compact and bound.config.get("state.format") == "avro"):
        target = replace(target, checkpoint=None)
    if request.dry_run:
        return _dry_run_report(bound, target, self_contained=is_broken, clean=clean)
    ready, before = prepare(bound, target, self_contained=is_broken)
    clean = clean and not is_foreign(ready.protocol)
    return run(bound, ready, compact=request.compact, clean=clean, before=before)


def _dry_run_report(context: TableContext, snapshot: Snapshot, *, self_contained: bool, clean: bool) -> Report:
    """The report of a dry run. The numbers of bytes and manifests are left out, since they are known only after writing."""
    report = reporter("checkpoint", str(context.root), context.clock)
    steps: list[dict[str, Any]] = []
    version, protocol = snapshot.version, snapshot.protocol
    if snapshot.checkpoint != version:
        actions = _needed_actions(context, _on_newest_state(context, snapshot, self_contained=self_contained))
        protocol = next((action for action in actions if isinstance(action, Protocol)), protocol)
        version += bool(actions)
        if actions:
            reason = f"the checkpoint needs a newer {'protocol' if protocol is not snapshot.protocol else 'schema registry'}"
            steps.append({"action": "commit", "path": names.version_path(version), "kind": str(FileKind.VERSION), "reason": reason})
        steps.append(_written_file(context, snapshot, version))
    form = context.config.get("state.format")
    planned = preview_cleanup(context, version, is_state=form == "avro") if clean and not is_foreign(protocol) else Plan([])
    steps += [{"action": "delete", **line} for deletion in planned.deletions for line in deletion.describe()]
    metrics = {"num_files": context.totals(snapshot).num_files, **Deleted(planned.deletions).counts(*EXPIRING)}
    return dry_run_report(report, steps, metrics, snapshot.version, planned.kept_reasons)


def _written_file(context: TableContext, snapshot: Snapshot, version: int) -> dict[str, Any]:
    """The main file of the checkpoint, as a step of the plan."""
    form = context.config.get("state.format")
    avro = "avro" if is_foreign(snapshot.protocol) else context.config.get("state.manifestFormat")
    path = state_path(version, avro) if form == "avro" else names.heads(version)[form][0]
    kind = FileKind.STATE if form == "avro" else FileKind.CHECKPOINT
    return {"action": "write", "path": path, "kind": str(kind), "reason": f"version {version} has no valid {form} checkpoint"}
