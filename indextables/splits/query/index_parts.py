"""What a query reads of an index, so that of a split in a remote store no more has to be fetched."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

WORDS = "words"  # the dictionary and the postings
POSITIONS = "positions"  # these, and where in a row its words are
FAST = "fast"  # the values by row
_MOST_WORDS = 64  # of one field; who asks for more gets all


class Need(NamedTuple):
    field: str
    part: str  # one of the above
    word: bytes | None = None  # as it is in the dictionary; None for all words of the field


def covers(known: frozenset[Need], needs: frozenset[Need]) -> bool:
    return all(need in known or need._replace(word=None) in known for need in needs)


def joined(known: frozenset[Need], needs: frozenset[Need]) -> frozenset[Need]:
    """All of both, without words of fields that are there as a whole."""
    both = known | needs
    counts = Counter((need.field, need.part) for need in both)
    whole = {pair for pair, count in counts.items() if count > _MOST_WORDS or Need(*pair) in both}
    return frozenset(need for need in both if (need.field, need.part) not in whole) | {Need(*pair) for pair in whole}
