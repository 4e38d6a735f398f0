"""Encodes actions as JSON lines and decodes them. The single key of a line names its action; unknown actions are counted and ignored."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, get_args

import msgspec

from indextables import limits
from indextables.actions import nulls
from indextables.actions.add_patterns import ADD_PATTERNS, AddBlock, with_commit
from indextables.actions.model import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn
from indextables.errors import LogCorrupted
from indextables.paths import NULL_PARTITION


class _Line(msgspec.Struct, rename="camel"):
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    add: Add | None = None
    remove: Remove | None = None
    mergeskip: Skip | None = None
    commit_info: CommitInfo | None = None
    txn: Txn | None = None

    def actions(self) -> list[Action]:
        return [action for action in msgspec.structs.astuple(self) if action is not None]


_WIRE_KEYS: dict[type[Action], str] = {get_args(field.type)[0]: field.encode_name for field in msgspec.structs.fields(_Line)}
_DECODER = msgspec.json.Decoder(_Line)
# Nearly all lines are `{"add":…}`. The decoder requires the text between to be one complete value, so the line needs no other check.
_ADD = msgspec.json.Decoder(Add)
_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INFO = msgspec.json.Decoder(CommitInfo)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Decoded:
    actions: list[Action]
    unknown: int  # number of lines with an unknown action


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
    """Decodes a line written by this package, which has exactly one known action."""
    (action,) = _DECODER.decode(line).actions()
    return action


def decode_version(data: bytes, source: str, version: int) -> DecodedVersion:
    """Accepts and rejects the same files as `decode_actions`; adds that match a learned pattern are returned undecoded, in blocks."""
    try:
        text = data.decode() if ADD_PATTERNS.has_patterns else ""  # no second copy in memory unless it is used
        pieces = ADD_PATTERNS.split(text, version) if text and NULL_PARTITION not in text else []
        items: list[Action | AddBlock] = []
        unknown = 0
        for piece in pieces:
            if isinstance(piece, AddBlock):
                items.append(piece)
            elif (info := _decode_commit_info(piece)) is not None:
                items.append(info)
            else:
                decoded = decode_actions(piece.encode(), source, version)
                items.extend(decoded.actions)
                unknown += decoded.unknown
        if pieces:
            return DecodedVersion(_with_timestamp(items), unknown)
    except (UnicodeDecodeError, LogCorrupted):
        pass  # decoding the whole file reports the right line number
    whole = decode_actions(data, source, version)
    return DecodedVersion(whole.actions, whole.unknown)


def decode_actions(data: bytes, source: str, version: int | None = None) -> Decoded:
    """Decodes a version file; with `version`, its adds carry that version and the commit's time. LogCorrupted names the malformed line."""
    actions: list[Action] = []
    unknown = adds = 0
    last_add = b""
    decode_add = _ADD.decode
    for number, line in _numbered_lines(data, source):
        if line[:7] == b'{"add":' and line[-2:] == b"}\n":
            try:
                actions.append(decode_add(line[7:-2]))
                adds += 1
                last_add = line
                continue
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass  # `_decode_line` reports what is wrong
        found = _decode_line(line, f"{source}, line {number}")
        actions.extend(found)
        unknown += not found
    if not _is_lossless(data, actions):
        for number, line in _numbered_lines(data, source):
            _refuse_duplicate_keys(line, f"{source}, line {number}")
    if adds:
        ADD_PATTERNS.learn(last_add[:-1].decode(errors="replace"), adds)
    if version is not None:
        timestamp = _timestamp(actions)
        for action in actions:
            if type(action) is Add:
                with_commit(action, version, timestamp)
    return Decoded(actions, unknown)


def _timestamp(items: Iterable[Action | AddBlock]) -> int | None:
    """The time of the commit; None where the writer recorded none."""
    return next((item.timestamp for item in items if type(item) is CommitInfo), None)


def _with_timestamp(items: list[Action | AddBlock]) -> list[Action | AddBlock]:
    """Copies the time of the commit, which only one piece of the file has, to all adds and blocks."""
    timestamp = _timestamp(items)
    if timestamp is not None:
        for item in items:
            if type(item) is AddBlock:
                msgspec.structs.force_setattr(item, "timestamp", timestamp)
            elif type(item) is Add:
                msgspec.structs.force_setattr(item, "added_at_timestamp", timestamp)
    return items


def _decode_commit_info(text: str) -> CommitInfo | None:
    """Decodes a piece that is a single `commitInfo` line, as our commits begin; None: the piece needs `decode_actions`."""
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
    """The known key of a line like `{"add":null}`. Such a line is damaged: counting it as an unknown action would lose an action."""
    values = _VALUES.decode(line)
    known = sorted(values.keys() & set(_WIRE_KEYS.values()))
    return known[0] if known and all(bytes(value) == b"null" for value in values.values()) else None


def _is_lossless(data: bytes, actions: Sequence[Action]) -> bool:
    """Whether decoding dropped nothing, so that no key can be duplicated: the text has as many quotes as the encoded actions.

    Everything that decoding drops (the first of two equal keys, an unknown key, a null) has quotes. Two things could add quotes and hide
    that: `\\u0022`, and fields that are always written; actions with such fields must therefore occur exactly as we encode them.
    Never wrong when True, and cheap: files of our own writers are not parsed twice.
    """
    if b"\\u" in data:
        return False
    whole = [encode_action(action) + b"\n" for action in actions if isinstance(action, Metadata | Remove)]
    if whole and not Counter(whole) <= Counter(BytesIO(data)):
        return False
    return data.count(b'"') == 2 * len(actions) + _ENCODER.encode(actions).count(b'"')


def _numbered_lines(data: bytes, source: str) -> Iterator[tuple[int, bytes]]:
    """Yields every line that is not blank, with its number from 1; LogCorrupted names a line that is too long or has too many values."""
    for number, line in enumerate(BytesIO(data), start=1):
        if len(line) > limits.LINE_CHECKED_BYTES:
            _refuse_oversized(line, f"{source}, line {number}")
        if not line.isspace():
            yield number, line


def _refuse_oversized(line: bytes, place: str) -> None:
    if len(line) > limits.LINE_BYTES:
        raise LogCorrupted(f"{place} is longer than {limits.LINE_BYTES} bytes")
    if line.count(b",") > limits.LINE_VALUES:
        raise LogCorrupted(f"{place} has more than {limits.LINE_VALUES} values")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:80]} is too large a number")
    return number


def _refuse_duplicate_keys(line: bytes, place: str) -> None:
    """LogCorrupted if an object has a duplicate key or a number is infinite: readers would disagree on which value counts."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise LogCorrupted(f"{place} has the key {key[:80]!r} twice")
            seen.add(key)

    try:
        json.loads(line, object_pairs_hook=check, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise LogCorrupted(f"{place} is not an action: {error}") from error
