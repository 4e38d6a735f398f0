"""JSON checkpoints: one sealed object (`single`), or action lines in several parts (`multipart`)."""

from __future__ import annotations

from indextables.state.checkpoints.json.multipart import part_list, read_parts, write_head, write_parts
from indextables.state.checkpoints.json.single import read_object, write_json
