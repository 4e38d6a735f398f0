"""Checkpoints in every format. `any_format` writes the configured format and reads all of them."""

from __future__ import annotations

from indextables.state.checkpoints.any_format import families_of, is_valid_checkpoint, needed_protocol, read_checkpoint, write_checkpoint
from indextables.state.checkpoints.avro import (
    FileLoader,
    ManifestDamaged,
    StateFigures,
    StateManifest,
    compaction_reason,
    damaged_forms,
    held_bytes,
    is_intact,
    manifest_path,
    matching_manifests,
    read_state_manifest,
    state_metadata,
    state_path,
    state_protocol,
    verified_manifests,
)
from indextables.state.checkpoints.contents import AVRO_STATE_PROTOCOL, FAMILIES, Contents, Format, Written
from indextables.state.checkpoints.options import StateOptions
from indextables.state.checkpoints.schema_registry import NEEDED, Registry, column_values, deduplicated, registered

__all__ = [
    "AVRO_STATE_PROTOCOL",
    "FAMILIES",
    "NEEDED",
    "Contents",
    "FileLoader",
    "Format",
    "ManifestDamaged",
    "Registry",
    "StateFigures",
    "StateManifest",
    "StateOptions",
    "Written",
    "column_values",
    "compaction_reason",
    "damaged_forms",
    "deduplicated",
    "families_of",
    "held_bytes",
    "is_intact",
    "is_valid_checkpoint",
    "manifest_path",
    "matching_manifests",
    "needed_protocol",
    "read_checkpoint",
    "read_state_manifest",
    "registered",
    "state_metadata",
    "state_path",
    "state_protocol",
    "verified_manifests",
    "write_checkpoint",
]
