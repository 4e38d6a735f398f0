"""Avro states: a state manifest that references shared manifests of file entries."""

from __future__ import annotations

from indextables.state.checkpoints.avro.compaction import StateFigures, compaction_reason
from indextables.state.checkpoints.avro.file_loader import FileLoader, ManifestDamaged, held_bytes, matching_manifests
from indextables.state.checkpoints.avro.read import read_state
from indextables.state.checkpoints.avro.state_check import is_intact, verified_manifests
from indextables.state.checkpoints.avro.state_files import (
    StateManifest,
    damaged_forms,
    manifest_path,
    read_state_manifest,
    state_metadata,
    state_path,
    state_protocol,
)
from indextables.state.checkpoints.avro.write import write_state, written_state

__all__ = [
    "FileLoader",
    "ManifestDamaged",
    "StateFigures",
    "StateManifest",
    "compaction_reason",
    "damaged_forms",
    "held_bytes",
    "is_intact",
    "manifest_path",
    "matching_manifests",
    "read_state",
    "read_state_manifest",
    "state_metadata",
    "state_path",
    "state_protocol",
    "verified_manifests",
    "write_state",
    "written_state",
]
