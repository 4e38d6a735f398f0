"""`_last_checkpoint`: a hint that saves listing a long log from its start. Written after a checkpoint; a listing takes precedence."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from indextables.actions import Int64
from indextables.log import names
from indextables.state.checkpoints import FAMILIES, Format, WrittenCheckpoint
from indextables.storage import Store


class Pointer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The contents of `_last_checkpoint`. Readers only need the version; the other fields are for information."""

    version: Int64
    size: int | None = None  # number of actions
    size_in_bytes: int | None = None
    num_files: int | None = None
    created_time: int | None = None
    format: str | None = None
    parts: int | None = None
    checkpoint_id: str | None = None
    state_dir: str | None = None

    @property
    def family(self) -> str | None:
        """The format as a value of `state.format`; JSON if the pointer has none (LCP-03)."""
        return FAMILIES.get(self.format or Format.JSON)


# Created at import, for the reason in splits/format/bundle.py.
_POINTER = msgspec.json.Decoder(Pointer)


def write_pointer(store: Store, checkpoint: WrittenCheckpoint, existing: Collection[int], now_ms: int) -> None:
    """Points to `checkpoint`, unless the pointer names a later checkpoint that exists."""
    known = read_pointer(store)
    if known is not None and known.version > checkpoint.version and known.version in existing:
        return
    pointer = Pointer(
        version=checkpoint.version,
        size=checkpoint.num_actions,
        size_in_bytes=checkpoint.size,
        num_files=checkpoint.num_files,
        created_time=now_ms,
        format=checkpoint.format.value,
        parts=checkpoint.parts,
        checkpoint_id=checkpoint.checkpoint_id,
        state_dir=checkpoint.state_dir,
    )
    store.replace(names.pointer_path(), msgspec.json.encode(pointer))


def read_pointer(store: Store) -> Pointer | None:
    """The pointer; None if it is missing or broken."""
    try:
        return _POINTER.decode(store.read(names.pointer_path()).decode())  # decode(): ignored keys must be UTF-8 too
    except (FileNotFoundError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
