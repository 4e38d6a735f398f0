"""What this program understands of the protocol: checked before anything is done."""

from __future__ import annotations

from indextables.actions import Protocol
from indextables.errors import ProtocolUnsupported

CURRENT = Protocol(min_reader_version=2, min_writer_version=2)
LEGACY = Protocol(min_reader_version=1, min_writer_version=1)  # of tables without a protocol action


def check_readable(protocol: Protocol) -> None:
    _check("read", protocol.min_reader_version, CURRENT.min_reader_version, protocol.reader_features)


def check_writable(protocol: Protocol) -> None:
    check_readable(protocol)
    _check("write", protocol.min_writer_version, CURRENT.min_writer_version, protocol.writer_features)


def _check(verb: str, needed: int, supported: int, features: list[str] | None) -> None:
    if needed > supported:
        raise ProtocolUnsupported(f"this table needs protocol {needed} to {verb}, and this program supports up to {supported}")
    if features:
        raise ProtocolUnsupported(
            f"this table needs the features {', '.join(sorted(features))} to {verb}, which this program does not support"
        )
