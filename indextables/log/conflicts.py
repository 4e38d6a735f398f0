"""Conflict rules: whether a commit may go on top of a newer version than the one it was prepared on. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from indextables.actions import MAPPING_PREFIX, Metadata, Txn
from indextables.errors import ConcurrentConflict
from indextables.texts import first_of


def require_live(operation: str, sources: Iterable[str], live: Container[str], base_version: int) -> None:
    """ConcurrentConflict unless every split that the operation replaces is still live: otherwise rows would reappear or be duplicated."""
    gone = [path for path in sources if path not in live]
    if gone:
        raise ConcurrentConflict(
            f"{operation} read {first_of(gone, 1)}, which another commit up to version {base_version} removed; nothing was committed"
        )


def require_same_columns(operation: str, seen: Metadata, now: Metadata, base_version: int) -> None:
    """ConcurrentConflict if the columns changed since: splits were written for the old ones."""
    for name, before, after in (
        ("schema", seen.schema_string, now.schema_string),
        ("partition columns", seen.partition_columns, now.partition_columns),
    ):
        if before != after:
            raise ConcurrentConflict(
                f"{operation} wrote splits for the {name} {str(before)[:200]}, but another commit up to version {base_version} "
                f"changed it to {str(after)[:200]}; nothing was committed"
            )


def require_same_metadata(operation: str, seen: Metadata, now: Metadata, base_version: int) -> None:
    """ConcurrentConflict if another commit changed the metadata that the operation replaces: that change would be lost.

    Doc mappings may differ: appends add them, and `Metadata.following` keeps them.
    """
    changed = [name for name in ("name", "description") if getattr(seen, name) != getattr(now, name)]
    either = seen.configuration.items() ^ now.configuration.items()
    changed += sorted({key for key, _ in either if not key.startswith(MAPPING_PREFIX)})
    if changed:
        raise ConcurrentConflict(
            f"{operation} read metadata whose {', '.join(changed)} another commit up to version {base_version} changed; "
            "nothing was committed; refresh the table and repeat the change"
        )


def is_already_committed(txn: Txn, known: Mapping[str, Txn]) -> bool:
    """Whether the application already committed this number or a later one: a superseded attempt must not commit late."""
    last = known.get(txn.app_id)
    return last is not None and last.version >= txn.version
