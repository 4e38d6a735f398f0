"""What tells a log from another that takes its place under the same path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Anchor:
    """A file of the log that the rest hangs on, and a digest of its text: commits carry an id of their own, so it tells logs apart."""

    path: str
    digest: bytes | None  # None: only its size and time are known
    stamp: tuple[int, int] | None  # None: it was never listed
