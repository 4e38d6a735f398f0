"""`where`: a SQL predicate on a table's columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidPredicate
from indextables.predicates.arrow import evaluate, wide_type
from indextables.predicates.binder import Binder
from indextables.predicates.expressions import Expr
from indextables.predicates.keys import typed_array, typed_scalar
from indextables.predicates.parser import parse


@dataclass(frozen=True, slots=True)
class Predicate:
    """A parsed predicate whose columns exist and whose comparisons are well typed. A row for which it is null does not match.

    Pickled as its text and the types of its columns, so that deep nesting does not exceed pickle's recursion limit.
    """

    text: str
    expression: Expr = field(repr=False, compare=False)  # derived from the other two
    schema: pa.Schema  # the columns it uses, in canonical types

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def mask(self, batch: pa.RecordBatch | pa.Table) -> Any:
        """Whether each row matches: a BooleanArray for a batch, a ChunkedArray for a table, without nulls."""
        answers = pc.fill_null(evaluate(self.expression, batch, self.schema), typed_scalar(False, pa.bool_()))
        return pa.chunked_array([answers]) if isinstance(batch, pa.Table) and isinstance(answers, pa.Array) else answers

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(self.mask(batch))

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether one row matches, given as Python values like those of Arrow's `as_py`; a missing column is null."""
        columns = [_column(row.get(field.name), field.type) for field in self.schema]
        # The extra column gives the batch its one row if the predicate uses no column.
        batch = pa.RecordBatch.from_arrays([*columns, pa.nulls(1)], [*self.schema.names, ""])
        return bool(self.mask(batch)[0].as_py())

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_predicate, (self.text, self.schema)


def parse_predicate(text: str, schema: pa.Schema, *, allowed: Collection[str] | None = None, purpose: str = "this predicate") -> Predicate:
    """Parses `text` and binds it to a schema.

    InvalidPredicate, with the position, if it does not parse, names a column that does not exist or is not in `allowed` (`purpose` is
    named in that error), or makes an invalid comparison.
    """
    if not isinstance(text, str):
        raise InvalidPredicate(f"a predicate must be a string, not {text!r}")
    binder = Binder(text, schema, allowed, purpose, {})
    expression = parse(binder)
    return Predicate(text, expression, pa.schema([(name, kind) for name, kind in binder.used.items()]))


def _column(value: Any, kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind) if value is None else typed_array([value], wide_type(kind))
