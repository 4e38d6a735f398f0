"""Actions as JSON lines, and back. A line has one key, which names its action; unknown actions are counted, not understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO

import msgspec

from indextables import limits
from indextables.actions import nulls
from indextables.actions.add_patterns import ADD_PATTERNS, AddBlock, with_commit
from indextables.actions.lines import numbered_lines, refuse_duplicate_keys
from indextables.actions.model import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn, WireMetadata
from indextables.errors import LogCorrupted
from indextables.paths import NULL_PARTITION

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
_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INFO = msgspec.json.Decoder(CommitInfo)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Decoded:
    actions: list[Action]
    unknown: int  # lines whose action we do not know


@dataclass(frozen=True, slots=True)
class DecodedVersion:
    items: Sequence[Action | AddBlock]  # in the order of the file
    unknown: int


def encode_action(action: Action) -> bytes:
    """One line, without the newline."""
    return _ENCODER.encode({_WIRE_KEYS[type(action)]: action})


def encode_actions(actions: Iterable[Action]) -> bytes:
    return b"".join(encode_action(action) + b"\n" for action in actions)


def decode_action(line: bytes | str) -> Action:
    """The one known action of a line that we wrote ourselves."""
    (action,) = _DECODER.decode(line).actions()
    return action


def decode_version(data: bytes, source: str, version: int) -> DecodedVersion:
    """What `decode_actions` gives and refuses, but adds that are spelt like others before them stay as they are, in blocks."""
    try:
        text = data.decode() if ADD_PATTERNS.has_patterns else ""  # a large file is not in memory twice for nothing
        pieces = ADD_PATTERNS.split(text, version) if text and NULL_PARTITION not in text else []
        items: list[Action | AddBlock] = []
        unknown = 0
        for piece in pieces:
            if isinstance(piece, AddBlock):
                items.append(piece)
            elif (info := _info(piece)) is not None:
                items.append(info)
            else:
                decoded = decode_actions(piece.encode(), source, version)
                items.extend(decoded.actions)
                unknown += decoded.unknown
        if pieces:
            return DecodedVersion(_timed(items), unknown)
    except (UnicodeDecodeError, LogCorrupted):
        pass  # all in one piece it is said which line is wrong
    whole = decode_actions(data, source, version)
    return DecodedVersion(whole.actions, whole.unknown)


def decode_actions(data: bytes, source: str, version: int | None = None) -> Decoded:
    """The actions of a version file, whose adds say that they came with it; LogCorrupted names the source and line that is malformed."""
    actions: list[Action] = []
    unknown = adds = 0
    last_add = b""
    decode_add = _ADD.decode
    for number, line in numbered_lines(data, source):
        if line[:7] == b'{"add":' and line[-2:] == b"}\n":
            try:
                actions.append(decode_add(line[7:-2]))
                adds += 1
                last_add = line
                continue
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass  # the long way says what is wrong with it
        found = _decode_line(line, f"{source}, line {number}")
        actions.extend(found)
        unknown += not found
    if not _says_nothing_else(data, actions):
        for number, line in numbered_lines(data, source):
            refuse_duplicate_keys(line, f"{source}, line {number}")
    if adds:
        ADD_PATTERNS.learn(last_add[:-1].decode(errors="replace"), adds)
    if version is not None:
        timestamp = _timestamp(actions)
        for action in actions:
            if type(action) is Add:
                with_commit(action, version, timestamp)
    return Decoded(actions, unknown)


def _timestamp(items: Iterable[Action | AddBlock]) -> int | None:
    """Of the commit, as far as it says."""
    return next((item.timestamp for item in items if type(item) is CommitInfo), None)


def _timed(items: list[Action | AddBlock]) -> list[Action | AddBlock]:
    """Adds and blocks with the time of the commit, which only one of the pieces had."""
    timestamp = _timestamp(items)
    if timestamp is not None:
        for item in items:
            if type(item) is AddBlock:
                msgspec.structs.force_setattr(item, "timestamp", timestamp)
            elif type(item) is Add:
                msgspec.structs.force_setattr(item, "added_at_timestamp", timestamp)
    return items


def _info(text: str) -> CommitInfo | None:
    """That of a text which is one line with nothing else, as every commit of ours begins; None says nothing."""
    is_one_line = text.startswith('{"commitInfo":') and text.endswith("}\n") and text.find("\n") == len(text) - 1
    if not is_one_line or "\\" in text or len(text) > limits.LINE_CHECKED_BYTES // 4:
        return None
    try:
        info = _INFO.decode(text[14:-2])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return info if text.count('"') == 2 + _ENCODER.encode(info).count(b'"') else None


def _decode_line(line: bytes, place: str) -> Sequence[Action]:
    try:
        found = nulls.decode(_DECODER, line).actions()
        null = None if found else _null_action(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"{place} is not an action: {error}") from error
    if len(found) > 1:
        raise LogCorrupted(f"{place} has more than one action")
    if null is not None:
        raise LogCorrupted(f"{place} has no action: {null!r} is null")
    return found


def _null_action(line: bytes) -> str | None:
    """The key of a line like `{"add":null}`, which is no unknown action: its writer meant one that we know, and lost it."""
    values = _VALUES.decode(line)
    known = sorted(values.keys() & set(_WIRE_KEYS.values()))
    return known[0] if known and all(bytes(value) == b"null" for value in values.values()) else None


def _says_nothing_else(data: bytes, actions: Sequence[Action]) -> bool:
    """Whether every key of the text is one of the actions', once: then it has as many quotes as the actions when they are written again.

    Whatever decoding dropped (the first of two equal keys, an unknown key, a null) had quotes; only `\\u0022` could add some, and what is
    always written: such actions must be there as we would write them. Exact in what it accepts, and cheap: our own files are never parsed
    twice.
    """
    if b"\\u" in data:
        return False
    whole = [encode_action(action) + b"\n" for action in actions if isinstance(action, Metadata | Remove)]
    if whole and not Counter(whole) <= Counter(BytesIO(data)):
        return False
    return data.count(b'"') == 2 * len(actions) + _ENCODER.encode(actions).count(b'"')
