"""The state manifest: encodes, decodes and checks `state-v<20 digits>/_manifest.avro` or `.json`.

It lists manifests of file entries, tombstones and doc mappings; the live files are the entries of all manifests without the tombstones.
Ours also contain the version and a digest of all other fields (A-05). Fields that other programs omit are taken from the log.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

import fastavro
import msgspec
from msgspec import structs

from indextables import limits
from indextables.actions import Bounds, Count, Int32, Int64, Metadata, Protocol, Skip, Txn, nulls
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import names, packing
from indextables.paths import LOG_FOLDER, check_relative
from indextables.state.checkpoints.avro import containers as avro
from indextables.state.checkpoints.contents import AVRO_STATE_PROTOCOL
from indextables.state.checkpoints.seal import decoding, is_sealed, sealed
from indextables.storage import Store

FORMAT_VERSION = 1
T = TypeVar("T")
_MANIFEST = re.compile(r"(manifests/|state-v[0-9]{20}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


class PartitionBounds(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    min: str | None = None
    max: str | None = None
    has_null: bool | None = None  # our extension; None: unknown


class ManifestInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    path: str
    num_entries: Count
    min_added_at_version: Int64 | None = None
    max_added_at_version: Int64 | None = None
    partition_bounds: dict[str, PartitionBounds] | None = None
    size_bytes: Count | None = None  # our extension

    def bounds(self) -> dict[str, Bounds]:
        given = self.partition_bounds or {}
        return {name: Bounds(one.min, one.max, one.has_null is not False, one.has_null is not None) for name, one in given.items()}


class StateManifest(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
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
    # Our extensions; in Avro the first three are JSON texts.
    protocol: Protocol | str | None = None
    txn: list[Txn] | str | None = None
    mergeskip: list[Skip] | str | None = None
    total_records: Int64 | None = None
    version: Int64 | None = None
    digest: str | None = None  # of all other fields

    @property
    def is_ours(self) -> bool:
        """Whether it has a digest, which `read_state_manifest` checks, and all totals, so that its numbers can be trusted."""
        return self.digest is not None and self.total_records is not None and self.total_bytes is not None


class _Declaring(msgspec.Struct, rename="camel"):
    """The fields of a state manifest that declare a protocol; all others are ignored."""

    protocol: Protocol | str | None = None
    protocol_version: Int32 | None = None


# Created at import, for the reason in splits/format/bundle.py.
_DECLARING = msgspec.json.Decoder(_Declaring)
_STATE_METADATA = msgspec.json.Decoder(Metadata)
_STATE_MANIFEST = msgspec.json.Decoder(StateManifest)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PROTOCOL = msgspec.json.Decoder(Protocol)
_TXNS = msgspec.json.Decoder(list[Txn])
_SKIPS = msgspec.json.Decoder(list[Skip])


def _nullable(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_BOUNDS = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [_nullable("min", "string"), _nullable("max", "string"), _nullable("hasNull", "boolean")],
}
_INFO = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "numEntries", "type": "long"},
        {"name": "minAddedAtVersion", "type": "long"},
        {"name": "maxAddedAtVersion", "type": "long"},
        _nullable("partitionBounds", {"type": "map", "values": _BOUNDS}),
        {"name": "tombstoneCount", "type": "long", "default": 0},
        {"name": "liveEntryCount", "type": "long", "default": -1},
        _nullable("sizeBytes", "long"),
    ],
}
# The schema of other programs, followed by our extensions.
_STATE_SCHEMA = {
    "type": "record",
    "name": "StateManifest",
    "namespace": "io.indextables.state",
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {"name": "manifests", "type": {"type": "array", "items": _INFO}},
        {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "protocolVersion", "type": "int", "default": 4},
        _nullable("metadata", "string"),
        *(_nullable(name, "string") for name in ("protocol", "txn", "mergeskip")),
        *(_nullable(name, "long") for name in ("totalRecords", "version")),
        _nullable("digest", "string"),
    ],
}
_STATE_TEXT = msgspec.json.encode(_STATE_SCHEMA)
_PARSED_STATE = fastavro.parse_schema(_STATE_SCHEMA)


def encode_json(state: StateManifest) -> bytes:
    """The state manifest as JSON, with a digest of itself as the last key."""
    return sealed(msgspec.json.encode(structs.replace(state, digest=None)))


def encode_avro(state: StateManifest) -> bytes:
    values = {name: getattr(state, name) for name in ("protocol", "txn", "mergeskip")}
    texts = {name: None if value is None else msgspec.json.encode(value).decode() for name, value in values.items()}
    with_texts = structs.replace(state, **texts, digest=None)
    record = msgspec.to_builtins(structs.replace(with_texts, digest=_digest(with_texts)))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED_STATE, record)
    return avro.assemble(_STATE_TEXT, "zstandard", [(1, avro.pack(out.getvalue(), "zstandard", 3))])


def _digest(state: StateManifest) -> str:
    return hashlib.sha256(msgspec.json.encode(structs.replace(state, digest=None))).hexdigest()


def read_state_manifest(store: Store, version: int) -> StateManifest:
    """`_manifest.avro`, or `_manifest.json` if the former is missing or broken; checked against its digest if it has one."""
    problems = []
    for found in _forms(store, version):
        if isinstance(found, StateManifest):
            return found
        problems.append(str(found))
    raise LogCorrupted("; ".join(problems) or f"state {version} no longer exists")


def damaged_forms(store: Store, version: int) -> list[str]:
    """The problems of `_manifest.avro` and `_manifest.json`, each on its own: readers use one if the other is damaged."""
    return [str(found) for found in _forms(store, version) if isinstance(found, LogCorrupted)]


def _forms(store: Store, version: int) -> Iterator[StateManifest | LogCorrupted]:
    for form, decode in (("avro", _decoded_avro), ("json", _decoded_json)):
        try:
            yield _checked(decode(store.read(state_path(version, form)), f"state {version}"), version)
        except FileNotFoundError:
            continue
        except UnsafePath:
            raise
        except LogCorrupted as error:
            yield error


def state_path(version: int, form: str) -> str:
    """The path of the state manifest; `form` is json or avro."""
    return names.state_path(version, form)


def _checked(state: StateManifest, version: int) -> StateManifest:
    source = f"state {version}"
    if state.format_version != FORMAT_VERSION:
        raise LogCorrupted(f"{source} has format {state.format_version}, but this program reads format {FORMAT_VERSION}")
    if state.state_version != version or state.version not in (None, version):
        raise LogCorrupted(f"{source} declares version {state.state_version}")
    if len({info.path for info in state.manifests}) < len(state.manifests):
        raise LogCorrupted(f"{source} lists a manifest twice")
    return state


def manifest_path(path: str, version: int) -> str:
    """The checked path of a manifest that the state of `version` references; a bare name is relative to the state's folder."""
    match = _MANIFEST.fullmatch(check_relative(path))
    if match is None:
        raise UnsafePath(f"path {path!r} in state {version} is not the path of a manifest")
    return f"{LOG_FOLDER}/{path}" if match[1] else f"{LOG_FOLDER}/{names.state_folder(version)}/{path}"


