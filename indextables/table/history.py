"""The history of a table, version by version, from the retained version files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

import pyarrow as pa

from indextables.actions import Add, CommitInfo, Metadata, Remove, Txn
from indextables.clock import iso_ms
from indextables.errors import LogCorrupted, TableNotFound, VersionNotFound
from indextables.log import LogListing, TransactionLog, VersionFile, names
from indextables.paths import LOG_FOLDER
from indextables.state import read_state_manifest
from indextables.table.declared import refuse_unsupported

_YEAR_1, _YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000  # ms


SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("operation", pa.string()),
        ("num_added", pa.int64()),
        ("num_removed", pa.int64()),
        ("rows_added", pa.int64()),
        ("bytes_added", pa.int64()),
        ("user", pa.string()),
        ("engine", pa.string()),
        ("job_id", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    version: int
    timestamp_ms: int
    operation: str | None
    user: str | None
    engine: str | None
    job_id: str | None
    num_added: int | None  # None, here and below: the version exists only as a state, which does not record changes
    num_removed: int | None
    rows_added: int | None
    bytes_added: int | None


def history_table(log: TransactionLog) -> pa.Table:
    """All retained versions as rows of `SCHEMA`, newest first."""
    entries = sorted(read_history(log), key=lambda entry: -entry.version)
    return pa.Table.from_pylist([{**asdict(entry), "timestamp": entry.timestamp_ms} for entry in entries], schema=SCHEMA)


def read_history(log: TransactionLog, listing: LogListing | None = None) -> list[HistoryEntry]:
    """All retained versions, ascending, up to the first gap after the newest checkpoint or state.

    Includes versions that other programs committed as a state without a version file.
    """
    listing = log.listing() if listing is None else listing
    base, (tail, _) = _tail(listing)
    versions = [*(version for version in listing.versions if version <= base), *tail]
    modified = {entry.path: entry.modified_ms for entry in log.store.list(LOG_FOLDER)}
    try:
        entries = [_entry(file, modified.get(names.version_path(file.version), 0)) for file in log.read_present(versions)]
    except LogCorrupted:
        refuse_unsupported(log, listing)
        raise
    states = [entry for version in listing.states if version not in listing.versions for entry in _state_entry(log, version)]
    return sorted([*entries, *states], key=lambda entry: entry.version)


def _tail(listing: LogListing) -> tuple[int, tuple[tuple[int, ...], int | None]]:
    """The newest checkpoint or state (without any: the version before the oldest file), and the versions that follow it without a gap."""
    base = listing.bases[-1] if listing.bases else listing.versions[0] - 1 if listing.versions else -1
    return base, listing.tail(base)


def _state_entry(log: TransactionLog, version: int) -> Iterator[HistoryEntry]:
    """Nothing for a broken state; reading the table reports it."""
    with suppress(LogCorrupted):
        created = read_state_manifest(log.store, version).created_at
        yield HistoryEntry(version, created or 0, None, None, None, None, None, None, None, None)


def version_at(log: TransactionLog, timestamp_ms: int) -> int | None:
    """The newest version that existed at that time. None: the newest readable version; reading it reports what the log has lost."""
    listing = log.listing()
    try:
        return _version_at(log, listing, timestamp_ms)
    except VersionNotFound:
        refuse_unsupported(log, listing)
        raise


def _version_at(log: TransactionLog, listing: LogListing, timestamp_ms: int) -> int | None:
    entries = read_history(log, listing)
    earlier = [entry.version for entry in entries if entry.timestamp_ms <= timestamp_ms]
    if not entries:
        raise TableNotFound.without_log(log.store.root)
    if not earlier:
        raise VersionNotFound(
            f"the table had no version at {format_time(timestamp_ms)}; the first version in its log, {entries[0].version}, "
            f"is of {format_time(entries[0].timestamp_ms)}"
        )
    found = max(earlier)
    _, (_, gap_at) = _tail(listing)
    if found == entries[-1].version and gap_at is not None:
        return None
    following = next((entry.version for entry in entries if entry.version > found), found + 1)
    if following > found + 1:  # versions in between have expired, and one of them was current at that time
        raise VersionNotFound(
            f"the version of {format_time(timestamp_ms)} has expired; the oldest retained version after version 0 is {following}"
        )
    return found


def format_time(timestamp_ms: int) -> str:
    """ISO 8601; milliseconds for a time outside the years 1 to 9999."""
    try:
        return iso_ms(timestamp_ms)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms since the epoch"


def version_of(log: TransactionLog, txn: Txn, newest: int) -> int | None:
    """The version, at most `newest`, that committed this application transaction; None if its version file has expired."""
    for version in reversed([version for version in log.listing().versions if version <= newest]):
        with suppress(VersionNotFound):  # it expired after the listing
            found = [action for action in log.read(version).actions if isinstance(action, Txn)]
            if any((action.app_id, action.version) == (txn.app_id, txn.version) for action in found):
                return version
    return None


def describe_removal(log: TransactionLog, path: str, version: int) -> str:
    """Says when a file of `version` was last removed; if that version has expired, the time of the oldest retained version after it."""
    times = {entry.version: format_time(entry.timestamp_ms) for entry in read_history(log) if entry.version > version}
    for later in reversed(times):
        with suppress(VersionNotFound):
            removes = [action for action in log.read(later).actions if isinstance(action, Remove)]
            if any(log.store.root.relative(remove.path) == path for remove in removes):
                return f"by version {later} of {times[later]}"
    return f"before version {min(times)} of {times[min(times)]}" if times else "in a version that has expired"


def _entry(file: VersionFile, modified_ms: int) -> HistoryEntry:
    info = next((a for a in file.actions if isinstance(a, CommitInfo)), None)
    adds = [a for a in file.actions if isinstance(a, Add)]
    removes = [a for a in file.actions if isinstance(a, Remove)]
    return HistoryEntry(
        version=file.version,
        timestamp_ms=commit_time(file, modified_ms),
        operation=info.operation if info else _guess_operation(file, adds, removes),
        user=info.user if info else None,
        engine=info.engine if info else None,
        job_id=info.job_id if info else None,
        num_added=len(adds),
        num_removed=len(removes),
        rows_added=sum(a.num_records or 0 for a in adds),
        bytes_added=sum(a.size for a in adds),
    )


def commit_time(file: VersionFile, modified_ms: int) -> int:
    """The time of a version: from its commitInfo, else (version 0) createdTime, else that of the file. Times outside the years 1 to 9999
    are ignored."""
    info = next((a for a in file.items if isinstance(a, CommitInfo)), None)
    if info is not None and info.timestamp is not None and _YEAR_1 <= info.timestamp < _YEAR_10000:
        return info.timestamp
    created = next((a.created_time for a in file.items if isinstance(a, Metadata)), None)
    return created if file.version == 0 and isinstance(created, int) and _YEAR_1 <= created < _YEAR_10000 else modified_ms


def _guess_operation(file: VersionFile, adds: Sequence[Add], removes: Sequence[Remove]) -> str | None:
    """The likely operation of a commit without a commitInfo."""
    if file.version == 0:
        return "create"
    if adds and removes:
        return "overwrite" if any(a.data_change for a in adds) else "merge_splits"
    return "append" if adds else None
