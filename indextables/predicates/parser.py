"""The condition that a text means, parsed with sqlglot.

condition  := condition OR condition | condition AND condition | NOT condition | predicate
predicate  := operand [ (= <> != < <= > >= <=>) value | [NOT] IN (literal, …) | [NOT] BETWEEN value AND value
            | [NOT] LIKE 'pattern' [ESCAPE 'c'] | IS [NOT] (NULL | TRUE | FALSE | UNKNOWN) ]
operand    := ( condition ) | value          value := column | literal | ( value )
literal    := [+-] number | 'string' | TRUE | FALSE | NULL | DATE '…' | TIMESTAMP '…' | X'hex'

sqlglot takes some twenty Python frames for each level of nesting. So what stands between two parentheses is parsed when the second one is
read, and is a single token in the text around it: sqlglot sees no nesting, however deep the text is, and needs no more stack for it. What
becomes of the predicate later does: hence limits.PREDICATE_DEPTH.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import Token, TokenType

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_DEPTH
from indextables.predicates.binder import Binder, Parsed
from indextables.predicates.conversion import COMPARISONS, Conversion
from indextables.predicates.expressions import Expr
from indextables.predicates.literals import excerpt
from indextables.predicates.tokens import tokenize, written

_BEFORE_VALUE = frozenset(COMPARISONS) | {
    TokenType.LIKE,
    TokenType.ESCAPE,
    TokenType.BETWEEN,
    TokenType.IN,
    TokenType.COMMA,
    TokenType.L_PAREN,
}
_BEFORE_CONDITION = (None, TokenType.AND, TokenType.OR, TokenType.NOT)


def parse(binder: Binder) -> Expr:
    """The condition, bound; InvalidPredicate where the text is none."""
    return _Parser(binder).parse()


@dataclass(slots=True)
class _Level:
    """What was read of the text between two parentheses, or of the whole."""

    opened: Token | None = None
    tokens: list[Token] = field(default_factory=list)
    before: TokenType | None = None  # the next token
    negations: int = 0  # that hold for the next token
    between: bool = False  # the next AND is that of BETWEEN
    listing: bool = False  # the list of IN is open


class _Parser:
    """One predicate's text, read once from left to right."""

    def __init__(self, binder: Binder) -> None:
        self._bind = binder
        self._levels = [_Level()]
        self._depth = 0
        self._bound: dict[int, Parsed] = {}  # what stands between parentheses, by the place of the first

    def parse(self) -> Expr:
        text = self._bind.text
        tokens = tokenize(text)
        if not tokens:
            raise self._bind.error("the predicate is empty", 0)
        try:
            for token in tokens:
                self._read(token)
            parsed = self._convert(self._levels[-1], _end(len(text)))
            if len(self._levels) > 1:
                raise self._bind.error("expected AND, OR or ')', found the end", len(text))
        except InvalidPredicate as error:
            raise self._first_error(error) from error.__cause__
        return self._bind.condition(parsed)

    def _first_error(self, found: InvalidPredicate) -> InvalidPredicate:
        """What was found between parentheses may not be the first error of the text."""
        ends = [level.opened for level in self._levels if level.opened] + [_end(found.position or 0)]
        for level, end in zip(self._levels, ends, strict=True):
            try:
                self._convert(level, end)
            except InvalidPredicate as error:
                if (error.position or 0) < end.start:
                    return error
        return found

    def _read(self, token: Token) -> None:
        level, kind = self._levels[-1], token.token_type
        if kind is TokenType.L_PAREN:
            self._open(level, token)
            return
        if kind is TokenType.R_PAREN:
            self._close(level, token)
            return
        level.tokens.append(token)
        if kind is TokenType.NOT:
            self._negate(level, token)
        elif kind is TokenType.AND and level.between:
            kind, level.between = TokenType.BETWEEN, False  # a value follows, as after BETWEEN
        elif kind in (TokenType.AND, TokenType.OR):
            self._depth -= level.negations
            level.negations, level.between = 0, False
        elif kind is TokenType.BETWEEN:
            level.between = True
        level.before = kind

    def _negate(self, level: _Level, token: Token) -> None:
        """A NOT where a value belongs is refused: sqlglot reads a condition there, and in it the next, without end."""
        if level.before in _BEFORE_VALUE:
            raise self._bind.error(f"expected a column or a literal, found {token.text}", token.start)
        if level.between:
            raise self._bind.error(f"expected AND between the two bounds of BETWEEN, found {token.text}", token.start)
        if level.before in _BEFORE_CONDITION:
            level.negations += 1
            self._enter(token)

    def _open(self, level: _Level, token: Token) -> None:
        if level.before is TokenType.IDENTIFIER:
            name = level.tokens[-1]
            raise self._bind.error(f"functions are not supported, found {excerpt(written(self._bind.text, name))}(", name.start)
        if level.before is TokenType.IN and not level.listing:
            level.tokens.append(token)
            level.before, level.listing = TokenType.L_PAREN, True
            return
        self._enter(token)
        self._levels.append(_Level(token))

    def _enter(self, token: Token) -> None:
        self._depth += 1
        if self._depth > PREDICATE_DEPTH:
            raise self._bind.error(f"the predicate is nested more than {PREDICATE_DEPTH} deep", token.start)

    def _close(self, level: _Level, token: Token) -> None:
        if level.listing:
            level.tokens.append(token)
            level.before, level.listing = TokenType.R_PAREN, False
            return
        parsed = self._convert(level, token)
        if level.opened is None:
            raise self._bind.error("expected AND, OR or the end, found )", token.start)
        self._levels.pop()
        self._depth -= level.negations + 1
        self._bound[level.opened.start] = parsed
        outer = self._levels[-1]
        outer.tokens.append(Token(TokenType.VAR, "(", start=level.opened.start, end=token.end))
        outer.before = TokenType.VAR

    def _convert(self, level: _Level, end: Token) -> Parsed:
        return Conversion(self._bind, level.tokens, end, self._bound, nested=level.opened is not None).convert()


def _end(position: int) -> Token:
    return Token(TokenType.SENTINEL, "the end", start=position, end=position)
