"""Parses the text of a predicate into a bound condition.

condition  := condition OR condition | condition AND condition | NOT condition | predicate
predicate  := operand [ (= <> != < <= > >= <=>) value | [NOT] IN (literal, …) | [NOT] BETWEEN value AND value
            | [NOT] LIKE 'pattern' [ESCAPE 'c'] | IS [NOT] (NULL | TRUE | FALSE | UNKNOWN) ]
operand    := ( condition ) | value          value := column | literal | ( value )
literal    := [+-] number | 'string' | TRUE | FALSE | NULL | DATE '…' | TIMESTAMP '…' | X'hex'

Parsing goes from left to right, so the first error in the text is reported. Methods that may reach a parenthesis are generators: they yield
at an opening one, and `parse` sends the condition inside it. So nested parentheses use no Python stack while parsing. Evaluation does,
hence limits.PREDICATE_DEPTH.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_DEPTH
from indextables.predicates.binder import Binder, Literal, Operand, Parsed
from indextables.predicates.expressions import And, Expr, Not, Or
from indextables.predicates.literals import Written, excerpt, parse_bytes, parse_date, parse_number, parse_timestamp
from indextables.predicates.tokens import END, NAME, NUMBER, STRING, Token, tokenize

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>"})
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_READ: dict[str, Callable[[str], Written]] = {
    STRING: str,
    NUMBER: parse_number,
    "DATE": parse_date,
    "TIMESTAMP": parse_timestamp,
    "X": parse_bytes,
}

_T = TypeVar("_T")
_Parsing = Generator[None, Parsed, _T]


def parse(binder: Binder) -> Expr:
    """The bound condition; InvalidPredicate if the text is not a predicate."""
    parser = _Parser(binder)
    unfinished = [parser.condition()]
    result: Parsed | None = None  # sent to the innermost generator; None starts it
    while True:
        try:
            unfinished[-1].send(result)  # type: ignore[arg-type]  # None starts a generator
            unfinished.append(parser.condition(nested=True))
            result = None
        except StopIteration as done:
            unfinished.pop()
            result = done.value
            if not unfinished:
                return binder.condition(done.value)


class _Parser:
    """Parses one predicate, in one pass from left to right."""

    def __init__(self, binder: Binder) -> None:
        self._bind = binder
        self._tokens = tokenize(binder.text)
        self._at = 0
        self._depth = 0
        if self._now.kind == END:
            raise binder.error("the predicate is empty", 0)

    def condition(self, nested: bool = False) -> _Parsing[Parsed]:
        """Parses the whole text, or if nested up to the closing parenthesis, which is not consumed."""
        parsed = yield from self._connected("OR", Or, lambda: self._connected("AND", And, self._negated))
        if self._now.kind != (")" if nested else END):
            raise self._unexpected("AND, OR or ')'" if nested else "AND, OR or the end")
        return parsed

    def _connected(self, word: str, make: type[And] | type[Or], part: Callable[[], _Parsing[Parsed]]) -> _Parsing[Parsed]:
        """`a AND b AND c` becomes one flat node."""
        parsed = yield from part()
        if self._now.kind != word:
            return parsed
        operands = [self._bind.condition(parsed)]
        while self._take(word):
            operands.append(self._bind.condition((yield from part())))
        return make(tuple(operands))

    def _negated(self) -> _Parsing[Parsed]:
        before = self._depth
        while self._now.kind == "NOT":
            self._enter()
        negations = self._depth - before
        parsed = yield from self._predicate()
        for _ in range(negations):
            parsed = Not(self._bind.condition(parsed))
        self._depth = before
        return parsed

    def _predicate(self) -> _Parsing[Parsed]:
        start = self._now.start
        left = yield from self._operand("a column, a literal, NOT or '('")
        if self._now.kind in _COMPARISONS:
            operand = self._bind.operand(left, start)
            return self._bind.compare(self._advance().kind, operand, (yield from self._value()))
        if self._take("IS"):
            return self._is(left)
        negated = self._take("NOT")
        found: Expr
        if self._take("IN"):
            found = self._bind.in_list(self._bind.operand(left, start), (yield from self._list()))
        elif self._take("BETWEEN"):
            found = yield from self._between(self._bind.operand(left, start))
        elif self._take("LIKE"):
            found = self._like(self._bind.operand(left, start))
        elif negated:
            raise self._unexpected("IN, BETWEEN or LIKE after NOT")
        elif self._now.kind in ("AND", "OR", ")", END):
            return left
        else:
            raise self._unexpected("a comparison, IN, BETWEEN, LIKE, IS, AND or OR")
        return Not(found) if negated else found

    def _is(self, left: Parsed) -> Expr:
        negated = self._take("NOT")
        if self._now.kind not in _CONSTANTS and self._now.kind != "UNKNOWN":
            raise self._unexpected("NULL, TRUE or FALSE after IS")
        found = self._bind.is_value(left, _CONSTANTS.get(self._advance().kind))
        return Not(found) if negated else found

    def _between(self, operand: Operand) -> _Parsing[Expr]:
        low = yield from self._value()
        if not self._take("AND"):
            raise self._unexpected("AND between the two bounds of BETWEEN")
        high = yield from self._value()
        return And((self._bind.compare(">=", operand, low), self._bind.compare("<=", operand, high)))

    def _like(self, operand: Operand) -> Expr:
        pattern = self._string("a pattern in single quotes")
        escape = self._string("a character in single quotes") if self._take("ESCAPE") else None
        return self._bind.like(operand, pattern, escape)

    def _string(self, expected: str) -> Literal:
        if self._now.kind != STRING:
            raise self._unexpected(expected)
        return self._literal(self._advance())

    def _list(self) -> _Parsing[list[Literal]]:
        if not self._take("("):
            raise self._unexpected("'(' after IN")
        members = [(yield from self._member())]
        while self._take(","):
            members.append((yield from self._member()))
        if not self._take(")"):
            raise self._unexpected("',' or ')' in the list of IN")
        return members

    def _member(self) -> _Parsing[Literal]:
        position = self._now.start
        value = yield from self._value("a literal")
        if not isinstance(value, Literal):
            raise self._bind.error(f"the list of IN takes literals, found column {value.name!r}", position)
        return value

    def _value(self, expected: str = "a column or a literal") -> _Parsing[Operand]:
        position = self._now.start
        return self._bind.operand((yield from self._operand(expected)), position)

    def _operand(self, expected: str) -> _Parsing[Parsed]:
        now = self._now
        if now.kind == "(":
            self._enter()
            parsed = yield
            self._advance()
            self._depth -= 1
            return parsed
        if now.kind == NAME:
            self._advance()
            if self._now.kind == "(":
                raise self._bind.error(f"functions are not supported, found {excerpt(self._written(now))}(", now.start)
            return self._bind.column(now.value, now.start, double_quoted=self._bind.text[now.start] == '"')
        if now.kind in _READ or now.kind in _CONSTANTS:
            return self._literal(self._advance())
        raise self._unexpected(expected)

    def _literal(self, token: Token) -> Literal:
        shown = self._written(token)
        try:
            value = _CONSTANTS[token.kind] if token.kind in _CONSTANTS else _READ[token.kind](token.value)
        except ValueError as cause:
            raise self._bind.error(f"{excerpt(shown)} is not a value: {cause}", token.start) from cause
        return Literal(value, shown, token.start)

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._now
        self._at += 1
        return token

    def _take(self, kind: str) -> bool:
        """Consumes the next token if it is of this kind; returns whether it was."""
        found = self._now.kind == kind
        self._at += found
        return found

    def _enter(self) -> None:
        """Consumes a NOT or an opening parenthesis, and checks the nesting depth."""
        self._depth += 1
        if self._depth > PREDICATE_DEPTH:
            raise self._bind.error(f"the predicate is nested more than {PREDICATE_DEPTH} deep", self._now.start)
        self._advance()

    def _written(self, token: Token) -> str:
        return self._bind.text[token.start : token.end]

    def _unexpected(self, expected: str) -> InvalidPredicate:
        now = self._now
        found = self._written(now) or END
        hint = "; arithmetic is not supported" if found[0] in "+-" else ""
        return self._bind.error(f"expected {expected}, found {excerpt(found)}{hint}", now.start)
