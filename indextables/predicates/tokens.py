"""Splits the text of a predicate into tokens with their positions.

Only the words that predicates use are keywords; every other word of SQL (`select`, `case`, `rlike`) is a name. Strings are in single
quotes, quoted names in double quotes or backticks. A quote inside is doubled; a backslash is an ordinary character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_CHARACTERS
from indextables.predicates.literals import excerpt

# The kind of a token is one of these four, one of TYPES, a keyword in capitals, or a sign.
NAME, STRING, NUMBER, END = "name", "string", "number", "the end"
TYPES = ("DATE", "TIMESTAMP", "X")  # kinds of a literal such as DATE '2024-01-31'; elsewhere these words are names
_WORDS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "UNKNOWN"})
_SYNONYMS = {"==": "=", "!=": "<>"}
_QUOTED = "'(?:[^']|'')*+'"  # possessive: an unclosed string must not end at its first doubled quote
_TOKEN = re.compile(
    rf"""
      (?P<space>   \s+ )
    | (?P<typed>   (?: (?P<type> (?ai: date | timestamp ) ) \s*+ | (?P<binary> [xX] ) ) (?P<content> {_QUOTED} ) )
    | (?P<prefix>  [nN] (?=') )
    | (?P<word>    [^\W\d]\w* )
    | (?P<number>  (?: [+-]\s*+ )? (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? ) (?P<rest> [\w.]* )
    | (?P<string>  {_QUOTED} )
    | (?P<quoted>  "(?:[^"]|"")*+" | `(?:[^`]|``)*+` )
    | (?P<sign>    <=> | <> | <= | >= | != | == | [(),<>=] )
    """,
    re.VERBOSE,
)
_HINTS = {
    ";": "a predicate is one condition without semicolons",
    ".": "nested columns are not supported (a name with a dot is written in backticks)",
    **dict.fromkeys("+-*/%", "arithmetic is not supported"),
}


class Token(NamedTuple):
    kind: str
    value: str  # the name, string or number without its quotes
    start: int
    end: int  # exclusive


def tokenize(text: str) -> list[Token]:
    """The tokens, the last of kind END; InvalidPredicate if the text has a character that no predicate has."""
    if len(text) > PREDICATE_CHARACTERS:
        raise InvalidPredicate(f"the predicate has {len(text)} characters, more than {PREDICATE_CHARACTERS}", text, PREDICATE_CHARACTERS)
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:
        raise InvalidPredicate(f"{surrogate.group()!r} is half of a surrogate pair, not a character", text, surrogate.start())
    return [*_tokens(text), Token(END, END, len(text), len(text))]


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found["prefix"]:
            raise _unreadable(text, position)
        if not found["space"]:
            yield _token(text, found)
        position = found.end()


def _token(text: str, found: re.Match[str]) -> Token:
    start, end, shown = found.start(), found.end(), found.group()
    if found["typed"]:
        return Token((found["type"] or found["binary"]).upper(), _unquoted(found["content"]), start, end)
    if found["word"]:
        word = shown.upper()
        is_keyword = word in _WORDS and shown.isascii()  # "ı".upper() is "I"
        return Token(word if is_keyword else NAME, shown, start, end)
    if found["number"]:
        if found["rest"]:
            raise InvalidPredicate(f"{excerpt(shown)!r} is not a number", text, start)
        return Token(NUMBER, "".join(shown.split()), start, end)
    if found["sign"]:
        return Token(_SYNONYMS.get(shown, shown), shown, start, end)
    return Token(STRING if found["string"] else NAME, _unquoted(shown), start, end)


def _unquoted(quoted: str) -> str:
    quote = quoted[0]
    return quoted[1:-1].replace(quote * 2, quote)


def _unreadable(text: str, position: int) -> InvalidPredicate:
    found = text[position : position + 2]
    if found in ("--", "/*"):
        return InvalidPredicate(f"comments are not supported, found {found!r}", text, position)
    if found in ("n'", "N'"):
        return InvalidPredicate(f"expected a string in single quotes, found {found}", text, position)
    if found[0] in "'\"`":
        return InvalidPredicate(f"the {found[0]} at position {position} is never closed", text, position)
    return InvalidPredicate(f"unexpected {found[0]!r}: {_HINTS.get(found[0], 'a predicate cannot contain this character')}", text, position)
