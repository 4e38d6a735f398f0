"""JSON checkpoints: one sealed object (`single`), or action lines in several parts (`multipart`)."""

from __future__ import annotations

from indextables.state.checkpoints.json.multipart import part_list, put_last, read_parts, write_parts
from indextables.state.checkpoints.json.single import put_all, read_object, write_json

__all__ = [
    "part_list",
    "put_all",
    "put_last",
    "read_object",
    "read_parts",
    "write_json",
    "write_parts",
]
