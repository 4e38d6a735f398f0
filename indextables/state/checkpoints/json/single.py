"""JSON checkpoints: a version of the table as one gzipped object, `{version, protocol, metaData, add, txn, mergeskip, digest}`.

Each add has its own line, so that writers and readers never hold more than a batch of adds. The digest covers everything before it. Files
of other writers with the same name are read too: lines of actions without a digest, or a list of parts (`multipart`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from indextables.actions import Action, Add, CommitInfo, Metadata, Normalise, Protocol, Replay, Skip, Txn, decode_actions, nulls
from indextables.errors import CheckpointValidationError, LogCorrupted
from indextables.log import names, packing
from indextables.state.checkpoints.contents import Contents, Format, WrittenCheckpoint
from indextables.state.checkpoints.seal import SEAL_BYTES, decoding, has_seal, is_sealed, seal_of
from indextables.storage import Store

BATCH = 1000  # adds per encoded batch (CKP-11)
_DECODED_BYTES = 4 * 1024 * 1024  # approximate size of a decoded batch of adds
_ADDS_START, _ADDS_END = b'"add":[\n', b"\n]"  # found without parsing, because JSON strings contain no raw newline


class _Document(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    version: int | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    add: list[Add]
    txn: list[Txn] | None = None
    mergeskip: list[Skip] | None = None


# Created at import, for the reason in splits/format/bundle.py.
_DOCUMENT = msgspec.json.Decoder(_Document)
_ADDS = msgspec.json.Decoder(list[Add])
_ENCODER = msgspec.json.Encoder()


def write_json(store: Store, contents: Contents, *, compress: bool) -> WrittenCheckpoint:
    """Writes the checkpoint, replacing an existing one, and verifies it. Memory use: the compressed file and a batch of adds."""
    path = names.checkpoint_path(contents.version)
    packer, digest = packing.Packer(compress=compress), hashlib.sha256()
    for piece in _pieces(contents):
        digest.update(piece)
        packer.write(piece)
    digest.update(b"}")
    packer.write(seal_of(digest.hexdigest()))
    data = packer.finish()
    if not store.create(path, data):
        store.replace(path, data)
    read_back = store.read(path)
    _validate(read_back, contents)
    size = len(read_back)
    return contents.written(Format.JSON, size, size, unpacked_size=packer.text_size)


def _pieces(contents: Contents) -> Iterator[bytes]:
    """The object without its digest and its closing brace."""
    head = {"version": contents.version, "protocol": contents.protocol, "metaData": contents.metadata}
    yield _ENCODER.encode({key: value for key, value in head.items() if value is not None})[:-1] + b',"add":['
    opening, adds = b"\n", contents.files.complete.adds()
    while batch := list(islice(adds, BATCH)):
        yield opening + b",\n".join(map(_ENCODER.encode, batch))
        opening = b",\n"
    yield _ADDS_END if contents.num_files else b"]"
    for key, actions in (("txn", contents.txns), ("mergeskip", contents.skips)):
        if actions:
            yield f',"{key}":'.encode() + _ENCODER.encode(actions)


def _validate(data: bytes, contents: Contents) -> None:
    """Checks digest and number of files of the stored bytes, without holding the decompressed text."""
    source = f"checkpoint {contents.version}"
    digest, lines, last = hashlib.sha256(), 0, b""
    try:
        for piece in packing.pieces(data, source):
            lines += piece.count(b"\n")
            buffered = last + piece
            digest.update(buffered[:-SEAL_BYTES])
            last = buffered[-SEAL_BYTES:]
    except LogCorrupted as error:
        raise CheckpointValidationError(contents.version, str(error)) from error
    digest.update(b"}")
    if last != seal_of(digest.hexdigest()):
        raise CheckpointValidationError(contents.version, "it does not match its digest")
    if lines != (contents.num_files + 1 if contents.num_files else 0):
        raise CheckpointValidationError(contents.version, f"it does not have {contents.num_files} files")


def read_object(text: bytes, version: int, normalise: Normalise) -> Replay:
    """Reads a checkpoint from one object or from lines of actions; LogCorrupted if it is damaged or of another version."""
    source = f"checkpoint {version}"
    if has_seal(text) and not is_sealed(text):
        raise LogCorrupted(f"{source} does not match its digest")
    rest, adds = _separate_adds(text) if has_seal(text) else (text, iter(()))
    try:
        document = nulls.decode(_DOCUMENT, rest)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return replay_of_lines([text], source, normalise, complete=True)
    if document.meta_data is None:
        raise LogCorrupted(f"{source} has no metaData")
    if (document.version is not None or has_seal(text)) and (document.version != version or not has_seal(text)):
        raise LogCorrupted(f"{source} is of another version, or has no digest")
    replay = Replay(normalise, protocol=document.protocol, metadata=document.meta_data)
    replay.put_all(document.add)
    for batch in adds:
        with decoding(f"{source} is damaged"):
            found = nulls.decode(_ADDS, batch)
        replay.put_all(found)
    replay.put_txns_and_skips(document.txn or (), document.mergeskip or ())
    return replay


def _separate_adds(text: bytes) -> tuple[bytes, Iterator[bytes]]:
    """The object without its adds, and the adds in batches of lines; the unchanged object if its adds are not on separate lines."""
    start, end = text.find(_ADDS_START), text.rfind(_ADDS_END)
    if start < 0 or end < start + len(_ADDS_START):
        return text, iter(())
    first = start + len(_ADDS_START)
    return text[: first - 1] + text[end + 1 :], _batches(text, first, end)


def _batches(text: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        stop = text.find(b",\n", start + _DECODED_BYTES, end)
        stop = end if stop < 0 else stop
        yield b"[" + text[start:stop] + b"]"
        start = stop + 2


def replay_of_lines(texts: Iterable[bytes], source: str, normalise: Normalise, *, complete: bool = False) -> Replay:
    """Replays texts of action lines. With `complete`, a commitInfo is an error: it occurs only in version files and in parts."""
    replay = Replay(normalise)
    for text in texts:
        others: list[Action] = []
        for action in decode_actions(text, source).actions:
            if isinstance(action, Add):
                replay.put(action)
            elif complete and isinstance(action, CommitInfo):
                raise LogCorrupted(f"{source} is a version file or a part of a checkpoint, not a complete checkpoint")
            else:
                others.append(action)
        replay.apply(-1, others)
    if replay.metadata is None:
        raise LogCorrupted(f"{source} has no metaData")
    return replay
