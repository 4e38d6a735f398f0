"""Snippets: the passage of a text that matches a query best, with the matching words marked: `disk **full** on …`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from indextables.splits.index import DocMapping, analyzer, kinds
from indextables.splits.query.compile import ParsedQuery
from indextables.splits.query.tree import Boost, Clause, Node, Words

LENGTH = 160  # characters of a snippet; words are not cut
MARK = "**"
GAP = "…"
_LONGEST = 1_000_000  # characters of a text that are searched for matches


@dataclass(frozen=True, slots=True)
class _Mark:
    start: int
    end: int
    found: str  # the matching word of the query


class Highlighter:
    """Marks the words that a query searches a column for, without the words it excludes."""

    def __init__(self, query: ParsedQuery, column: str, mapping: DocMapping) -> None:
        tokenizer = mapping.tokenizer(column)
        self._substrings = tokenizer == kinds.NGRAM
        self._analyzer = analyzer(tokenizer)
        self._whole = dict(mapping.fields).get(column) == kinds.STRING
        self._words: set[str] = set()
        self._prefixes: set[str] = set()
        for node in _positive_words(query.tree):
            if column == node.column.name if node.column is not None else column in query.default_columns:
                self._add(node)

    def snippet(self, text: str) -> str | None:
        """The best passage with every matching word marked; None if nothing matches."""
        marks = self._marks(text[:_LONGEST])
        if not marks:
            return None
        first, count = _best(marks)
        start, end = _bounds(text, marks[first].start, marks[first + count - 1].end)
        return _shown(text, start, end, marks[first : first + count])

    def _add(self, node: Words) -> None:
        if self._substrings:
            self._words.add(node.text.lower())
            return
        tokens = [node.text] if self._whole else self._analyzer.analyze(node.text)
        if node.prefix and tokens:
            self._prefixes.add(tokens.pop())
        self._words.update(tokens)

    def _marks(self, text: str) -> list[_Mark]:
        if not self._words and not self._prefixes:
            return []
        if self._substrings:
            return self._marked_substrings(text)
        if self._whole:
            found = self._found(text)
            return [] if found is None else [_Mark(0, len(text), found)]
        tokens = self._analyzer.pre_tokenize(text).tokens
        marks = ((token, self._found(token.text)) for token in tokens)
        return [_Mark(token.char_offset_from, token.char_offset_to, found) for token, found in marks if found is not None]

    def _marked_substrings(self, text: str) -> list[_Mark]:
        """Non-overlapping matches from left to right, the longest at each position."""
        lowered = text.lower()
        if len(lowered) != len(text):  # its offsets are not those of the text
            return []
        pattern = "|".join(re.escape(word) for word in sorted(self._words, key=len, reverse=True))
        return [_Mark(*found.span(), found.group()) for found in re.finditer(pattern, lowered)]

    def _found(self, word: str) -> str | None:
        if word in self._words:
            return word
        return next((prefix for prefix in sorted(self._prefixes) if word.startswith(prefix)), None)


def best_snippet(highlighters: Sequence[Highlighter], texts: Sequence[str | None]) -> str | None:
    """The best snippet of each column of a row that has matches; without any, the beginning of the first column that is not null."""
    known = [(highlighter, text) for highlighter, text in zip(highlighters, texts, strict=True) if text is not None]
    pieces = [piece for highlighter, text in known if (piece := highlighter.snippet(text)) is not None]
    return f" {GAP} ".join(pieces) if pieces else beginning(known[0][1]) if known else None


def beginning(text: str) -> str:
    """The snippet of a text without matches."""
    start, end = _bounds(text, 0, 0)
    return _shown(text, start, end, [])


def _positive_words(node: Node) -> Iterator[Words]:
    waiting = [node]
    while waiting:
        match waiting.pop():
            case Words() as words:
                yield words
            case Clause(must, should, _):
                waiting += [*must, *should]
            case Boost(inner, _):
                waiting.append(inner)
            case _:
                pass


def _best(marks: Sequence[_Mark]) -> tuple[int, int]:
    """The first mark and the number of marks of the passage with most distinct words, then most words, then the smallest offset."""
    best = (0, 0, 0, 0)
    end = 0
    for first, mark in enumerate(marks):
        end = max(end, first + 1)
        while end < len(marks) and marks[end].end - mark.start <= LENGTH:
            end += 1
        rank = (len({m.found for m in marks[first:end]}), end - first, -first, end - first)
        best = max(best, rank)
    return -best[2], best[3]


def _bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """The bounds of the passage extended to LENGTH, cut at a space where there is one."""
    spare = max(0, LENGTH - (end - start))
    low = max(0, start - spare // 2)
    high = min(len(text), low + (end - start) + spare)
    low = max(0, min(low, high - LENGTH))
    if low > 0 and (space := text.find(" ", low, start)) >= 0:
        low = space + 1
    if high < len(text) and (space := text.rfind(" ", end, high)) >= 0:
        high = space
    return low, high


def _shown(text: str, start: int, end: int, marks: Sequence[_Mark]) -> str:
    parts = [GAP if start else ""]
    at = start
    for mark in marks:
        parts += [text[at : mark.start], MARK, text[mark.start : mark.end], MARK]
        at = mark.end
    parts += [text[at:end], GAP if end < len(text) else ""]
    return " ".join("".join(parts).split())  # on one line
