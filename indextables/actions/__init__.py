"""The actions of the log, their JSON encoding, and their replay into a table state. Pure: nothing here reads a store.

Start with the structs in `model`, such as `Add` and `Metadata`, and with `Replay`, which applies them version by version. `decode_version`
and `encode_actions` convert the bytes of a version file.
"""

from __future__ import annotations

from indextables.actions import columns, nulls
from indextables.actions.add_patterns import AddBlock, decoded
from indextables.actions.codec import decode_action, decode_actions, decode_version, encode_action, encode_actions
from indextables.actions.columns import STRINGS, strings_of, without_nulls
from indextables.actions.layers import Bounds, LayeredFiles, Manifest, ManifestSet
from indextables.actions.live import LiveFiles, Totals, restored
from indextables.actions.model import (
    MAPPING_PREFIX,
    Action,
    Add,
    CommitInfo,
    Count,
    FileFormat,
    Int32,
    Int64,
    Metadata,
    Protocol,
    Remove,
    Skip,
    Txn,
)
from indextables.actions.replay import Normalise, Replay
from indextables.actions.segments import Part, Segment, encoded, take_rows
