"""What stands in the way of a commit on a newer base. Pure: facts in, an error or nothing out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from indextables.actions import MAPPING_PREFIX, Metadata, Txn
from indextables.errors import ConcurrentConflict


def require_live(operation: str, sources: Iterable[str], live: Container[str], base_version: int) -> None:
    """Every split an operation replaces must still be live: otherwise rows would come back or be doubled."""
    gone = [path for path in sources if path not in live]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise ConcurrentConflict(
            f"{operation} read {gone[0]!r}{more}, which another commit up to version {base_version} removed; nothing was written"
        )


def require_same_columns(operation: str, seen: Metadata, now: Metadata, base_version: int) -> None:
    """Splits are written for the columns that the table had then; another program may change them, or make the table anew."""
    for name, before, after in (
        ("schema", seen.schema_string, now.schema_string),
        ("partition columns", seen.partition_columns, now.partition_columns),
    ):
        if before != after:
            raise ConcurrentConflict(
                f"{operation} wrote splits for the {name} {str(before)[:200]}, and another commit up to version {base_version} "
                f"made it {str(after)[:200]}; nothing was committed"
            )


def require_same_metadata(operation: str, seen: Metadata, now: Metadata, base_version: int) -> None:
    """What replaces the metadata was written by one who saw all of it: what another commit changed meanwhile would be undone.

    Doc mappings come with appends, and stay whoever writes the next metadata.
    """
    changed = [name for name in ("name", "description") if getattr(seen, name) != getattr(now, name)]
    either = seen.configuration.items() ^ now.configuration.items()
    changed += sorted({key for key, _ in either if not key.startswith(MAPPING_PREFIX)})
    if changed:
        raise ConcurrentConflict(
            f"{operation} read metadata whose {', '.join(changed)} another commit up to version {base_version} changed; "
            "nothing was written: refresh, and say it of what is there now"
        )


def is_already_committed(txn: Txn, known: Mapping[str, Txn]) -> bool:
    """Whether the table has this application's number, or a later one: a replaced attempt must not commit late."""
    last = known.get(txn.app_id)
    return last is not None and last.version >= txn.version
