"""A parsed command: the request of its verb, and the table that it names."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.operations.request import Request


@dataclass(frozen=True, slots=True)
class Command:
    request: Request
    path: str | None  # None: every table
    where_at: int | None = None  # position in the text at which the request's `where` begins
