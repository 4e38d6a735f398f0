"""Multi-part JSON checkpoints: lines of actions in several files, and a list of the parts, which is written last (MPC-01).

The list is `<version>.checkpoint.json`, `{version, checkpointId, parts, createdTime, format, numFiles, sha256, digest}`; parts without a
list are ignored. Each part begins with a `commitInfo`, so that it cannot be mistaken for a complete checkpoint. Lists of other writers have
neither digests nor a number of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice

import msgspec

from indextables import limits
from indextables.actions import Action, CommitInfo, Count, Int64, Normalise, Replay, encode_actions
from indextables.errors import CheckpointValidationError, LogCorrupted, StorageError, UnsafePath
from indextables.log import names, packing
from indextables.paths import LOG_FOLDER, check_relative
from indextables.state.checkpoints.contents import CheckpointOptions, Contents, Format, WrittenCheckpoint
from indextables.state.checkpoints.json.single import BATCH, replay_of_lines
from indextables.state.checkpoints.seal import check_seal, read_part, sealed
from indextables.storage import Store


class PartList(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    version: Int64 | None = None
    checkpoint_id: str | None = None
    parts: list[str]  # file names in the log folder
    created_time: Int64 | None = None
    format: str | None = None
    num_files: Count | None = None
    sha256: list[str] | None = None  # of the stored bytes of each part


# Created at import, for the reason in splits/format/bundle.py.
_PART_LIST = msgspec.json.Decoder(PartList)


def write_parts(store: Store, contents: Contents, options: CheckpointOptions, checkpoint_id: str, now_ms: int) -> WrittenCheckpoint:
    """Writes the parts under unique names, verifies them, and then writes the list. Memory use: one compressed part and a batch of adds."""
    each = max(options.actions_per_part, 2 * contents.num_actions // limits.CHECKPOINT_PARTS)
    parts: list[str] = []
    digests: list[str] = []
    size = unpacked = 0
    try:
        for number, (data, text_size) in enumerate(_packed(contents, each, checkpoint_id, compress=options.gzip), 1):
            path = names.part_path(contents.version, checkpoint_id, number)
            parts.append(path.removeprefix(f"{LOG_FOLDER}/"))
            store.replace(path, data)  # the name is unique to this checkpoint
            digests.append(hashlib.sha256(data).hexdigest())
            size += len(data)
            unpacked += text_size
        found = PartList(
            version=contents.version,
            checkpoint_id=checkpoint_id,
            parts=parts,
            created_time=now_ms,
            format=Format.JSON_PARTS.value,
            num_files=contents.num_files,
            sha256=digests,
        )
        _validate(store, contents, found)
    except BaseException:
        for name in parts:  # no list references them yet
            with suppress(StorageError):
                store.delete(f"{LOG_FOLDER}/{name}")
        raise
    data = sealed(msgspec.json.encode(found))
    write_head(store, names.checkpoint_path(contents.version), data, contents.version)
    size += len(data)
    more = {"parts": len(parts), "checkpoint_id": checkpoint_id, "unpacked_size": unpacked + len(data)}
    return contents.written(Format.JSON_PARTS, size, size, **more)


def write_head(store: Store, path: str, text: bytes, version: int) -> None:
    """Writes and verifies the file that makes a checkpoint valid. An existing file is replaced, because the caller found it broken."""
    if not store.create(path, text):
        store.replace(path, text)
    if store.read(path) != text:
        raise CheckpointValidationError(version, f"{path!r} has other contents")


def _packed(contents: Contents, each: int, checkpoint_id: str, *, compress: bool) -> Iterator[tuple[bytes, int]]:
    """The compressed parts of at most `each` actions, with their uncompressed sizes. Protocol and metadata come first."""
    begin = encode_actions([CommitInfo(id=checkpoint_id, operation="checkpoint")])
    head: list[Action] = [contents.metadata, *contents.txns, *contents.skips]
    if contents.protocol is not None:
        head.insert(0, contents.protocol)
    packer, count = packing.Packer(compress=compress), 0
    packer.write(begin)
    size = each // -(-each // BATCH)  # batches of equal size that fill a part
    actions = chain(head, contents.files.complete.adds())
    while batch := list(islice(actions, size)):
        if count + len(batch) > each:
            yield packer.finish(), packer.text_size
            packer, count = packing.Packer(compress=compress), 0
            packer.write(begin)
        packer.write(encode_actions(batch))
        count += len(batch)
    yield packer.finish(), packer.text_size


def _validate(store: Store, contents: Contents, found: PartList) -> None:
    """Reads the parts back and checks the number of actions and the digests."""
    actions = 0
    try:
        for name, text in _texts(store, found, contents.version):
            actions += sum(piece.count(b"\n") for piece in packing.pieces(text, name)) - 1
    except LogCorrupted as error:
        raise CheckpointValidationError(contents.version, str(error)) from error
    if actions != contents.num_actions:
        raise CheckpointValidationError(contents.version, f"it has {actions} actions instead of {contents.num_actions}")


def part_list(text: bytes) -> PartList | None:
    """The list of parts; None if the text is something else. A quick check comes first, which also keeps huge lists out of memory."""
    if b'"parts"' not in text or text.count(b",") > 4 * limits.CHECKPOINT_PARTS:
        return None
    try:
        return _PART_LIST.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def read_parts(store: Store, text: bytes, found: PartList, version: int, normalise: Normalise) -> Replay:
    """Reads all parts in order; LogCorrupted if one is missing, changed, or not a part of this checkpoint."""
    source = f"checkpoint {version}"
    check_seal(text, found.sha256, source)
    if found.version is not None and found.version != version:
        raise LogCorrupted(f"{source} declares version {found.version}")
    texts = (packing.unpack(data, f"part {name!r} of {source}") for name, data in _texts(store, found, version))
    replay = replay_of_lines(texts, source, normalise)
    if found.num_files is not None and found.num_files != replay.num_files:
        raise LogCorrupted(f"{source} has {replay.num_files} files, but declares {found.num_files}")
    return replay


def _texts(store: Store, found: PartList, version: int) -> Iterator[tuple[str, bytes]]:
    """Name and stored bytes of each part, checked against its digest."""
    source = f"checkpoint {version}"
    part_names, digests = found.parts, found.sha256
    if not part_names or len(part_names) > limits.CHECKPOINT_PARTS or len(set(part_names)) < len(part_names):
        raise LogCorrupted(f"{source} has no parts, more than {limits.CHECKPOINT_PARTS} parts, or a part twice")
    if digests is not None and len(digests) != len(part_names):
        raise LogCorrupted(f"{source} has {len(part_names)} parts and {len(digests)} digests")
    for number, name in enumerate(part_names):
        if "/" in check_relative(name):
            raise UnsafePath(f"path {name!r} in {source} is not the path of a part")
        if not names.is_part_of(name, version):
            raise LogCorrupted(f"{source} lists {name!r}, which is not a part of it")
        yield name, read_part(store, f"{LOG_FOLDER}/{name}", digests[number] if digests else None, f"part {name!r} of {source}")
