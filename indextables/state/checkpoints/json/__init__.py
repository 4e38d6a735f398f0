"""JSON checkpoints: one sealed object (`single`), or action lines in several parts (`multipart`).

Start with `write_json` and `read_object` for the former, and with `write_parts` and `read_parts` for the latter.
"""

from __future__ import annotations

from indextables.state.checkpoints.json.multipart import part_list, read_parts, write_head, write_parts
from indextables.state.checkpoints.json.single import read_object, write_json
