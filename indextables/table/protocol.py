"""The protocol versions and features that this program supports; checked before a table is read or written."""

from __future__ import annotations

from indextables.actions import Protocol
from indextables.errors import ProtocolUnsupported
from indextables.state import AVRO_STATE_PROTOCOL

SUPPORTED = 4  # highest version, for readers and writers
OWN_SPLITS = "arrowRowStore"  # marks our split format, which upstream cannot open
FEATURES = frozenset(
    {
        *("avroState", "multiPartCheckpoint", "schemaDeduplication"),
        *("footerOffsets", "tantivy4java", "conditionalWrites", "checkpoints"),
        *("skippedFiles", "extendedMetadata", "checkpoint", "optimizeWrite"),
        OWN_SPLITS,
    }
)
CURRENT = Protocol.of(2)
WITH_STATES = Protocol.of(AVRO_STATE_PROTOCOL, "avroState", "schemaDeduplication", OWN_SPLITS)  # if checkpoints are Avro states (C-23)
LEGACY = Protocol.of(1)  # assumed for tables without a protocol action
_FEATURE_FLAGS = 3  # the version that introduced features


def check_readable(protocol: Protocol) -> None:
    _check("read", protocol.min_reader_version, protocol.reader_features)


def check_writable(protocol: Protocol) -> None:
    check_readable(protocol)
    _check("write", protocol.min_writer_version, protocol.writer_features)


def check_owned(protocol: Protocol, *, take_over: bool = False) -> None:
    """Raises ProtocolUnsupported if another program made the table, unless `take_over`: that program cannot read our splits (A-06)."""
    check_writable(protocol)
    if is_foreign(protocol) and not take_over:
        raise ProtocolUnsupported(
            f"this table has protocol {protocol.min_reader_version}/{protocol.min_writer_version} without the feature {OWN_SPLITS}: "
            "it belongs to another program, which could not read our splits; "
            "to convert it, append or merge with storage.takeOver=true first"
        )


def is_foreign(protocol: Protocol) -> bool:
    """Whether another program created the table: it has features, but not the one that marks our splits."""
    flagged = max(protocol.min_reader_version, protocol.min_writer_version) >= _FEATURE_FLAGS
    return flagged and OWN_SPLITS not in (protocol.reader_features or ())


def has_registry(protocol: Protocol) -> bool:
    """Whether adds may refer to doc mappings in the registry instead of containing them (SDD); older readers do not resolve references."""
    return min(protocol.min_reader_version, protocol.min_writer_version) >= _FEATURE_FLAGS


def taken_over(protocol: Protocol) -> Protocol:
    """The protocol with the feature that marks our splits, so that programs that cannot open them refuse the table."""
    return upgraded_to(protocol, Protocol.of(_FEATURE_FLAGS, OWN_SPLITS))


def upgraded(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The protocol with at least these versions; the same object if it has them already."""
    return upgraded_to(protocol, Protocol(min_reader_version=reader, min_writer_version=writer))


def upgraded_to(protocol: Protocol, needed: Protocol) -> Protocol:
    """The protocol with at least the versions and features of `needed`; the same object if nothing is missing."""
    new = Protocol(
        min_reader_version=max(protocol.min_reader_version, needed.min_reader_version),
        min_writer_version=max(protocol.min_writer_version, needed.min_writer_version),
        reader_features=_union(protocol.reader_features, needed.reader_features),
        writer_features=_union(protocol.writer_features, needed.writer_features),
    )
    return protocol if new == protocol else new


def _union(features: list[str] | None, more: list[str] | None) -> list[str] | None:
    missing = set(more or ()) - set(features or ())
    return sorted({*(features or ()), *missing}) if missing else features


def _check(verb: str, needed: int, features: list[str] | None) -> None:
    if needed > SUPPORTED:
        raise ProtocolUnsupported(f"this table needs protocol {needed} to {verb}, but this program supports up to {SUPPORTED}")
    unknown = sorted(set(features or ()) - FEATURES)
    if unknown:
        shown = ", ".join(name[:80] for name in unknown[:10])
        raise ProtocolUnsupported(f"this table needs the features {shown} to {verb}, which this program does not support")
