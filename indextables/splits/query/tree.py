"""The tree of a query: plain data that can be pickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    position: int  # in the text of the query


@dataclass(frozen=True, slots=True)
class Everything:
    pass


@dataclass(frozen=True, slots=True)
class Words:
    """A word, a phrase or a value, depending on the column; `column` is None for all text columns."""

    column: Column | None
    text: str
    position: int
    quoted: bool = False
    prefix: bool = False
    slop: int = 0


@dataclass(frozen=True, slots=True)
class Exists:
    """The column is not null."""

    column: Column


@dataclass(frozen=True, slots=True)
class Range:
    column: Column
    position: int
    lower: str | None = None
    upper: str | None = None
    include_lower: bool = True
    include_upper: bool = True


@dataclass(frozen=True, slots=True)
class Clause:
    """All of `must`, none of `must_not`, and at least one of `should` if `must` is empty. With only `must_not`: everything else."""

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    must_not: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Boost:
    node: Node
    factor: float


Node = Everything | Words | Exists | Range | Clause | Boost
