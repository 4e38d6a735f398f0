"""The parts of an index that a query reads, so that only those are fetched of a split in a remote store."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, NamedTuple

WORDS = "words"  # the dictionary and the postings
POSITIONS = "positions"  # the dictionary, the postings, and the positions of words within a row
FAST = "fast"  # the columnar values
_MOST_WORDS = 64  # words of one field; beyond that the complete field is read


class IndexPart(NamedTuple):
    field: str
    kind: str  # one of the above
    word: bytes | None = None  # as it is in the dictionary; None for all words of the field


def covers(available: frozenset[IndexPart], parts: frozenset[IndexPart]) -> bool:
    return all(part in available or part._replace(word=None) in available for part in parts)


def joined(available: frozenset[IndexPart], parts: frozenset[IndexPart]) -> frozenset[IndexPart]:
    """The union, without single words of fields that are read completely."""
    both = available | parts
    counts = Counter((part.field, part.kind) for part in both)
    whole = {pair for pair, count in counts.items() if count > _MOST_WORDS or IndexPart(*pair) in both}
    return frozenset(part for part in both if (part.field, part.kind) not in whole) | {IndexPart(*pair) for pair in whole}


class Searchable(ABC):
    """An index that the first search opens. A partial one is opened again for a query that needs further parts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_searcher: Any = None
        self._searchable: frozenset[IndexPart] = frozenset()

    @property
    @abstractmethod
    def is_partial(self) -> bool:
        """Whether only the bytes that are used are fetched, so that an open index covers only some queries."""

    @abstractmethod
    def _open_index(self, parts: frozenset[IndexPart]) -> Any:
        """tantivy's searcher on an index that has at least these parts."""

    def _searcher(self, parts: frozenset[IndexPart]) -> Any:
        with self._lock:
            if self._open_searcher is None or (self.is_partial and not covers(self._searchable, parts)):
                combined = joined(self._searchable, parts)
                self._open_searcher = self._open_index(combined)
                self._searchable = combined
            return self._open_searcher
