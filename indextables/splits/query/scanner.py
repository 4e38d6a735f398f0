"""Scans the text of a query: words, quoted strings and numbers, with their positions."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from indextables.errors import InvalidQuery

SPACE = " \t\r\n\f\v\u3000"
ENDS_WORD = frozenset(SPACE + '()[]{}"^')
_MESSAGE = 200  # characters
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def refusal(message: str, text: str, position: int) -> InvalidQuery:
    """The error with its position; a long message is shortened to one readable line."""
    short = message if len(message) <= _MESSAGE else f"{message[: _MESSAGE // 2]} … {message[-_MESSAGE // 2 :]}"
    return InvalidQuery(f"{short} at position {position} of the query", text, position)


class Scanner:
    """A position in a text, and the methods that advance it. A syntax error raises InvalidQuery with the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        raise refusal(message, self.text, self.at if position is None else position)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in SPACE:
            self.at += 1

    def keyword(self, word: str) -> bool:
        """Whether `word` comes next as a complete word; if so, skips it."""
        end = self.at + len(word)
        if self.text[self.at : end] != word or (end < len(self.text) and self.text[end] not in ENDS_WORD):
            return False
        self.at = end
        return True

    def expect(self, character: str, opened: int, what: str) -> None:
        if self.peek() != character:
            self.fail(f"{what} is not closed with {character!r}", opened)
        self.at += 1

    def word(self, in_value: bool) -> tuple[str, bool]:
        """An unquoted word with its escapes resolved, and whether it ends in `*`. In a value, colons are part of the word."""
        start = self.at
        characters: list[str] = []
        while self.peek() and self.peek() not in ENDS_WORD and (in_value or self.peek() != ":"):
            character = self.peek()
            if character == "\\":
                self.at += 1
                character = self.peek() or self.fail("\\ has nothing after it", self.at - 1)
            elif character == "*":
                if self.text[self.at + 1 : self.at + 2] not in ("", *ENDS_WORD):
                    self.fail("* is only supported at the end of a word")
                self.at += 1
                return "".join(characters), True
            characters.append(character)
            self.at += 1
        if self.at == start:
            self.fail(f"unexpected {self.peek()!r}")
        return "".join(characters), False

    def quoted(self) -> str:
        opened, quote = self.at, self.peek()
        characters: list[str] = []
        self.at += 1
        while self.peek() and self.peek() != quote:
            if self.peek() == "\\":
                self.at += 1
            characters.append(self.peek())
            self.at += 1
        self.expect(quote, opened, "the quoted string")
        return "".join(characters)

    def number(self, after: str, maximum: float) -> float:
        found = _NUMBER.match(self.text, self.at)
        value = float(found.group()) if found else math.nan
        if found is None or not 0 <= value <= maximum or (after == "~" and value % 1) or (after == "^" and value == 0):
            self.fail(f"{after} must be followed by a number up to {maximum:g}")
        self.at = found.end()
        return value
