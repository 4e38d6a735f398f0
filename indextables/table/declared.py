"""Finds the protocol that a log declares without decoding anything else.

A log that needs a newer program may contain lines, paths and checkpoints that look damaged to this one. So an unreadable log is reported
as damaged only if this program supports its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from indextables.actions import Protocol
from indextables.errors import LogCorrupted
from indextables.log import LogListing, TransactionLog, names, packing
from indextables.state import read_state_manifest, state_protocol
from indextables.storage import Store
from indextables.table.protocol import check_readable


class _Declaring(msgspec.Struct):
    """A line of a version, a JSON checkpoint, or the metadata of a Parquet checkpoint; all other fields are ignored."""

    protocol: Protocol | None = None


_Reader = Callable[[Store, int], Protocol | None]  # of the file of one kind for a version
_DECLARING = msgspec.json.Decoder(_Declaring)


def refuse_unsupported(
    log: TransactionLog, listing: LogListing, version: int | None = None, check: Callable[[Protocol], None] = check_readable
) -> None:
    """Raises ProtocolUnsupported if the newest protocol at or before `version` (None: of the whole log) does not pass the check."""
    kinds: list[tuple[Iterable[int], _Reader]] = [  # for the same version, the last of these that exists is read first
        (listing.parquets, _reader_of_json(names.parquet_metadata_path)),
        (listing.checkpoints, _reader_of_json(names.checkpoint_path)),
        (listing.states, lambda store, number: state_protocol(read_state_manifest(store, number))),
        (listing.versions, _reader_of_json(names.version_path)),
    ]
    found = [(number, order) for order, (numbers, _) in enumerate(kinds) for number in numbers if version is None or number <= version]
    for number, order in sorted(found, reverse=True):
        _, read = kinds[order]
        try:
            protocol = read(log.store, number)
        except (LogCorrupted, FileNotFoundError):
            continue
        if protocol is not None:
            check(protocol)
            break


def _reader_of_json(path_of: Callable[[int], str]) -> _Reader:
    return lambda store, number: _last_protocol(packing.unpack(store.read(path_of(number)), path_of(number)))


def _last_protocol(text: bytes) -> Protocol | None:
    """The protocol in a JSON object, or the last one in lines of objects; what cannot be decoded is ignored."""
    if b'"protocol"' not in text:
        return None
    for part in (text, *(line for line in reversed(text.splitlines()) if b'"protocol"' in line)):
        try:
            protocol = _DECLARING.decode(part).protocol
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        if protocol is not None:
            return protocol
    return None
