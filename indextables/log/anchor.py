"""Detects that a table was deleted and created again under the same path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Anchor:
    """A file of the log with the digest of its text. Commits have unique ids, so two logs never share it: if it changes, the log did."""

    path: str
    digest: bytes | None  # None: only size and time are known
    stamp: tuple[int, int] | None  # size and time; None: it was never listed
