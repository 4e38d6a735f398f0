"""sqlglot's tree of a text without nesting, as a bound expression.

sqlglot reads more than a predicate may hold, and passes over what it can do without: `a = b = c`, `a NOT NULL`, `BETWEEN 1 2`, `IN (1,,2)`.
So the tree is walked together with the tokens. The tree says what belongs together; the tokens say where it stands, and that nothing else
stands there. Where the text breaks off the tree has a hole, and it is here that the error is found, not in sqlglot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, islice
from typing import Any

from sqlglot import ErrorLevel, Parser, Token, TokenType, exp

from indextables.errors import InvalidPredicate
from indextables.predicates.binder import Binder, Literal, Operand, Parsed
from indextables.predicates.expressions import And, Expr, Not, Or
from indextables.predicates.literals import Written, excerpt, parse_bytes, parse_date, parse_number, parse_timestamp
from indextables.predicates.tokens import written

COMPARISONS: dict[TokenType, tuple[type[exp.Expr], str]] = {
    TokenType.EQ: (exp.EQ, "="),
    TokenType.NEQ: (exp.NEQ, "<>"),
    TokenType.LT: (exp.LT, "<"),
    TokenType.LTE: (exp.LTE, "<="),
    TokenType.GT: (exp.GT, ">"),
    TokenType.GTE: (exp.GTE, ">="),
    TokenType.NULLSAFE_EQ: (exp.NullSafeEQ, "<=>"),
}
_TYPED: dict[TokenType, Callable[[str], Written]] = {
    TokenType.DATE: parse_date,
    TokenType.TIMESTAMP: parse_timestamp,
    TokenType.BINARY: parse_bytes,
}
_TRUTHS = (TokenType.TRUE, TokenType.FALSE, TokenType.NULL)
_LEAVES = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Cast)
_VALUE = "a column or a literal"


class Conversion:
    """One text without nesting; `bound` holds what stands between parentheses, each of which is a token of type VAR."""

    def __init__(self, binder: Binder, tokens: Sequence[Token], end: Token, bound: dict[int, Parsed], *, nested: bool) -> None:
        self._bind = binder
        self._tokens = [*tokens, end]
        self._at = 0
        self._bound = bound
        self._follows = "AND, OR or ')'" if nested else "AND, OR or the end"

    def convert(self) -> Parsed:
        """What the tokens mean, all of them."""
        parsed = self._any(_tree(self._tokens[:-1], self._bind.text))
        if self._at < len(self._tokens) - 1:
            raise self._unexpected(self._follows)
        return parsed

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._now
        self._at += 1
        return token

    def _take(self, kind: TokenType) -> bool:
        """Whether that token was next; then it is consumed."""
        found = self._now.token_type is kind
        self._at += found
        return found

    def _unexpected(self, expected: str) -> InvalidPredicate:
        now = self._now
        found = written(self._bind.text, now) if now.token_type not in (TokenType.VAR, TokenType.SENTINEL) else now.text
        hint = "; arithmetic is not supported" if found[0] in "+-" else ""
        return self._bind.error(f"expected {expected}, found {excerpt(found)}{hint}", now.start)

    def _any(self, node: Any) -> Parsed:
        return self._connected(node, exp.Or, TokenType.OR, Or, self._all)

    def _all(self, node: Any) -> Parsed:
        return self._connected(node, exp.And, TokenType.AND, And, self._one)

    def _connected(
        self, node: Any, kind: type[exp.Expr], word: TokenType, make: type[And] | type[Or], part: Callable[[Any], Parsed]
    ) -> Parsed:
        """`a AND b AND c` is a tree as deep as there are words, and becomes one flat node."""
        later = []
        while isinstance(node, kind):
            later.append(node.expression)
            node = node.this
        parsed = part(node)
        if not later:
            return parsed
        operands = [self._bind.condition(parsed)]
        for node in reversed(later):
            if not self._take(word):
                raise self._unexpected(self._follows)
            operands.append(self._bind.condition(part(node)))
        return make(tuple(operands))

    def _one(self, node: Any) -> Parsed:
        negations = 0
        while isinstance(node, exp.Not) and self._take(TokenType.NOT):
            negations += 1
        parsed = self._predicate(node.this if negations else node)
        for _ in range(negations):
            parsed = Not(self._bind.condition(parsed))
        return parsed

    def _predicate(self, node: Any) -> Parsed:
        """The first operand and its operator; what follows an operand itself where there is none."""
        around = operator = None
        while node is not None and not isinstance(node, _LEAVES):
            around, operator, node = operator, node, _first(node)
        start = self._now.start
        left = self._operand(node, "a column, a literal, NOT or '('")
        now = self._now.token_type
        if now in COMPARISONS:
            self._advance()
            kind, sign = COMPARISONS[now]
            return self._bind.compare(sign, self._bind.operand(left, start), self._value(_part(operator, kind)))
        if self._take(TokenType.IS):
            return self._is(left, _part(operator, exp.Is))
        negated = self._take(TokenType.NOT)
        if self._take(TokenType.IN):
            found = self._bind.in_list(self._bind.operand(left, start), self._list(_part(operator, exp.In, "expressions")))
        elif self._take(TokenType.BETWEEN):
            found = self._between(self._bind.operand(left, start), operator)
        elif self._take(TokenType.LIKE):
            found = self._like(self._bind.operand(left, start), _part(operator, exp.Like), _part(around, exp.Escape))
        elif negated:
            raise self._unexpected("IN, BETWEEN or LIKE after NOT")
        elif now in (TokenType.AND, TokenType.OR) or self._at == len(self._tokens) - 1:
            return left
        else:
            raise self._unexpected("a comparison, IN, BETWEEN, LIKE, IS, AND or OR")
        return Not(found) if negated else found

    def _is(self, left: Parsed, node: Any) -> Expr:
        negated = self._take(TokenType.NOT)
        if self._now.token_type not in (*_TRUTHS, TokenType.UNKNOWN) or not isinstance(node, (exp.Boolean, exp.Null)):
            raise self._unexpected("NULL, TRUE or FALSE after IS")
        self._advance()
        found = self._bind.is_value(left, node.this)
        return Not(found) if negated else found

    def _between(self, operand: Operand, node: Any) -> Expr:
        low = self._value(_part(node, exp.Between, "low"))
        if not self._take(TokenType.AND):
            raise self._unexpected("AND between the two bounds of BETWEEN")
        return self._bind.between(operand, low, self._value(_part(node, exp.Between, "high")))

    def _like(self, operand: Operand, pattern: Any, escape: Any) -> Expr:
        like = self._string(pattern, "a pattern in single quotes")
        mark = self._string(escape, "a character in single quotes") if self._take(TokenType.ESCAPE) else None
        return self._bind.like(operand, like, mark)

    def _string(self, node: Any, expected: str) -> Literal:
        leaf = _leaf(node)
        if self._now.token_type is not TokenType.STRING or not isinstance(leaf, exp.Literal):
            raise self._unexpected(expected)
        return self._literal(str, leaf.this, self._advance())

    def _list(self, nodes: Any) -> list[Literal]:
        if not self._take(TokenType.L_PAREN):
            raise self._unexpected("'(' after IN")
        left = iter(nodes or ())
        members = [self._member(next(left, None))]
        while self._take(TokenType.COMMA):
            members.append(self._member(next(left, None)))
        if not self._take(TokenType.R_PAREN):
            raise self._unexpected("',' or ')' in the list of IN")
        return members

    def _member(self, node: Any) -> Literal:
        position = self._now.start
        value = self._value(node, "a literal")
        if not isinstance(value, Literal):
            raise self._bind.error(f"the list of IN takes literals, found column {value.name!r}", position)
        return value

    def _value(self, node: Any, expected: str = _VALUE) -> Operand:
        position = self._now.start
        return self._bind.operand(self._operand(_leaf(node), expected), position)

    def _operand(self, leaf: Any, expected: str) -> Parsed:
        token, kind = self._now, self._now.token_type
        if isinstance(leaf, exp.Column) and kind is TokenType.VAR:
            return self._bound[self._advance().start]
        if isinstance(leaf, exp.Column) and kind is TokenType.IDENTIFIER:
            return self._bind.column(leaf.name, self._advance().start, self._bind.text[token.start] == '"')
        if isinstance(leaf, exp.Literal) and kind is (TokenType.STRING if leaf.is_string else TokenType.NUMBER):
            return self._literal(str if leaf.is_string else parse_number, leaf.this, self._advance())
        if isinstance(leaf, exp.Cast) and kind in _TYPED:
            self._at += 2
            return self._literal(_TYPED[kind], leaf.this.this, token)
        if isinstance(leaf, (exp.Boolean, exp.Null)) and kind in _TRUTHS:
            return self._literal(lambda value: value, leaf.this, self._advance())
        raise self._unexpected(expected)

    def _literal(self, read: Callable[[Any], Written], value: Any, first: Token) -> Literal:
        """The literal from `first` to the token just consumed."""
        text = self._bind.text[first.start : self._tokens[self._at - 1].end + 1]
        try:
            return Literal(read(value), text, first.start)
        except ValueError as cause:
            raise self._bind.error(f"{excerpt(text)} is not a value: {cause}", first.start) from cause


def _tree(tokens: Sequence[Token], text: str) -> Any:
    """What sqlglot makes of the tokens, errors left out; each NOT of a sequence would take its stack, so it sees one."""
    runs = groupby(tokens, lambda token: token.token_type is TokenType.NOT)
    once = [token for negations, run in runs for token in (islice(run, 1) if negations else run)]
    return Parser(error_level=ErrorLevel.IGNORE).parse_into(exp.Condition, once, text)[0]


def _first(node: exp.Expr) -> Any:
    """What the text of a node begins with."""
    return node.this or next(iter(node.expressions), None)


def _leaf(node: Any) -> Any:
    """The column or literal that the text of a node begins with, if it does."""
    while node is not None and not isinstance(node, _LEAVES):
        node = _first(node)
    return node


def _part(node: Any, kind: type[exp.Expr], name: str = "expression") -> Any:
    """A part of a node, if it is of that kind."""
    return node.args.get(name) if type(node) is kind else None
