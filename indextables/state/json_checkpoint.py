"""JSON checkpoints: the table at one version as one object, `{version, protocol, metaData, add: […], txn: […], digest}`, gzip.

The digest covers everything else, so that a file that was cut, edited, or copied over another is noticed and ignored. Other writers
left JSON lines of actions under the same name, without a digest, or a list of parts with such lines; those are read too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import msgspec

from indextables import limits
from indextables.actions import Action, Add, Metadata, Protocol, Skip, Txn
from indextables.actions.codec import decode_actions
from indextables.actions.replay import Normalise, Replay
from indextables.errors import CheckpointError, LogCorrupted, UnsafePath
from indextables.log import files, names
from indextables.paths import LOG_FOLDER, check_relative
from indextables.storage import Store

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}$')


class CheckpointDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    version: int | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    add: list[Add]
    txn: list[Txn] | None = None
    mergeskip: list[Skip] | None = None


# At import, for the reason in splits/bundle.py.
_DOCUMENT = msgspec.json.Decoder(CheckpointDocument)


class _PartList(msgspec.Struct, frozen=True):
    """The manifest of a multi-part checkpoint."""

    parts: list[str]


# At import, for the reason in splits/bundle.py.
_PART_LIST = msgspec.json.Decoder(_PartList)


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    version: int
    num_files: int
    num_actions: int
    size: int


def write_checkpoint(store: Store, document: CheckpointDocument, *, compress: bool = True) -> WrittenCheckpoint:
    """Writes and reads back; an equal or valid one that is there already is kept, a broken one is replaced."""
    if document.version is None:
        raise CheckpointError("a checkpoint needs the version it stands for")
    data = files.pack(_sealed(msgspec.json.encode(document)), compress=compress)
    path = names.checkpoint_path(document.version)
    if not store.create(path, data) and _try_decode(store.read(path), document.version) is None:
        store.replace(path, data)
    stored = store.read(path)
    found = _try_decode(stored, document.version)
    if found is None or len(found.add) != len(document.add):
        raise CheckpointError(f"checkpoint {document.version} does not read back as it was written")
    return WrittenCheckpoint(document.version, len(found.add), len(found.add) + 2 + len(found.txn or []), len(stored))


def read_checkpoint(store: Store, version: int, normalise: Normalise) -> Replay:
    """The state a checkpoint holds; LogCorrupted if it is damaged, or is not the checkpoint of that version."""
    try:
        data = store.read(names.checkpoint_path(version))
    except FileNotFoundError:
        raise LogCorrupted(f"checkpoint {version} is gone") from None
    text = files.unpack(data, f"checkpoint {version}")
    parts = _part_list(text)
    document = _decode_text(text, version) if parts is None else _decode_parts(store, parts, version)
    replay = Replay(normalise, protocol=document.protocol, metadata=document.meta_data)
    for add in document.add:
        replay.put(add)
    for txn in document.txn or []:
        replay.put_txn(txn)
    for skip in document.mergeskip or []:
        replay.put_skip(skip)
    return replay


def _try_decode(data: bytes, version: int) -> CheckpointDocument | None:
    try:
        return _decode_text(files.unpack(data, f"checkpoint {version}"), version)
    except LogCorrupted:
        return None


def _decode_text(text: bytes, version: int) -> CheckpointDocument:
    source = f"checkpoint {version}"
    try:
        document = _DOCUMENT.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_lines(text, source)
    if document.meta_data is None:
        raise LogCorrupted(f"{source} has no metaData")
    if document.version is not None and (document.version != version or not _is_sealed(text)):
        raise LogCorrupted(f"{source} does not match its digest")
    return document


def _part_list(text: bytes) -> list[str] | None:
    """None where the text is no list of parts; a quick look tells most of them apart, and keeps endless lists out of memory."""
    if b'"parts"' not in text or text.count(b",") > 2 * limits.CHECKPOINT_PARTS:
        return None
    try:
        return _PART_LIST.decode(text).parts
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _decode_parts(store: Store, parts: list[str], version: int) -> CheckpointDocument:
    """The parts in order; one that is missing or is not a part of this checkpoint makes it unreadable."""
    source = f"checkpoint {version}"
    if not parts or len(parts) > limits.CHECKPOINT_PARTS or len(set(parts)) < len(parts):
        raise LogCorrupted(f"{source} has no parts, more than {limits.CHECKPOINT_PARTS}, or one twice")
    actions: list[Action] = []
    for name in parts:
        if "/" in check_relative(name):
            raise UnsafePath(f"path {name!r} in {source} is not that of a part")
        if not names.is_part_of(name, version):
            raise LogCorrupted(f"{source} names {name!r}, which is not a part of it")
        try:
            data = store.read(f"{LOG_FOLDER}/{name}")
        except FileNotFoundError:
            raise LogCorrupted(f"part {name!r} of {source} is missing") from None
        place = f"part {name!r} of {source}"
        actions.extend(decode_actions(files.unpack(data, place), place).actions)
    return _document(actions, source)


def _decode_lines(text: bytes, source: str) -> CheckpointDocument:
    return _document(decode_actions(text, source).actions, source)


def _document(actions: list[Action], source: str) -> CheckpointDocument:
    replay = Replay(lambda path: path)
    replay.apply(-1, actions)
    if replay.metadata is None:
        raise LogCorrupted(f"{source} has no metaData")
    adds = [msgspec.structs.replace(add, added_at_version=None) for add in replay.files().adds()]
    return CheckpointDocument(
        protocol=replay.protocol,
        meta_data=replay.metadata,
        add=adds,
        txn=list(replay.txns.values()),
        mergeskip=list(replay.skips.values()),
    )


def _sealed(text: bytes) -> bytes:
    """The object with a digest of itself as its last key."""
    return text[:-1] + b',"digest":"' + hashlib.sha256(text).hexdigest().encode() + b'"}'


def _is_sealed(text: bytes) -> bool:
    seal = _SEAL.search(text)
    return seal is not None and hashlib.sha256(text[: seal.start()] + b"}").hexdigest().encode() == seal[1]