def _decoded_avro(data: bytes, source: str) -> StateManifest:
    record = _record(data, source)
    with decoding(f"{source} is damaged"):
        state = msgspec.convert(record, _STATE_MANIFEST.type)
    if state.digest is not None and state.digest != _digest(state):
        raise LogCorrupted(f"{source} does not match its digest")
    return state


def _record(data: bytes, source: str) -> Any:
    most = max(limits.STATE_EXPANDED_FLOOR, len(data) * limits.STATE_EXPANDED_RATIO)
    found = list(avro.records(data, source, max_bytes=min(most, limits.VERSION_FILE_BYTES), max_records=1))
    if not found:
        raise LogCorrupted(f"{source} is empty")
    return found[0]


def _decoded_json(data: bytes, source: str) -> StateManifest:
    text = packing.unpack(data, source)
    with decoding(f"{source} is damaged"):
        state = _STATE_MANIFEST.decode(text)
    if (state.digest is not None or state.version is not None) and not is_sealed(text):
        raise LogCorrupted(f"{source} does not match its digest")
    return state


def state_metadata(state: StateManifest) -> Metadata | None:
    if state.metadata is None:
        return None
    with decoding(f"state {state.state_version} has damaged metadata"):
        text = state.metadata.encode()
        wrapped = _FIELDS.decode(text)
        return nulls.decode(_STATE_METADATA, wrapped.get("metaData", msgspec.Raw(text)))


def state_protocol(state: StateManifest | _Declaring) -> Protocol | None:
    """The protocol that the state declares; one with a `protocolVersion` above that of states has at least this version."""
    found = state.protocol
    if isinstance(found, str):
        with decoding("the protocol of a state is damaged"):
            found = _PROTOCOL.decode(found)
    newest = state.protocol_version
    if newest is None or newest <= AVRO_STATE_PROTOCOL:
        return found
    given = found or Protocol.of(newest)
    return structs.replace(
        given, min_reader_version=max(given.min_reader_version, newest), min_writer_version=max(given.min_writer_version, newest)
    )


def declared_protocol(store: Store, version: int) -> Protocol | None:
    """The protocol in `_manifest.avro`, else in `_manifest.json`, even if the state is otherwise damaged or has another format."""
    for form in ("avro", "json"):
        with suppress(FileNotFoundError, LogCorrupted):
            protocol = state_protocol(_declaring(store.read(state_path(version, form)), f"state {version}", form))
            if protocol is not None:
                return protocol
    return None


def _declaring(data: bytes, source: str, form: str) -> _Declaring:
    with decoding(f"{source} is damaged"):
        return (
            msgspec.convert(_record(data, source), _DECLARING.type) if form == "avro" else _DECLARING.decode(packing.unpack(data, source))
        )


def state_txns(state: StateManifest) -> list[Txn]:
    return _decoded_list(state.txn, _TXNS, state)


def state_skips(state: StateManifest) -> list[Skip]:
    return _decoded_list(state.mergeskip, _SKIPS, state)


def _decoded_list(given: list[T] | str | None, decoder: msgspec.json.Decoder[list[T]], state: StateManifest) -> list[T]:
    if not isinstance(given, str):
        return given or []
    with decoding(f"state {state.state_version} is damaged"):
        return decoder.decode(given)
