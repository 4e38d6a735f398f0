"""Avro states: the table at one version as a state manifest that names shared manifests of file entries.

`state-v<20 digits>/_manifest.avro` (or `.json`) lists manifests, tombstones and doc mappings; live = entries of all manifests without the
tombstones. What the state does not hold (metadata, in states of Scala writers; the protocol's features) is left open for the log to fill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from indextables import limits
from indextables.actions import Add, Metadata, Protocol, Skip, Txn
from indextables.actions.model import Count, Int32, Int64, WireMetadata
from indextables.actions.replay import Normalise, Replay
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import files, names
from indextables.paths import LOG_FOLDER, check_relative
from indextables.state import avro
from indextables.state.registry import Registry
from indextables.storage import Store

FORMAT_VERSION = 1
T = TypeVar("T")
_MANIFEST = re.compile(r"(manifests/|state-v[0-9]{20}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


class ManifestInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    path: str
    num_entries: Count


class StateManifest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    format_version: Int32
    state_version: Int64
    created_at: Int64 | None = None
    num_files: Int64
    total_bytes: Int64 | None = None
    manifests: list[ManifestInfo]
    tombstones: list[str] | None = None
    schema_registry: dict[str, str] | None = None
    protocol_version: Int32 | None = None
    metadata: str | None = None  # JSON, `{"metaData": {…}}` or the bare object
    # Ours (decisions A-03); in Avro they are JSON texts.
    protocol: Protocol | str | None = None
    txn: list[Txn] | str | None = None
    mergeskip: list[Skip] | str | None = None


# At import, for the reason in splits/bundle.py.
_STATE_MANIFEST = msgspec.json.Decoder(StateManifest)


def read_state(store: Store, version: int, normalise: Normalise) -> Replay:
    """What the state of `version` holds; LogCorrupted if any of its files is missing, damaged, or not of that version."""
    state = read_state_manifest(store, version)
    replay = Replay(normalise, protocol=state_protocol(state), metadata=state_metadata(state))
    gone = {normalise(path) for path in state.tombstones or ()}
    registry = Registry(state.schema_registry or {})
    entries = 0
    for info in state.manifests:
        for add in _entries(store, version, info, normalise):
            entries += 1
            if add.path not in gone:
                replay.put(registry.restored(add))
    # Upstream subtracts every tombstone from its count, also one that no entry has.
    if state.num_files not in (replay.num_files, entries - len(state.tombstones or ())):
        raise LogCorrupted(f"state {version} has {replay.num_files} files, and says it has {state.num_files}")
    for txn in _listed(state.txn, list[Txn], version):
        replay.put_txn(txn)
    for skip in _listed(state.mergeskip, list[Skip], version):
        replay.put_skip(skip)
    return replay


def read_state_manifest(store: Store, version: int) -> StateManifest:
    """`_manifest.avro`, or `_manifest.json` where there is none."""
    folder, source = f"{LOG_FOLDER}/{names.state_folder(version)}", f"state {version}"
    try:
        state = _decoded_avro(store.read(f"{folder}/_manifest.avro"), source)
    except FileNotFoundError:
        try:
            state = _decoded_json(files.unpack(store.read(f"{folder}/_manifest.json"), source), source)
        except FileNotFoundError:
            raise LogCorrupted(f"{source} is gone") from None
    if state.format_version != FORMAT_VERSION:
        raise LogCorrupted(f"{source} has format {state.format_version}, and this program reads {FORMAT_VERSION}")
    if state.state_version != version:
        raise LogCorrupted(f"{source} says that it is of version {state.state_version}")
    if len({info.path for info in state.manifests}) < len(state.manifests):
        raise LogCorrupted(f"{source} names a manifest twice")
    return state


def manifest_path(path: str, version: int) -> str:
    """Where a manifest named by the state of `version` lies, checked: a bare name is relative to the state's own folder."""
    match = _MANIFEST.fullmatch(check_relative(path))
    if match is None:
        raise UnsafePath(f"path {path!r} in state {version} is not that of a manifest")
    return f"{LOG_FOLDER}/{path}" if match[1] else f"{LOG_FOLDER}/{names.state_folder(version)}/{path}"


def _decoded_avro(data: bytes, source: str) -> StateManifest:
    most = max(limits.STATE_EXPANDED_FLOOR, len(data) * limits.STATE_EXPANDED_RATIO)
    found = list(avro.records(data, source, most_bytes=min(most, limits.VERSION_FILE_BYTES), most_records=1))
    if not found:
        raise LogCorrupted(f"{source} is empty")
    return _converted(found[0], StateManifest, source)


def _decoded_json(text: bytes, source: str) -> StateManifest:
    try:
        return _STATE_MANIFEST.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error


def _entries(store: Store, version: int, info: ManifestInfo, normalise: Normalise) -> Iterator[Add]:
    """The adds of one manifest, their paths checked; LogCorrupted unless there are as many as the state says, each path once."""
    path = manifest_path(info.path, version)
    source = f"manifest {info.path!r} of state {version}"
    try:
        data = store.read(path)
    except FileNotFoundError:
        raise LogCorrupted(f"{source} is missing") from None
    seen: set[str] = set()
    for record in avro.records(data, source, most_bytes=files.expanded_limit(len(data)), most_records=info.num_entries):
        add = _converted(record, Add, source)
        relative = normalise(add.path)
        if relative in seen:
            raise LogCorrupted(f"{source} has the path {relative!r} twice")
        seen.add(relative)
        # Upstream's writers leave 0, whatever the version; and version 0 holds no files.
        yield structs.replace(add, path=relative, added_at_version=add.added_at_version or None)
    if len(seen) != info.num_entries:
        raise LogCorrupted(f"{source} has {len(seen)} entries, and the state says {info.num_entries}")


def _converted(record: Any, kind: type[T], source: str) -> T:
    try:
        return msgspec.convert(record, kind)
    except msgspec.MsgspecError as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error


def state_metadata(state: StateManifest) -> Metadata | None:
    if state.metadata is None:
        return None
    text = state.metadata.encode()
    try:
        wrapped = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(wrapped.get("metaData", msgspec.Raw(text)), type=WireMetadata).metadata()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"state {state.state_version} has damaged metadata: {error}") from error


def state_protocol(state: StateManifest) -> Protocol | None:
    if not isinstance(state.protocol, str):
        return state.protocol
    try:
        return msgspec.json.decode(state.protocol, type=Protocol)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"state {state.state_version} has a damaged protocol: {error}") from error


def _listed(given: list[T] | str | None, kind: type[list[T]], version: int) -> list[T]:
    if not isinstance(given, str):
        return given or []
    try:
        return msgspec.json.decode(given, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"state {version} is damaged: {error}") from error
