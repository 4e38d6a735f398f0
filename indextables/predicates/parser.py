"""The grammar of `where`.

condition  := condition OR condition | condition AND condition | NOT condition | predicate
predicate  := operand [ (= <> != < <= > >= <=>) value | [NOT] IN (literal, …) | [NOT] BETWEEN value AND value
            | [NOT] LIKE 'pattern' [ESCAPE 'c'] | IS [NOT] (NULL | TRUE | FALSE | UNKNOWN) ]
operand    := ( condition ) | value          value := column | literal | ( value )
literal    := [+-] number | 'string' | TRUE | FALSE | NULL | DATE '…' | TIMESTAMP '…'

Nesting costs two Python frames a level and ends at limits.PREDICATE_DEPTH; AND and OR make flat nodes however many follow each other.
"""

from __future__ import annotations

from collections.abc import Callable

from indextables.errors import InvalidPredicate
from indextables.limits import PREDICATE_DEPTH
from indextables.predicates.binder import Binder, Literal, Operand, Parsed
from indextables.predicates.expressions import And, Expr, Not, Or
from indextables.predicates.literals import Written, parse_date, parse_number, parse_timestamp
from indextables.predicates.tokens import Kind, Token, excerpt, tokenize

_OR, _AND, _NOT = 1, 2, 3  # how tightly each binds
_COMPARISONS = frozenset(["=", "<>", "<", "<=", ">", ">=", "<=>"])
_TYPED: dict[str, Callable[[str], Written]] = {"DATE": parse_date, "TIMESTAMP": parse_timestamp}


