"""A predicate's text as tokens, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_CHARACTERS


class Kind(Enum):
    WORD = "word"  # a bare identifier
    KEYWORD = "keyword"
    QUOTED = "quoted"  # an identifier in backticks or double quotes
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


# `date` and `timestamp` are no keywords: they are common column names, and mean a literal only before a string.
KEYWORDS = frozenset(["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "UNKNOWN"])
_SYNONYMS = {"!=": "<>", "==": "="}

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--|/\*)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>'(?:[^']++|'')*+')
    | (?P<quoted>`(?:[^`]++|``)*+`|"(?:[^"]++|"")*+")
    | (?P<word>[^\W\d]\w*)
    | (?P<symbol><=>|<>|!=|==|<=|>=|[=<>(),+-])
    """,
    re.VERBOSE,
)
_AFTER_NUMBER = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    value: str  # unquoted; keywords in capitals; `<>` and `=` for their synonyms
    text: str  # as written
    position: int

    def shown(self) -> str:
        """How an error message names it."""
        return "the end" if self.kind is Kind.END else excerpt(self.text)


def excerpt(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def tokenize(text: str) -> list[Token]:
    """All tokens and a last END; InvalidPredicate where the text is too long or holds what no predicate does."""
    if len(text) > PREDICATE_CHARACTERS:
        raise InvalidPredicate(f"the predicate has {len(text)} characters, more than {PREDICATE_CHARACTERS}", text, PREDICATE_CHARACTERS)
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:
        raise InvalidPredicate(f"{surrogate.group()!r} is half a character and cannot be compared", text, surrogate.start())
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unreadable(text, position)
        position = found.end()
        if found.lastgroup != "space":
            tokens.append(_token(text, str(found.lastgroup), found.group(), found.start()))
    tokens.append(Token(Kind.END, "", "", len(text)))
    return tokens


def _token(text: str, group: str, written: str, position: int) -> Token:
    if group == "comment":
        raise InvalidPredicate(f"comments are not supported, found {written!r}", text, position)
    if group == "word":
        keyword = written.upper() if written.isascii() else ""
        return Token(Kind.KEYWORD, keyword, written, position) if keyword in KEYWORDS else Token(Kind.WORD, written, written, position)
    if group == "number":
        rest = _AFTER_NUMBER.match(text, position + len(written))
        if rest:
            raise InvalidPredicate(f"{excerpt(written + rest.group())!r} is not a number", text, position)
        return Token(Kind.NUMBER, written, written, position)
    if group == "symbol":
        return Token(Kind.SYMBOL, _SYNONYMS.get(written, written), written, position)
    mark = written[0]
    return Token(Kind(group), written[1:-1].replace(mark * 2, mark), written, position)


def _unreadable(text: str, position: int) -> InvalidPredicate:
    found = text[position]
    if found in "'\"`":
        return InvalidPredicate(f"the {found} at position {position} is never closed", text, position)
    hints = {
        ";": "a predicate is one condition without semicolons",
        ".": "nested columns are not supported (a name with a dot is written in backticks)",
        "*": "arithmetic is not supported",
        "/": "arithmetic is not supported",
        "%": "arithmetic is not supported",
    }
    return InvalidPredicate(f"unexpected {found!r}: {hints.get(found, 'no predicate holds this character')}", text, position)
