"""Checkpoints in every format. `any_format` writes the configured format and reads all of them."""

from __future__ import annotations

from indextables.state.checkpoints.contents import FAMILIES, Format, WrittenCheckpoint
