"""JSON checkpoints: the table at one version as one object, `{version, protocol, metaData, add: […], txn: […], digest}`, gzip.

The digest covers everything else, so that a file that was cut, edited, or copied over another is noticed and ignored. Older writers
left JSON lines of actions under the same name, without a digest; those are read too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import msgspec

from indextables.actions import Add, Metadata, Protocol, Txn
from indextables.actions.codec import decode_actions
from indextables.actions.replay import Normalise, Replay
from indextables.errors import CheckpointError, LogCorrupted
from indextables.log import files, names
from indextables.storage import Store

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}$')


class CheckpointDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    version: int | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    add: list[Add]
    txn: list[Txn] | None = None


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
    document = _decode(data, version)
    replay = Replay(normalise, protocol=document.protocol, metadata=document.meta_data)
    for add in document.add:
        replay.put(add)
    for txn in document.txn or []:
        replay.put_txn(txn)
    return replay


def _try_decode(data: bytes, version: int) -> CheckpointDocument | None:
    try:
        return _decode(data, version)
    except LogCorrupted:
        return None


def _decode(data: bytes, version: int) -> CheckpointDocument:
    source = f"checkpoint {version}"
    text = files.unpack(data, source)
    try:
        document = msgspec.json.decode(text, type=CheckpointDocument)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_lines(text, source)
    if document.meta_data is None:
        raise LogCorrupted(f"{source} has no metaData")
    if document.version is not None and (document.version != version or not _is_sealed(text)):
        raise LogCorrupted(f"{source} does not match its digest")
    return document


def _decode_lines(text: bytes, source: str) -> CheckpointDocument:
    replay = Replay(lambda path: path)
    replay.apply(-1, decode_actions(text, source).actions)
    if replay.metadata is None:
        raise LogCorrupted(f"{source} has no metaData")
    adds = [msgspec.structs.replace(add, added_at_version=None) for add in replay.files().adds()]
    return CheckpointDocument(protocol=replay.protocol, meta_data=replay.metadata, add=adds)


def _sealed(text: bytes) -> bytes:
    """The object with a digest of itself as its last key."""
    return text[:-1] + b',"digest":"' + hashlib.sha256(text).hexdigest().encode() + b'"}'


def _is_sealed(text: bytes) -> bool:
    seal = _SEAL.search(text)
    return seal is not None and hashlib.sha256(text[: seal.start()] + b"}").hexdigest().encode() == seal[1]
