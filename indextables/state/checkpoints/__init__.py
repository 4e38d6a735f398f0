"""Checkpoints in every format. `any_format` writes the configured format and reads all of them."""

from __future__ import annotations

from indextables.state.checkpoints.any_format import families_of, is_valid_checkpoint, needed_protocol, read_checkpoint, write_checkpoint
from indextables.state.checkpoints.avro import (
    FileLoader,
    ManifestDamaged,
    StateFigures,
    StateManifest,
    damaged_forms,
    held_bytes,
    is_whole,
    manifest_path,
    read_state_manifest,
    reason,
    state_metadata,
    state_path,
    state_protocol,
    verified_manifests,
    within,
)
from indextables.state.checkpoints.contents import FAMILIES, Contents, Format, Written
from indextables.state.checkpoints.options import StateOptions
from indextables.state.checkpoints.schema_registry import NEEDED, Registry, column_values, deduplicated, registered

__all__ = [
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
    "damaged_forms",
    "deduplicated",
    "families_of",
    "held_bytes",
    "is_valid_checkpoint",
    "is_whole",
    "manifest_path",
    "needed_protocol",
    "read_checkpoint",
    "read_state_manifest",
    "reason",
    "registered",
    "state_metadata",
    "state_path",
    "state_protocol",
    "verified_manifests",
    "within",
    "write_checkpoint",
]
