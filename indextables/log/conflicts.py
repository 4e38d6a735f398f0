"""What stands in the way of a commit on a newer base. Pure: facts in, an error or nothing out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from indextables.actions import Txn
from indextables.errors import ConcurrentConflict


def require_live(operation: str, sources: Iterable[str], live: Container[str], base_version: int) -> None:
    """Every split an operation replaces must still be live: otherwise rows would come back or be doubled."""
    gone = [path for path in sources if path not in live]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise ConcurrentConflict(
            f"{operation} read {gone[0]!r}{more}, which another commit up to version {base_version} removed; nothing was written"
        )


def is_already_committed(txn: Txn, known: Mapping[str, Txn]) -> bool:
    """Whether the table has this application's number, or a later one: a replaced attempt must not commit late."""
    last = known.get(txn.app_id)
    return last is not None and last.version >= txn.version
