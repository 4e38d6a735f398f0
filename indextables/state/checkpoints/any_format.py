"""Writes checkpoints in the configured format, and reads them in every format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from indextables import limits
from indextables.actions import LayeredFiles, Normalise, Protocol, Replay
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointError,
    CheckpointWriteError,
    CommitUnknown,
    LogCorrupted,
    StorageError,
    UnsafePath,
)
from indextables.log import LogListing, TransactionLog, names, packing
from indextables.paths import LOG_FOLDER
from indextables.state.checkpoints import avro
from indextables.state.checkpoints.contents import AVRO_STATE_PROTOCOL, CheckpointOptions, Contents, Format, WrittenCheckpoint
from indextables.state.checkpoints.json import part_list, read_object, read_parts, write_json, write_parts
from indextables.state.checkpoints.parquet import parts_of, read_parquet, write_parquet
from indextables.storage import Store

# Protocol version and feature that reading a checkpoint requires (PRT-01, PRT-04). JSON and Parquet require nothing.
_PROTOCOLS = {Format.JSON_PARTS: Protocol.of(3, "multiPartCheckpoint"), Format.AVRO: Protocol.of(AVRO_STATE_PROTOCOL, "avroState")}


def format_of(contents: Contents, options: CheckpointOptions) -> Format:
    """The format that the options choose for these contents."""
    if options.format != "json":
        return Format.AVRO if options.format == "avro" else Format.PARQUET
    return Format.JSON_PARTS if options.multi_part and contents.num_actions > options.actions_per_part else Format.JSON


def needed_protocol(contents: Contents, options: CheckpointOptions) -> Protocol | None:
    """The protocol that the table needs before this checkpoint is written (PRT-08); None: no requirement. Pure."""
    return _PROTOCOLS.get(format_of(contents, options))


def write_checkpoint(log: TransactionLog, contents: Contents, options: CheckpointOptions, *, compact: bool = False) -> WrittenCheckpoint:
    """Writes the checkpoint of a version and verifies it. A valid existing checkpoint is kept, a broken one is replaced.

    Raises CheckpointError, and ManifestDamaged if a manifest that has to be read is damaged.

    With `compact`, dead entries are removed from an Avro state and small manifests are merged, whatever the thresholds (CMP-04, CMP-05).
    """
    try:
        kept = None if compact else _existing(log, contents, options)
        return kept or _write(log, contents, options, compact=compact)
    except (CheckpointError, avro.ManifestDamaged):
        raise
    except (StorageError, CommitUnknown, LogCorrupted, OSError, pa.ArrowException) as error:
        raise CheckpointWriteError(contents.version, error) from error


def _write(log: TransactionLog, contents: Contents, options: CheckpointOptions, *, compact: bool) -> WrittenCheckpoint:
    now_ms = log.clock.now_ms()
    form = format_of(contents, options)
    if form is Format.AVRO:
        return avro.write_state(log, contents, options, force=compact)
    contents = replace(contents, files=LayeredFiles(avro.FileLoader(log).load(contents.files)))
    if form is Format.PARQUET:
        return write_parquet(log.store, contents, options, now_ms)
    if form is Format.JSON_PARTS:
        return write_parts(log.store, contents, options, log.clock.new_id().replace("-", "")[-12:], now_ms)
    return write_json(log.store, contents, compress=options.gzip)


def _existing(log: TransactionLog, contents: Contents, options: CheckpointOptions) -> WrittenCheckpoint | None:
    """The checkpoint that exists for this version, for example from another program, if it is valid and has the configured format."""
    listing, version = log.uncached_listing(), contents.version
    if version not in listing.bases:
        return None
    try:
        found, form = read_checkpoint(log, listing, version, options.format)
        if form is not format_of(contents, options) or found.num_files != contents.num_files:
            return None
        if form is not Format.AVRO:
            return _describe_existing(log, listing, contents, form)
        has_form = listing.stamp(avro.state_path(version, options.manifest_format)) is not None
        return avro.written_state(log, listing, contents, options) if has_form and avro.is_intact(log, version) else None
    except LogCorrupted:
        return None


def _describe_existing(log: TransactionLog, listing: LogListing, contents: Contents, form: Format) -> WrittenCheckpoint:
    """Describes an existing JSON or Parquet checkpoint."""
    version = contents.version
    more: dict[str, Any] = {}
    if form is Format.PARQUET:
        more = {"parts": parts_of(log.store, version)}
    elif form is Format.JSON_PARTS and (found := part_list(_unpacked(log.store, version))) is not None:
        more = {"parts": len(found.parts), "checkpoint_id": found.checkpoint_id}
    paths = [path for path in listing.checkpoint_files(version) if (names.PARQUET_FOLDER in path) == (form is Format.PARQUET)]
    size = sum(stamp[0] for path in paths if (stamp := listing.stamp(path)) is not None)
    return contents.written(form, size, 0, **more)


def read_checkpoint(log: TransactionLog, listing: LogListing, version: int, only: str | None = None) -> tuple[Replay, Format]:
    """The checkpoint of a version in any valid format, or in the format `only` (a value of `state.format`).

    LogCorrupted lists the problems of all formats that were tried. UnsafePath is raised at once.
    """
    store, normalise = log.store, log.store.root.relative
    problems: dict[str, str] = {}
    for family in families_of(listing, version):
        if only not in (None, family):
            continue
        try:
            if family == "avro":
                return avro.read_state(log, listing, version), Format.AVRO
            return read_json(store, version, normalise) if family == "json" else (read_parquet(store, version, normalise), Format.PARQUET)
        except UnsafePath:
            raise
        except LogCorrupted as error:
            problems[family] = str(error)
    if not problems:
        raise LogCorrupted(f"checkpoint {version} no longer exists")
    paths = {"avro": f"{LOG_FOLDER}/{names.state_folder(version)}", "json": names.checkpoint_path(version)}
    raise CheckpointCorruptionError(paths.get(next(iter(problems)), names.parquet_metadata_path(version)), "; ".join(problems.values()))


def families_of(listing: LogListing, version: int) -> list[str]:
    """The formats (values of `state.format`) in which a version has a checkpoint, valid or not."""
    found = (("avro", listing.states), ("json", listing.checkpoints), ("parquet", listing.parquets))
    return [family for family, versions in found if version in versions]


def is_valid_checkpoint(log: TransactionLog, version: int, only: str | None = None, *, skip_verified: bool = False) -> bool:
    """Whether every byte of the checkpoint is valid; of an Avro state, all manifests are read. `only`: see `read_checkpoint`.

    With `skip_verified`, manifests that this process has verified before are skipped, and only a part of a large state is read. Damage that
    is missed is found when the manifest is read, and nothing is deleted because of a state that was not read in full.
    """
    listing = log.uncached_listing()
    try:
        _, form = read_checkpoint(log, listing, version, only)
    except LogCorrupted:
        return False
    if form is not Format.AVRO:
        return True
    if skip_verified:
        return avro.is_intact(log, version, avro.verified_manifests(log), limits.SPOT_CHECK_BYTES)
    return avro.is_intact(log, version)


def read_json(store: Store, version: int, normalise: Normalise) -> tuple[Replay, Format]:
    """A JSON checkpoint: one object, or a list of parts."""
    try:
        text = _unpacked(store, version)
    except FileNotFoundError:
        raise LogCorrupted(f"checkpoint {version} no longer exists") from None
    found = part_list(text)
    if found is not None:
        return read_parts(store, text, found, version, normalise), Format.JSON_PARTS
    return read_object(text, version, normalise), Format.JSON


def _unpacked(store: Store, version: int) -> bytes:
    return packing.unpack(store.read(names.checkpoint_path(version)), f"checkpoint {version}")