class Parser:
    """One predicate's text, read once from left to right."""

    def __init__(self, binder: Binder) -> None:
        self._bind = binder
        self._tokens = tokenize(binder.text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Expr:
        if len(self._tokens) == 1:
            raise self._bind.error("the predicate is empty", 0)
        parsed = self._bind.condition(self._condition(_OR))
        if self._now.kind is not Kind.END:
            raise self._unexpected("AND, OR or the end")
        return parsed

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._now
        self._at += 1
        return token

    def _take(self, kind: Kind, value: str) -> bool:
        """Whether that token was next; then it is consumed."""
        found = self._now.kind is kind and self._now.value == value
        self._at += found
        return found

    def _keyword(self, word: str) -> bool:
        return self._take(Kind.KEYWORD, word)

    def _symbol(self, symbol: str) -> bool:
        return self._take(Kind.SYMBOL, symbol)

    def _unexpected(self, expected: str) -> InvalidPredicate:
        now = self._now
        hint = "; arithmetic is not supported" if now.kind is Kind.SYMBOL and now.value in ("+", "-") else ""
        return self._bind.error(f"expected {expected}, found {now.shown()}{hint}", now.position)

    def _condition(self, binding: int) -> Parsed:
        left = self._prefix()
        for level, word, node in ((_AND, "AND", And), (_OR, "OR", Or)):
            if level < binding or not self._keyword(word):
                continue
            operands = [self._bind.condition(left), self._bind.condition(self._condition(level + 1))]
            while self._keyword(word):
                operands.append(self._bind.condition(self._condition(level + 1)))
            left = node(tuple(operands))
        return left

    def _prefix(self) -> Parsed:
        start = self._now.position
        if self._keyword("NOT"):
            self._enter(start)
            parsed: Parsed = Not(self._bind.condition(self._condition(_NOT)))
            self._depth -= 1
            return parsed
        if self._symbol("("):
            self._enter(start)
            parsed = self._condition(_OR)
            self._depth -= 1
            if not self._symbol(")"):
                raise self._unexpected("AND, OR or ')'")
        else:
            parsed = self._value("a column, a literal, NOT or '('")
        return self._tail(parsed, start)

    def _enter(self, position: int) -> None:
        self._depth += 1
        if self._depth > PREDICATE_DEPTH:
            raise self._bind.error(f"the predicate is nested more than {PREDICATE_DEPTH} deep", position)

    def _tail(self, left: Parsed, start: int) -> Parsed:
        """What may follow an operand; the operand itself where nothing does."""
        now = self._now
        if now.kind is Kind.SYMBOL and now.value in _COMPARISONS:
            self._advance()
            operand = self._bind.operand(left, start)
            return self._bind.compare(now.value, operand, self._value("a column or a literal"))
        if self._keyword("IS"):
            return self._is(left)
        negated = self._keyword("NOT")
        if self._keyword("IN"):
            found = self._bind.in_list(self._bind.operand(left, start), self._list())
        elif self._keyword("BETWEEN"):
            found = self._between(self._bind.operand(left, start))
        elif self._keyword("LIKE"):
            found = self._like(self._bind.operand(left, start))
        elif negated:
            raise self._unexpected("IN, BETWEEN or LIKE after NOT")
        elif now.kind in (Kind.END, Kind.KEYWORD) or now.value in (")", ","):
            return left
        else:
            raise self._unexpected("a comparison, IN, BETWEEN, LIKE, IS, AND or OR")
        return Not(found) if negated else found

    def _is(self, left: Parsed) -> Expr:
        negated = self._keyword("NOT")
        values = {"NULL": None, "UNKNOWN": None, "TRUE": True, "FALSE": False}
        if self._now.kind is not Kind.KEYWORD or self._now.value not in values:
            raise self._unexpected("NULL, TRUE or FALSE after IS")
        found = self._bind.is_value(left, values[self._advance().value])
        return Not(found) if negated else found

    def _between(self, operand: Operand) -> Expr:
        low = self._value("a column or a literal")
        if not self._keyword("AND"):
            raise self._unexpected("AND between the two bounds of BETWEEN")
        return self._bind.between(operand, low, self._value("a column or a literal"))

    def _like(self, operand: Operand) -> Expr:
        pattern = self._string("a pattern in single quotes")
        escape = self._string("a character in single quotes") if self._keyword("ESCAPE") else None
        return self._bind.like(operand, pattern, escape)

    def _string(self, expected: str) -> Literal:
        if self._now.kind is not Kind.STRING:
            raise self._unexpected(expected)
        token = self._advance()
        return Literal(token.value, token.text, token.position)

    def _list(self) -> list[Literal]:
        if not self._symbol("("):
            raise self._unexpected("'(' after IN")
        members = [self._member()]
        while self._symbol(","):
            members.append(self._member())
        if not self._symbol(")"):
            raise self._unexpected("',' or ')' in the list of IN")
        return members

    def _member(self) -> Literal:
        position = self._now.position
        value = self._value("a literal")
        if not isinstance(value, Literal):
            raise self._bind.error(f"the list of IN takes literals, found column {value.name!r}", position)
        return value

    def _value(self, expected: str) -> Operand:
        opened = 0
        while self._symbol("("):
            opened += 1
        found = self._column_or_literal(expected)
        for _ in range(opened):
            if not self._symbol(")"):
                raise self._unexpected("')'")
        return found

    def _column_or_literal(self, expected: str) -> Operand:
        token, following = self._now, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind is Kind.WORD and token.value.upper() in _TYPED and following.kind is Kind.STRING:
            self._at += 2
            return self._literal(_TYPED[token.value.upper()], following.value, f"{token.text} {following.text}", token.position)
        if token.kind in (Kind.WORD, Kind.QUOTED):
            if following.value == "(" and following.kind is Kind.SYMBOL:
                raise self._bind.error(f"functions are not supported, found {excerpt(token.text)}(", token.position)
            self._advance()
            return self._bind.column(token.value, token.position, token.text.startswith('"'))
        if token.kind is Kind.SYMBOL and token.value in ("+", "-") and following.kind is Kind.NUMBER:
            self._at += 2
            return self._literal(parse_number, token.value + following.value, token.value + following.text, token.position)
        if token.kind is Kind.NUMBER:
            self._advance()
            return self._literal(parse_number, token.value, token.text, token.position)
        if token.kind is Kind.STRING:
            return self._string(expected)
        if token.kind is Kind.KEYWORD and token.value in ("TRUE", "FALSE", "NULL"):
            self._advance()
            return Literal({"TRUE": True, "FALSE": False, "NULL": None}[token.value], token.text, token.position)
        raise self._unexpected(expected)

    def _literal(self, read: Callable[[str], Written], value: str, text: str, position: int) -> Literal:
        try:
            return Literal(read(value), text, position)
        except ValueError as cause:
            raise InvalidPredicate(f"{excerpt(text)} is not a value: {cause}", self._bind.text, position) from cause
