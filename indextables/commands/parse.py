"""Parses the text of a command; an error points at the offending word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from indextables import limits
from indextables.commands.grammar import GRAMMAR, NAMES, PHRASES
from indextables.config import parse_size
from indextables.errors import InvalidArgument, InvalidCommand
from indextables.operations.request import DURATION, FLAG, FOLDER, PREDICATE, SIZE, Interface, Option, Request
from indextables.operations.verbs import REQUESTS

_WORD = re.compile(r"""(["'`])(?:(?!\1).|\1\1)+\1|[\w.]+|\S""", re.DOTALL)  # a quoted text counts as a word
_VERBS = {verb.verb_name(): verb for verb in REQUESTS if Interface.SQL in verb.interfaces}
_NEVER_SUGGESTED = frozenset({"COMMENT", "PRECOMMIT"})  # not named in the list of expected words
_MAX_HOURS = 2**31 - 1
_MAX_DIGITS = 18
_Clauses = dict[str, Tree[Token]]  # by name


@dataclass(frozen=True, slots=True)
class Command:
    request: Request
    path: str | None  # of the table; None: all tables
    where_position: int | None = None  # position of the request's `where` in the text


def parse_command(text: str) -> Command:
    """The command of a text; InvalidCommand says what was expected, and where."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a command must be a string, not {type(text).__name__!r}")
    if len(text) > limits.PREDICATE_CHARACTERS:
        raise InvalidCommand(f"the command has {len(text)} characters, more than {limits.PREDICATE_CHARACTERS}")
    try:
        tree: Tree[Token] = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    return _Reader(text).command(tree.children[0])  # type: ignore[arg-type]


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", maybe_placeholders=False)


def _syntax_error(error: UnexpectedInput, text: str) -> InvalidCommand:
    if isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        position = len(text) if error.token.type == "$END" else error.token.start_pos
    else:
        expected = error.allowed if isinstance(error, UnexpectedCharacters) else set()
        position = error.pos_in_stream
    position, expected = _inside_clause(text, len(text) if position is None else position, expected or ())
    found = _WORD.search(text, position)
    if found is None:
        shown, position = "the end", len(text.rstrip())
    elif found.group() in "'\"`":
        return InvalidCommand(f"the {found.group()} at position {found.start()} is never closed, or quotes nothing", text, found.start())
    else:
        shown, position = found.group()[:40], found.start()
    return InvalidCommand(f"expected {_alternatives(expected)}, found {shown}", text, position)


def _inside_clause(text: str, position: int, expected: Iterable[str]) -> tuple[int, set[str]]:
    """Moves an error to the first wrong word of a clause of several words, and gives the words allowed there."""
    furthest, words = position, set(expected)
    for phrase in PHRASES:
        if phrase.replace(" ", "_") not in expected:
            continue
        at, rest = position, phrase.split()
        while (found := _WORD.search(text, at)) is not None and found.group().upper() == rest[0]:
            at, rest = found.end(), rest[1:]
        if at > furthest:
            furthest, words = at, set()
        if at == furthest > position:
            words.add(rest[0])
    return furthest, words


def _alternatives(terminals: Iterable[str]) -> str:
    names = sorted({NAMES.get(name, name.replace("_", " ")) for name in terminals} - _NEVER_SUGGESTED)
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names) or "the end"


class _Reader:
    """Turns the syntax tree of a command into the request of its verb."""

    def __init__(self, text: str) -> None:
        self._text = text

    def command(self, tree: Tree[Token]) -> Command:
        clauses = self._clauses(tree)
        if "precommit" in clauses:
            at = self._start(clauses["precommit"])
            raise InvalidCommand("PRECOMMIT is not supported: splits are merged after they are committed", self._text, at)
        verb = _VERBS[str(tree.data)]
        request = verb(**{name: self._value(clause, verb.option(name)) for name, clause in clauses.items()})
        where = clauses.get("where")
        return Command(request, _path(tree), None if where is None else self._predicate(where)[0])

    def _value(self, clause: Tree[Token], option: Option) -> Any:
        """The value that a clause gives to its option."""
        if option.type is FLAG:
            return True
        if option.type is FOLDER:
            return _path(clause)
        if option.type is PREDICATE:
            start, end = self._predicate(clause)
            return self._text[start:end]
        if option.type is DURATION:
            return self._hours(clause)
        return self._size(clause, option) if option.type is SIZE else self._number(clause, option)

    def _clauses(self, tree: Tree[Token]) -> _Clauses:
        """The clauses by name; each may be given once."""
        clauses: _Clauses = {}
        for clause in (child for child in tree.children if isinstance(child, Tree)):
            if clause.data in clauses:
                raise InvalidCommand(f"{_tokens(clause)[0].upper()} … is given twice", self._text, self._start(clause))
            clauses[str(clause.data)] = clause
        return clauses

    def _start(self, clause: Tree[Token]) -> int:
        return _tokens(clause)[0].start_pos or 0

    def _predicate(self, clause: Tree[Token]) -> tuple[int, int]:
        """The start and the end of a predicate in the text."""
        (predicate,) = (child for child in clause.children if isinstance(child, Tree))
        return self._start(predicate), _tokens(predicate)[-1].end_pos or 0

    def _size(self, clause: Tree[Token], option: Option) -> int:
        token = _tokens(clause)[-1]
        if len(token) > _MAX_DIGITS:
            raise InvalidCommand(f"{token[:40]!r} is not a size; write it like 100M, 1.5G or 4096", self._text, token.start_pos)
        self._check(str(token), option, token)
        return parse_size(str(token))

    def _number(self, clause: Tree[Token], option: Option) -> int:
        token = _tokens(clause)[-1]
        if len(token) > _MAX_DIGITS:
            raise InvalidCommand(f"{token[:40]} has too many digits", self._text, token.start_pos)
        self._check(int(token), option, token)
        return int(token)

    def _hours(self, clause: Tree[Token]) -> str:
        token, unit = _tokens(clause)[-2:]
        if int(token[:_MAX_DIGITS]) > _MAX_HOURS or len(token) > _MAX_DIGITS:
            raise InvalidCommand(f"{token[:40]} is more than {_MAX_HOURS}", self._text, token.start_pos)
        return f"{int(token) * (24 if unit.type == 'DAYS' else 1)}h"

    def _check(self, value: Any, option: Option, token: Token) -> None:
        """Checks the value of an option; the error points at the token."""
        try:
            option.type.check(option.name.replace("_", " "), value)
        except InvalidArgument as error:
            raise InvalidCommand(str(error), self._text, token.start_pos) from None


def _tokens(tree: Tree[Token]) -> Sequence[Token]:
    return [child for child in tree.children if isinstance(child, Token)]


def _path(tree: Tree[Token]) -> str | None:
    return next((_unquoted(token) for token in _tokens(tree) if token.type in ("QUOTED_PATH", "BARE_PATH")), None)


def _unquoted(token: Token) -> str:
    mark = token[0]
    return str(token) if token.type == "BARE_PATH" else token[1:-1].replace(mark * 2, mark)
