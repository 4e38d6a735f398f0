"""The tree of a query: plain data, which may be pickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Everything:
    pass


@dataclass(frozen=True, slots=True)
class Words:
    """A word, a phrase or a value, as the column has it; `column` is None for all text columns."""

    column: str | None
    text: str
    position: int
    quoted: bool = False
    prefix: bool = False
    slop: int = 0


@dataclass(frozen=True, slots=True)
class Exists:
    column: str
    position: int


@dataclass(frozen=True, slots=True)
class Range:
    column: str
    position: int
    lower: str | None = None
    upper: str | None = None
    include_lower: bool = True
    include_upper: bool = True


@dataclass(frozen=True, slots=True)
class Clause:
    """All of `must`, none of `must_not`, and at least one of `should` where `must` is empty. Only `must_not`: all but those."""

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    must_not: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Boost:
    node: Node
    factor: float


Node = Everything | Words | Exists | Range | Clause | Boost
