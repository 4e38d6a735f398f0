"""Parts of messages that several packages use."""

from __future__ import annotations

from collections.abc import Sequence


def first_of(paths: Sequence[str], most: int) -> str:
    """Names the first `most` paths and counts the others: `'a', 'b' and 3 more`."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(repr(path) for path in paths[:most]) + more
