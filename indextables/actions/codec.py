"""Actions as JSON lines, and back. A line has one key, which names its action; unknown actions are counted, not understood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from indextables.actions.lines import numbered_lines, refuse_duplicate_keys
from indextables.actions.model import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn, WireMetadata
from indextables.errors import LogCorrupted

_WIRE_KEYS: dict[type[Action], str] = {
    Protocol: "protocol",
    Metadata: "metaData",
    Add: "add",
    Remove: "remove",
    Skip: "mergeskip",
    CommitInfo: "commitInfo",
    Txn: "txn",
}


class _Line(msgspec.Struct, rename="camel"):
    protocol: Protocol | None = None
    meta_data: WireMetadata | None = None
    add: Add | None = None
    remove: Remove | None = None
    mergeskip: Skip | None = None
    commit_info: CommitInfo | None = None
    txn: Txn | None = None

    def actions(self) -> list[Action]:
        metadata = None if self.meta_data is None else self.meta_data.metadata()
        known = (self.protocol, metadata, self.add, self.remove, self.mergeskip, self.commit_info, self.txn)
        return [action for action in known if action is not None]


_DECODER = msgspec.json.Decoder(_Line)
# Nearly all lines of a log are adds spelt like this; what stands between must be one whole value, so the line is as good as checked.
_ADD = msgspec.json.Decoder(Add)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Decoded:
    actions: list[Action]
    unknown: int  # lines whose action we do not know


def encode_action(action: Action) -> bytes:
    """One line, without the newline."""
    return _ENCODER.encode({_WIRE_KEYS[type(action)]: action})


def encode_actions(actions: Iterable[Action]) -> bytes:
    return b"".join(encode_action(action) + b"\n" for action in actions)


def decode_action(line: bytes | str) -> Action:
    """The one known action of a line that we wrote ourselves."""
    (action,) = _DECODER.decode(line).actions()
    return action


def decode_actions(data: bytes, source: str, version: int | None = None) -> Decoded:
    """The actions of a version file, whose adds say that they came with it; LogCorrupted names the source and line that is malformed."""
    actions: list[Action] = []
    unknown = 0
    decode_add = _ADD.decode
    for number, line in numbered_lines(data, source):
        if line[:7] == b'{"add":' and line[-2:] == b"}\n":
            try:
                actions.append(decode_add(line[7:-2]))
                continue
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass  # the long way says what is wrong with it
        found = _decode_line(line, f"{source}, line {number}")
        actions.extend(found)
        unknown += not found
    if not _says_nothing_else(data, actions):
        for number, line in numbered_lines(data, source):
            refuse_duplicate_keys(line, f"{source}, line {number}")
    if version is not None:
        for action in actions:
            if type(action) is Add:
                msgspec.structs.force_setattr(action, "added_at_version", version)  # no one else has it yet
    return Decoded(actions, unknown)


def _decode_line(line: bytes, place: str) -> Sequence[Action]:
    try:
        found = _DECODER.decode(line).actions()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"{place} is not an action: {error}") from error
    if len(found) > 1:
        raise LogCorrupted(f"{place} has more than one action")
    return found


def _says_nothing_else(data: bytes, actions: Sequence[Action]) -> bool:
    """Whether every key of the text is one of the actions', once: then it has as many quotes as the actions when they are written again.

    Whatever decoding dropped (the first of two equal keys, an unknown key, a null) had quotes; only `\\u0022` and what metadata leaves
    out could add some. Exact in what it accepts, and cheap: our own files are never parsed twice.
    """
    if b"\\u" in data or any(type(action) is Metadata for action in actions):
        return False
    return data.count(b'"') == 2 * len(actions) + _ENCODER.encode(actions).count(b'"')
