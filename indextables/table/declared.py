"""Finds the protocol that a log declares without decoding anything else.

A log that needs a newer program may contain lines, paths and checkpoints that look damaged to this one. So an unreadable log is reported
as damaged only if this program supports its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from indextables.actions import Protocol
from indextables.errors import LogCorrupted
from indextables.log import LogListing, TransactionLog, files, names
from indextables.state import read_state_manifest, state_protocol
from indextables.table.protocol import check_readable

_Look = Callable[[TransactionLog, int], Protocol | None]
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _Declaring(msgspec.Struct):
    """A line of a version, a JSON checkpoint, or the metadata of a Parquet checkpoint; all other fields are ignored."""

    protocol: Protocol | None = None


_DECLARING = msgspec.json.Decoder(_Declaring)


def refuse_unsupported(
    log: TransactionLog, listing: LogListing, version: int | None = None, check: Callable[[Protocol], None] = check_readable
) -> None:
    """Raises ProtocolUnsupported if the newest protocol at or before `version` (None: of the whole log) does not pass the check."""
    protocol = next(_declared(log, listing, version), None)
    if protocol is not None:
        check(protocol)


def _declared(log: TransactionLog, listing: LogListing, version: int | None) -> Iterator[Protocol]:
    """Declared protocols, newest first; files are read lazily."""
    kinds: list[tuple[Sequence[int], _Look]] = [
        (listing.parquets, _in_parquet),
        (listing.checkpoints, _in_json),
        (listing.states, _in_state),
        (listing.versions, _in_version),
    ]
    places = [
        (number, order, look) for order, (found, look) in enumerate(kinds) for number in found if version is None or number <= version
    ]
    for number, _, look in sorted(places, key=lambda place: place[:2], reverse=True):
        try:
            protocol = look(log, number)
        except (LogCorrupted, FileNotFoundError):
            continue
        if protocol is not None:
            yield protocol


def _in_version(log: TransactionLog, version: int) -> Protocol | None:
    return _last_in_lines(files.unpack(log.store.read(names.version_path(version)), f"version {version}"))


def _in_json(log: TransactionLog, version: int) -> Protocol | None:
    text = files.unpack(log.store.read(names.checkpoint_path(version)), f"checkpoint {version}")
    return _in_text(text) or _last_in_lines(text)


def _in_parquet(log: TransactionLog, version: int) -> Protocol | None:
    return _in_text(files.unpack(log.store.read(names.parquet_metadata_path(version)), f"parquet checkpoint {version}"))


def _in_state(log: TransactionLog, version: int) -> Protocol | None:
    return state_protocol(read_state_manifest(log.store, version))


def _last_in_lines(text: bytes) -> Protocol | None:
    if b'"protocol"' not in text:
        return None
    found = [protocol for line in text.splitlines() if b'"protocol"' in line and (protocol := _in_text(line)) is not None]
    return found[-1] if found else None


def _in_text(text: bytes) -> Protocol | None:
    try:
        return _DECLARING.decode(text).protocol
    except _UNDECODABLE:
        return None
