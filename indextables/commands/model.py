"""A parsed command: the request of its verb and the table it names."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.operations.request import Request


@dataclass(frozen=True, slots=True)
class Command:
    request: Request
    path: str | None  # None: all tables
    where_position: int | None = None  # position of the request's `where` in the text
