"""A predicate's text as sqlglot's tokens, each with its place, and none that no predicate has.

The tokenizer knows only the words and signs of a predicate: whatever else SQL has (`select`, `case`, `rlike`) is a name. Comments and
every other character stay part of a word, where they are found and refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import ClassVar

from sqlglot import Token, TokenError, Tokenizer, TokenType

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_CHARACTERS
from indextables.predicates.literals import excerpt

_WORDS = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "UNKNOWN", "DATE", "TIMESTAMP")
TYPES = (TokenType.DATE, TokenType.TIMESTAMP)  # common column names too: they mean a literal only before a string
_SIGNS = (TokenType.PLUS, TokenType.DASH)
_NAME = re.compile(r"(?:[^\W\d]\w*)?")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_AFTER_NUMBER = re.compile(r"[\w.]*")
_QUOTE = re.compile("['\"`]")
_HINTS = {
    ";": "a predicate is one condition without semicolons",
    ".": "nested columns are not supported (a name with a dot is written in backticks)",
    **dict.fromkeys("+-*/%", "arithmetic is not supported"),
}


class _Words(Tokenizer):
    """Strings in single quotes, names in double ones and backticks; the mark itself is doubled, and a backslash is a character."""

    QUOTES: ClassVar = ["'"]
    STRING_ESCAPES: ClassVar = ["'"]
    IDENTIFIERS: ClassVar = ['"', "`"]
    COMMENTS: ClassVar = []
    SINGLE_TOKENS: ClassVar = {
        "(": TokenType.L_PAREN,
        ")": TokenType.R_PAREN,
        ",": TokenType.COMMA,
        ".": TokenType.DOT,
        "+": TokenType.PLUS,
        "-": TokenType.DASH,
        "=": TokenType.EQ,
        "<": TokenType.LT,
        ">": TokenType.GT,
        "!": TokenType.EXCLAMATION,
        **dict.fromkeys("'\"`", TokenType.UNKNOWN),  # they end a word
    }
    KEYWORDS: ClassVar = {
        "==": TokenType.EQ,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "<=>": TokenType.NULLSAFE_EQ,
        **{word: TokenType[word] for word in _WORDS},
    }


_PLAIN = frozenset(_Words.KEYWORDS.values()) | frozenset(_Words.SINGLE_TOKENS[sign] for sign in "(),+-<>=")


def tokenize(text: str) -> list[Token]:
    """Names are of type IDENTIFIER, quoted or not; a number has its sign. InvalidPredicate where the text holds what no predicate does."""
    if len(text) > PREDICATE_CHARACTERS:
        raise InvalidPredicate(f"the predicate has {len(text)} characters, more than {PREDICATE_CHARACTERS}", text, PREDICATE_CHARACTERS)
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:
        raise InvalidPredicate(f"{surrogate.group()!r} is half a character and cannot be compared", text, surrogate.start())
    tokenizer = _Words()
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError as cause:
        before = list(_checked(text, tokenizer.tokens))
        raise _never_closed(text, before[-1].end + 1 if before else 0) from cause
    return list(_signed(text, list(_checked(text, tokens))))


def written(text: str, token: Token) -> str:
    return text[token.start : token.end + 1]


def _checked(text: str, tokens: list[Token]) -> Iterator[Token]:
    """Words as names, `.5` as one number, the X of X'ff' as a type before its string, and nothing that no predicate has."""
    dot: Token | None = None  # before a number
    for token, following in zip_longest(tokens, tokens[1:]):
        kind = token.token_type
        after = following.token_type if following else None
        touched = following is not None and following.start == token.end + 1
        if kind is TokenType.DOT and after is TokenType.NUMBER and touched:
            dot = token
        elif kind is TokenType.NUMBER:
            yield _number(text, (dot or token).start, token.end)
            dot = None
        elif kind in (TokenType.STRING, TokenType.IDENTIFIER) or (kind in TYPES and after is TokenType.STRING):
            yield token
        elif kind is TokenType.VAR and token.text in ("X", "x") and after is TokenType.STRING and touched:
            yield Token(TokenType.BINARY, token.text, start=token.start, end=token.end)
        elif kind is TokenType.VAR or kind in TYPES or (kind in _PLAIN and not token.text.isascii()):  # "ı".upper() is "I"
            yield _name(text, token)
        elif kind not in _PLAIN or (kind is TokenType.DASH and after is TokenType.DASH and touched):
            raise _unreadable(text, token.start)
        else:
            yield token


def _number(text: str, start: int, end: int) -> Token:
    number = text[start : end + 1]
    after = _AFTER_NUMBER.match(text, end + 1)
    if not _NUMBER.fullmatch(number) or (after and after.group()):
        raise InvalidPredicate(f"{excerpt(text[start : after.end() if after else end + 1])!r} is not a number", text, start)
    return Token(TokenType.NUMBER, number, start=start, end=end)


def _name(text: str, token: Token) -> Token:
    name = _NAME.match(token.text)
    length = name.end() if name else 0
    if length < len(token.text):
        raise _unreadable(text, token.start + length)
    return Token(TokenType.IDENTIFIER, token.text, start=token.start, end=token.end)


def _signed(text: str, tokens: list[Token]) -> Iterator[Token]:
    """Signs as part of their numbers: sqlglot has no use for `+`, and one call more for each `-`."""
    sign: Token | None = None
    for token, following in zip_longest(tokens, tokens[1:]):
        if sign:
            yield Token(TokenType.NUMBER, sign.text + token.text, start=sign.start, end=token.end)
            sign = None
        elif token.token_type not in _SIGNS:
            yield token
        elif following and following.token_type is TokenType.NUMBER:
            sign = token
        else:
            raise _unreadable(text, token.start)


def _never_closed(text: str, position: int) -> InvalidPredicate:
    quote = _QUOTE.search(text, position)
    assert quote, "only what begins with a quote can be no token"
    return InvalidPredicate(f"the {quote.group()} at position {quote.start()} is never closed", text, quote.start())


def _unreadable(text: str, position: int) -> InvalidPredicate:
    found = text[position : position + 2]
    if found in ("--", "/*"):
        return InvalidPredicate(f"comments are not supported, found {found!r}", text, position)
    if found in ("n'", "N'"):
        return InvalidPredicate(f"expected a string in single quotes, found {found}", text, position)
    return InvalidPredicate(f"unexpected {found[0]!r}: {_HINTS.get(found[0], 'no predicate holds this character')}", text, position)
