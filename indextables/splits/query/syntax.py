"""Parses the search syntax into a tree. The semantics are defined here, not by tantivy's parser (for which `a AND NOT b` matches nothing).

::

    list     item item …             every `+item`, no `-item` and no `NOT item`; without a `+item`, at least one of the others
    item     x AND y, x OR y         intersection and union, AND binds tighter; NOT and - mean the complement
    x        word  wor*  "a phrase"  "a phrase"~2  "a phr"*  (list)  *  each with ^boost
    column   column:x  column:(list)  column:*  column:[a TO b]  {a TO b}  column:>=a  column:IN [a b]

`\\` escapes the next character. Plain items beside a `+item` only raise the score. A list of exclusions alone matches everything
else. Refused as ambiguous: `+` beside OR, and `-` or NOT beside OR in a longer list without parentheses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from indextables import limits
from indextables.errors import InvalidQuery
from indextables.splits.query.scanner import ENDS_WORD, SPACE, Scanner
from indextables.splits.query.tree import Boost, Clause, Column, Everything, Exists, Node, Range, Words

_IN = re.compile(rf"IN[{SPACE}]*\[")
_FUZZY = re.compile(r"~[0-9.]*$")
_MAX_SLOP = 1000
MAX_BOOST = 1e6


@dataclass(frozen=True, slots=True)
class _Operand:
    operator: str  # AND, OR, or "" without an operator
    sign: str  # "+", "-" or ""
    node: Node
    position: int


def parse(text: str) -> Node:
    """The tree of a query; InvalidQuery names the position of a syntax error."""
    if not isinstance(text, str):
        raise InvalidQuery(f"a query must be a string, not {text!r:.80}")
    if len(text) > limits.QUERY_CHARACTERS:
        raise InvalidQuery(f"the query has {len(text)} characters, but at most {limits.QUERY_CHARACTERS} are allowed")
    return _Parser(text).whole()


class _Parser(Scanner):
    """Recursive only where parentheses are nested."""

    depth = 0

    def whole(self) -> Node:
        if not self.text.strip(SPACE):
            raise InvalidQuery("the query is empty", self.text, 0)
        node = self.items(None)
        if self.at < len(self.text):
            self.fail("unexpected ')'")
        return node

    # --- lists and operators

    def items(self, column: Column | None) -> Node:
        operands: list[_Operand] = []
        self.skip_space()
        while self.peek() and self.peek() != ")":
            operands.append(self.operand(column, first=not operands))
            if self.peek() and self.peek() not in SPACE + ")":
                self.fail(f"missing space before {self.peek()!r}")
            self.skip_space()
        if not operands:
            self.fail("there is nothing to search for")
        return self.combine(operands)

    def operand(self, column: Column | None, first: bool) -> _Operand:
        start = self.at
        operator = "AND" if self.keyword("AND") else "OR" if self.keyword("OR") else ""
        if operator and first:
            self.fail(f"{operator} has nothing before it", start)
        self.skip_space()
        position = self.at
        sign = self.sign()
        if not self.peek() or self.peek() == ")":
            self.fail(f"{self.text[start : self.at].strip(SPACE) or 'the query'} has nothing after it", start)
        return _Operand(operator, sign, self.primary(column), position)

    def sign(self) -> str:
        """`+`, `-` and any number of NOT; two negations cancel out. A loop, so that a long chain does not recurse."""
        sign = ""
        while True:
            if self.keyword("NOT"):
                sign = "" if sign == "-" else "-"
                self.skip_space()
            elif self.peek() in ("+", "-") and self.text[self.at + 1 : self.at + 2].strip(SPACE):
                if sign or self.text[self.at + 1] in "+-":
                    self.fail("more than one sign before a condition")
                sign = self.peek()
                self.at += 1
            else:
                return sign

    def combine(self, operands: list[_Operand]) -> Node:
        items: list[list[_Operand]] = []  # the operands of each item of the list
        for operand in operands:
            if operand.operator:
                items[-1].append(operand)
            else:
                items.append([operand])
        signed: dict[str, list[Node]] = {"+": [], "": [], "-": []}
        for item in items:
            if len(item) == 1:
                signed[item[0].sign].append(item[0].node)
            else:
                signed[""].append(self.expression(item, alone=len(items) == 1))
        if len(items) == 1 and signed[""]:
            return signed[""][0]
        return Clause(must=tuple(signed["+"]), should=tuple(signed[""]), must_not=tuple(signed["-"]))

    def expression(self, operands: list[_Operand], alone: bool) -> Node:
        """Operands joined by AND and OR."""
        groups: list[list[_Operand]] = [[]]  # of operands joined by AND
        for operand in operands:
            if operand.operator == "OR":
                groups.append([])
            groups[-1].append(operand)
        if len(groups) > 1:
            for first, *others in groups:
                if first.sign == "+":
                    self.fail("+ cannot be combined with OR (use parentheses)", first.position)
                if first.sign == "-" and not alone and not others:
                    self.fail("an exclusion beside OR in a list is ambiguous (use parentheses)", first.position)
        nodes = tuple(_intersection(group) for group in groups)
        return nodes[0] if len(nodes) == 1 else Clause(should=nodes)

    # --- what can be searched for

    def primary(self, column: Column | None) -> Node:
        """One operand without its sign; `column` is that of the enclosing parentheses."""
        start = self.at
        node = self.marked(column)
        if node is None:
            word, prefix = self.word(in_value=False)
            if self.peek() == ":" and not prefix:
                self.at += 1
                self.skip_space()
                node = self.value(Column(word, start))
            else:
                node = self.plain(column, word, prefix, start)
        return self.boosted(node)

    def marked(self, column: Column | None) -> Node | None:
        """What its first character identifies, with and without a column: a list in parentheses, a phrase, or `*`."""
        character = self.peek()
        if character == "(":
            return self.group(column)
        if character in ('"', "'"):
            return self.phrase(column)
        if character == "*" and self.text[self.at + 1 : self.at + 2] in ("", *ENDS_WORD):
            self.at += 1
            return Everything() if column is None else Exists(column)
        if character == "/":
            self.fail("regular expressions are not supported (quote a word that starts with '/')")
        return None

    def value(self, column: Column) -> Node:
        """The part after `column:`."""
        node = self.marked(column)
        if node is not None:
            return node
        character = self.peek()
        if character in ("[", "{"):
            return self.range(column)
        if character in ("<", ">"):
            return self.comparison(column)
        if opening := _IN.match(self.text, self.at):
            self.at = opening.end()
            return self.one_of(column)
        start = self.at
        if not character or character in ENDS_WORD:
            self.fail(f"column {column.name!r} has no value after it")
        word, prefix = self.word(in_value=True)
        return self.plain(column, word, prefix, start)

    def group(self, column: Column | None) -> Node:
        opened = self.at
        self.depth += 1
        if self.depth > limits.QUERY_DEPTH:
            self.fail(f"more than {limits.QUERY_DEPTH} parentheses are nested")
        self.at += 1
        node = self.items(column)
        self.expect(")", opened, "the parenthesis")
        self.depth -= 1
        return node

    def plain(self, column: Column | None, word: str, prefix: bool, position: int) -> Node:
        written = self.text[position : self.at]
        if written in ("AND", "OR", "NOT"):
            self.fail(f"{written} is an operator (quote it to search for it)", position)
        if written.startswith("!") or "&&" in written or "||" in written or _FUZZY.search(written):
            self.fail(f"{written!r} is not part of the search syntax (quote it to search for it)", position)
        return Words(column, word, position, prefix=prefix)

    def phrase(self, column: Column | None) -> Node:
        start = self.at
        text = self.quoted()
        if self.peek() == "*":
            self.at += 1
            return Words(column, text, start, quoted=True, prefix=True)
        slop = 0
        if self.peek() == "~":
            self.at += 1
            slop = int(self.number("~", _MAX_SLOP))
        return Words(column, text, start, quoted=True, slop=slop)

    def range(self, column: Column) -> Node:
        opened = self.at
        include_lower = self.peek() == "["
        self.at += 1
        lower = self.bound()
        self.skip_space()
        if not self.keyword("TO"):
            self.fail("the range has no TO between its bounds")
        upper = self.bound()
        self.skip_space()
        if self.peek() not in ("]", "}"):
            self.fail("the range is not closed with ']' or '}'", opened)
        include_upper = self.peek() == "]"
        self.at += 1
        if lower is None and upper is None:
            return Exists(column)
        return Range(column, opened, lower, upper, include_lower, include_upper)

    def bound(self) -> str | None:
        self.skip_space()
        if self.keyword("*"):
            return None
        return self.item("the range lacks a bound")

    def item(self, missing: str) -> str:
        if self.peek() in ('"', "'"):
            return self.quoted()
        if not self.peek() or self.peek() in ENDS_WORD:
            self.fail(missing)
        word, prefix = self.word(in_value=True)
        if prefix:
            self.fail("a prefix is not allowed here", self.at - 1)
        return word

    def comparison(self, column: Column) -> Node:
        start = self.at
        include = self.text[start + 1 : start + 2] == "="
        self.at += 1 + include
        self.skip_space()
        bound = self.item(f"the comparison with column {column.name!r} lacks a value")
        if self.text[start] == ">":
            return Range(column, start, lower=bound, include_lower=include)
        return Range(column, start, upper=bound, include_upper=include)

    def one_of(self, column: Column) -> Node:
        opened = self.at - 1
        members: list[Node] = []
        self.skip_space()
        while self.peek() and self.peek() != "]":
            start = self.at
            members.append(Words(column, self.item("a value is missing"), start, quoted=True))
            self.skip_space()
        self.expect("]", opened, "the set of values")
        if not members:
            self.fail("the set of values is empty", opened)
        return Clause(should=tuple(members))

    def boosted(self, node: Node) -> Node:
        if self.peek() != "^":
            return node
        self.at += 1
        return Boost(node, self.number("^", MAX_BOOST))


def _intersection(operands: list[_Operand]) -> Node:
    must = tuple(operand.node for operand in operands if operand.sign != "-")
    must_not = tuple(operand.node for operand in operands if operand.sign == "-")
    return must[0] if len(must) == 1 and not must_not else Clause(must=must, must_not=must_not)
