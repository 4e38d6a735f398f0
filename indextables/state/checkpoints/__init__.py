"""Checkpoints in every format: Avro states, JSON (one file or several) and Parquet.

Start with `any_format`, which writes the configured format and reads all of them. `contents` says what a checkpoint of any format contains.
"""

from __future__ import annotations

from indextables.state.checkpoints.contents import FAMILIES, Format, WrittenCheckpoint
