"""Files derived from the log that can always be rebuilt: checkpoints, the pointer, the schema registry.

Start with `read_checkpoint` and `write_checkpoint`, which handle all formats. `retention` (pure) decides what may be deleted.
"""

from __future__ import annotations

from indextables.state import retention
from indextables.state.checkpoints.any_format import families_of, is_valid_checkpoint, needed_protocol, read_checkpoint, write_checkpoint
from indextables.state.checkpoints.avro.compaction import StateFigures, compaction_reason
from indextables.state.checkpoints.avro.file_loader import FileLoader, ManifestDamaged, held_bytes, matching_manifests, verified_manifests
from indextables.state.checkpoints.avro.read import is_intact
from indextables.state.checkpoints.avro.state_files import (
    StateManifest,
    damaged_forms,
    declared_protocol,
    manifest_path,
    read_state_manifest,
    state_metadata,
    state_path,
    state_protocol,
)
from indextables.state.checkpoints.contents import AVRO_STATE_PROTOCOL, CheckpointOptions, Contents, Format, WrittenCheckpoint
from indextables.state.checkpoints.json.multipart import part_list
from indextables.state.checkpoints.schema_registry import NEEDED, Registry, column_values, deduplicated, registered
from indextables.state.inventory import File, Inventory, checksum_file
from indextables.state.pointer import read_pointer, write_pointer
from indextables.state.retention import ANY_AGE, Deletion, FileKind, LogFacts, NotGathered, Plan, Policy, base_time, unchecked_base
