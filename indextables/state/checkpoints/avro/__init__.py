"""Avro states: a state manifest that references shared manifests of file entries.

Start with `write_state` and `read_state`. Reading a state does not read its manifests: `FileLoader` loads their entries when they are
needed.
"""

from __future__ import annotations

from indextables.state.checkpoints.avro.file_loader import FileLoader, ManifestDamaged, verified_manifests
from indextables.state.checkpoints.avro.read import is_intact, read_state
from indextables.state.checkpoints.avro.state_files import state_path
from indextables.state.checkpoints.avro.write import write_state, written_state
