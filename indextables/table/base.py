"""The base of a snapshot: the newest valid checkpoint or state at or before a version, in any format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from indextables.actions import Metadata, Protocol, Replay, decode_actions
from indextables.errors import LogCorrupted, UnsafePath
from indextables.log import LogListing, TransactionLog, names, packing
from indextables.state import AVRO_STATE_PROTOCOL, Format, read_checkpoint, read_state_manifest, state_metadata, state_protocol
from indextables.table.protocol import upgraded_to

_Declared = tuple[Metadata | None, Protocol | None]


@dataclass(frozen=True, slots=True)
class Base:
    replay: Replay
    version: int | None  # None: there is no base, the replay starts empty at version 0
    broken: dict[int, str]  # version of each checkpoint or state that cannot be used -> why


def newest_base(log: TransactionLog, listing: LogListing, version: int | None) -> Base:
    """The newest valid checkpoint or state at or before `version`, by default the newest of all. Broken ones are skipped and recorded.

    A checkpoint of version 0 is ignored if the version file exists: upstream's CHECKPOINT leaves a `state-v0` that holds the files of a
    later version.
    """
    broken: dict[int, str] = {}
    for candidate in reversed(listing.bases):
        if (version is not None and candidate > version) or (candidate == 0 and 0 in listing.versions):
            continue
        try:
            replay, form = read_checkpoint(log, listing, candidate)
        except UnsafePath:
            raise
        except LogCorrupted as error:
            broken[candidate] = str(error)
            continue
        if form is Format.AVRO:
            _complete(replay, log, listing, candidate, broken)
        return Base(replay, candidate, broken)
    return Base(Replay(log.store.root.relative), None, broken)


def _complete(replay: Replay, log: TransactionLog, listing: LogListing, version: int, broken: dict[int, str]) -> None:
    """Adds the metadata and protocol that a state omits: the newest at or before its version, from the log or from an older state."""
    had_no_protocol = replay.protocol is None
    if replay.metadata is not None and not had_no_protocol:
        return
    if listing.since > 0:
        raise LogCorrupted(f"state {version} has no metadata or no protocol, and the versions before {listing.since} were not listed")
    for metadata, protocol in _earlier(log, listing, version, broken):
        replay.metadata = replay.metadata or metadata
        replay.protocol = replay.protocol or protocol
        if replay.metadata is not None and replay.protocol is not None:
            break
    if had_no_protocol:
        needed = Protocol.of(AVRO_STATE_PROTOCOL)
        replay.protocol = upgraded_to(replay.protocol or needed, needed)


def _earlier(log: TransactionLog, listing: LogListing, version: int, broken: dict[int, str]) -> Iterator[_Declared]:
    """Metadata and protocol of version files and older states, newest first; the file of a version comes before its state."""
    places = sorted([*((v, 1) for v in listing.versions if v <= version), *((v, 0) for v in listing.states if v < version)], reverse=True)
    for number, is_file in places:
        try:
            if is_file:
                yield _in_version(log, number)
            else:
                state = read_state_manifest(log.store, number)
                yield state_metadata(state), state_protocol(state)
        except UnsafePath:
            raise
        except LogCorrupted as error:
            broken[number] = str(error)
        except FileNotFoundError:
            continue  # it expired after the listing


def _in_version(log: TransactionLog, version: int) -> _Declared:
    """Parses the file only if one of the two words occurs in it: thousands of files may have neither."""
    text = packing.unpack(log.store.read(names.version_path(version)), f"version {version}")
    if b'"metaData"' not in text and b'"protocol"' not in text:
        return None, None
    replay = Replay(log.store.root.relative)
    replay.apply(version, decode_actions(text, f"version {version}").actions)
    return replay.metadata, replay.protocol
