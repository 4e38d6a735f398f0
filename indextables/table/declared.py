"""Finds the protocol that a log declares without decoding anything else.

A log that needs a newer program may contain lines, paths and checkpoints that look damaged to this one. So an unreadable log is reported
as damaged only if this program supports its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from indextables.actions import Protocol
from indextables.errors import LogCorrupted
from indextables.log import LogListing, TransactionLog, names, packing
from indextables.paths import LOG_FOLDER
from indextables.state import declared_protocol, part_list
from indextables.storage import Store
from indextables.table.protocol import check_readable


class _Declaring(msgspec.Struct):
    """A line of a version or of a part, a JSON checkpoint, or the metadata of a Parquet checkpoint; all other fields are ignored."""

    protocol: Protocol | None = None


_Reader = Callable[[Store, int], Protocol | None]  # of the file of one kind for a version
_DECLARING = msgspec.json.Decoder(_Declaring)


def refuse_unsupported(
    log: TransactionLog, listing: LogListing, version: int | None = None, check: Callable[[Protocol], None] = check_readable
) -> None:
    """Raises ProtocolUnsupported if the newest protocol at or before `version` (None: of the whole log) does not pass the check."""
    kinds: list[tuple[Iterable[int], _Reader]] = [  # for the same version, the last of these that exists is read first
        (listing.parquets, _reader_of_json(names.parquet_metadata_path)),
        (listing.checkpoints, _in_checkpoint),
        (listing.states, declared_protocol),
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
    return lambda store, number: _last_protocol(_text(store, path_of(number)))


def _text(store: Store, path: str) -> bytes:
    return packing.unpack(store.read(path), path)


def _in_checkpoint(store: Store, version: int) -> Protocol | None:
    """The protocol of a JSON checkpoint in one file, or in parts, of which the first has it as a rule."""
    head = _text(store, names.checkpoint_path(version))
    found = part_list(head)
    if found is None:
        return _last_protocol(head)
    parts = (name for name in found.parts if names.is_part_of(name, version))
    return next((protocol for name in parts for protocol in _in_part(store, name) if protocol is not None), None)


def _in_part(store: Store, name: str) -> Iterator[Protocol | None]:
    """Nothing if the part is missing or damaged."""
    with suppress(LogCorrupted, FileNotFoundError):
        yield _last_protocol(_text(store, f"{LOG_FOLDER}/{name}"))


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
