"""Binds operands to a schema: resolves columns, converts literals to the type of their column, refuses invalid comparisons."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa

from indextables.errors import InvalidPredicate, SchemaMismatch
from indextables.predicates import expressions as exp
from indextables.predicates.like import like
from indextables.predicates.literals import Placed, Written, as_number, excerpt, place
from indextables.schema import UTC_TIMESTAMP, canonical_type

_TESTS: dict[exp.Operator, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: pa.DataType
    position: int


@dataclass(frozen=True, slots=True)
class Literal:
    value: Written
    text: str  # as written
    position: int


Operand = Column | Literal
Parsed = Operand | exp.Expr


@dataclass(slots=True)
class Binder:
    """Builds the nodes of one predicate and records the columns they use."""

    text: str
    schema: pa.Schema
    allowed: Collection[str] | None
    purpose: str
    used: dict[str, pa.DataType]

    def column(self, name: str, position: int, double_quoted: bool = False) -> Column:
        """The column of that name; without an exact match, the only column that differs just in case."""
        found = [name] if name in self.schema.names else [n for n in self.schema.names if n.lower() == name.lower()]
        if not found:
            hint = " (a string takes single quotes)" if double_quoted else ""
            known = excerpt(", ".join(self.schema.names), 200)
            raise self.error(f"there is no column {excerpt(name)!r}{hint}; the columns are {known}", position)
        if len(found) > 1:
            raise self.error(f"column {name!r} could be any of {', '.join(found)}", position)
        if self.allowed is not None and found[0] not in self.allowed:
            usable = excerpt(", ".join(sorted(self.allowed)), 200) or "none"
            raise self.error(f"column {found[0]!r} cannot be used in {self.purpose}; usable: {usable}", position)
        try:
            kind = canonical_type(found[0], self.schema.field(found[0]).type)
        except SchemaMismatch as cause:
            raise self.error(str(cause), position) from cause
        self.used[found[0]] = kind
        return Column(found[0], kind, position)

    def condition(self, parsed: Parsed) -> exp.Expr:
        """An operand as a condition: a condition, a boolean column, TRUE, FALSE or NULL."""
        if isinstance(parsed, Column):
            if not pa.types.is_boolean(parsed.kind):
                raise self.error(f"column {parsed.name!r} is {parsed.kind}, not boolean: expected a comparison with it", parsed.position)
            return exp.Compare("=", parsed.name, True)
        if isinstance(parsed, Literal):
            if parsed.value is not None and not isinstance(parsed.value, bool):
                raise self.error(f"expected a condition, found only {excerpt(parsed.text)}", parsed.position)
            return exp.Constant(parsed.value)
        return parsed

    def operand(self, parsed: Parsed, position: int) -> Operand:
        if not isinstance(parsed, (Column, Literal)):
            raise self.error("expected a column or a literal to compare, found a condition", position)
        return parsed

    def compare(self, operator: str, left: Operand, right: Operand) -> exp.Expr:
        if operator == "<=>":
            both_null = exp.And((self.is_null(left), self.is_null(right)))
            return exp.Or((exp.Is(self.compare("=", left, right), True), both_null))
        plain: exp.Operator = operator  # type: ignore[assignment]  # the grammar yields no other
        if isinstance(left, Column):
            if isinstance(right, Column):
                return exp.CompareColumns(plain, left.name, right.name, self._common(left, right))
            return self._compare(plain, left, right)
        if isinstance(right, Column):
            return self._compare(exp.FLIPPED[plain], right, left)
        return self._fold(plain, left, right)

    def is_null(self, operand: Operand) -> exp.Expr:
        return exp.IsNull(operand.name) if isinstance(operand, Column) else exp.Constant(operand.value is None)

    def is_value(self, parsed: Parsed, value: bool | None) -> exp.Expr:
        if value is None and isinstance(parsed, (Column, Literal)):
            return self.is_null(parsed)
        return exp.Is(self.condition(parsed), value)

    def in_list(self, operand: Operand, members: Sequence[Literal]) -> exp.Expr:
        if isinstance(operand, Literal):
            return exp.Or(tuple(self._fold("=", operand, member) for member in members))
        placed = [self._place(member, operand) for member in members if member.value is not None]
        values = {exp.order_key(p.value): p.value for p in placed if not p.after and p.value is not None}
        return exp.In(operand.name, tuple(values[key] for key in sorted(values)), len(placed) < len(members))

    def like(self, operand: Operand, pattern: Literal, escape: Literal | None) -> exp.Expr:
        if not isinstance(operand, Column) or not pa.types.is_string(operand.kind):
            shown = f"column {operand.name!r} is {operand.kind}" if isinstance(operand, Column) else f"found {excerpt(operand.text)}"
            raise self.error(f"LIKE expects a string column before it, {shown}", operand.position)
        try:
            return like(operand.name, str(pattern.value), "\\" if escape is None else str(escape.value))
        except ValueError as cause:
            raise self.error(f"the pattern {excerpt(pattern.text)} cannot be used: {cause}", pattern.position) from cause

    def _compare(self, operator: exp.Operator, column: Column, literal: Literal) -> exp.Expr:
        if literal.value is None:
            return exp.Constant(None)
        at = self._place(literal, column)
        if operator in ("=", "<>") and (at.after or at.value is None):
            return exp.Always(column.name, operator == "<>")
        if at.value is None:
            return exp.Always(column.name, (operator in ("<", "<=")) == at.after)
        if at.after:  # strictly between `value` and the next one: at most `value`, or more than it
            return exp.Compare("<=" if operator in ("<", "<=") else ">", column.name, at.value)
        return exp.Compare(operator, column.name, at.value)

    def _place(self, literal: Literal, column: Column) -> Placed:
        try:
            return place(literal.value, column.kind)
        except ValueError as cause:
            message = f"cannot compare column {column.name!r} of type {column.kind} with {excerpt(literal.text)}: {cause}"
            raise self.error(message, literal.position) from cause

    def _common(self, left: Column, right: Column) -> pa.DataType:
        if left.kind == right.kind and not (pa.types.is_nested(left.kind) or pa.types.is_null(left.kind)):
            return left.kind
        kinds = (left.kind, right.kind)
        if all(pa.types.is_integer(k) for k in kinds):
            return pa.int64()
        if all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds):
            return pa.float64()
        if all(pa.types.is_temporal(k) for k in kinds):
            return UTC_TIMESTAMP
        message = f"cannot compare column {left.name!r} of type {left.kind} with column {right.name!r} of type {right.kind}"
        raise self.error(message, right.position)

    def _fold(self, operator: exp.Operator, left: Literal, right: Literal) -> exp.Expr:
        """Compares two literals, as in `1 = 1`."""
        if left.value is None or right.value is None:
            return exp.Constant(None)
        try:
            return exp.Constant(_TESTS[operator](*map(exp.order_key, _same_type(left.value, right.value))))
        except ValueError as cause:
            raise self.error(f"cannot compare {excerpt(left.text)} with {excerpt(right.text)}: {cause}", right.position) from cause

    def error(self, message: str, position: int) -> InvalidPredicate:
        return InvalidPredicate(message, self.text, position)


def _same_type(left: Any, right: Any) -> tuple[Any, Any]:
    """Converts two literals to the type in which they are compared: a string takes the type of the other."""
    leading = right if isinstance(left, str) else left
    if isinstance(leading, str):
        return left, right
    if isinstance(leading, Decimal):
        return as_number(left), as_number(right)
    kind = pa.bool_() if isinstance(leading, bool) else pa.binary() if isinstance(leading, bytes) else UTC_TIMESTAMP
    return place(left, kind).value, place(right, kind).value
