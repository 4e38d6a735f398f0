"""Evaluates a bound predicate on Arrow columns, in Spark's three-valued logic."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.predicates import expressions as exp
from indextables.predicates.keys import typed_array, typed_scalar

_KERNELS = {"=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_TRUE, _FALSE, _NULL = (typed_scalar(value, pa.bool_()) for value in (True, False, None))
_ZERO = typed_array([0.0], pa.float64())[0]  # not `typed_scalar`, which takes -0.0 for the same


def evaluate(expression: exp.Expr, batch: pa.RecordBatch | pa.Table, kinds: pa.Schema) -> Any:
    """True, false or null for each row, as a boolean array (chunked for tables, unless no column is used).

    `kinds` has the canonical type of each column used; the batch may have other types that cast to those without loss.
    """
    match expression:
        case exp.Constant(value):
            return pa.repeat(typed_scalar(value, pa.bool_()), batch.num_rows)
        case exp.Compare(operator, name, value):
            return _compare(operator, _column(batch, name, wide_type(kinds.field(name).type)), value)
        case exp.CompareColumns(operator, left, right, common):
            return _compare_columns(operator, _lifted(batch, left, kinds, common), _lifted(batch, right, kinds, common))
        case exp.Always(name, value):
            return _unless_null(_column(batch, name, kinds.field(name).type), _TRUE if value else _FALSE)
        case exp.In():
            return _in(expression, _column(batch, expression.column, wide_type(kinds.field(expression.column).type)))
        case exp.Like(name, prefix, only_prefix, regex):
            column = _column(batch, name, kinds.field(name).type)
            return pc.starts_with(column, prefix) if only_prefix else pc.match_substring_regex(column, regex)
        case exp.IsNull(name):
            return pc.is_null(_column(batch, name, kinds.field(name).type))
        case exp.Is(operand, value):
            answers = evaluate(operand, batch, kinds)
            return pc.is_null(answers) if value is None else pc.fill_null(pc.equal(answers, _TRUE if value else _FALSE), _FALSE)
        case exp.Not(operand):
            return pc.invert(evaluate(operand, batch, kinds))
        case exp.And(operands) | exp.Or(operands):
            combine = pc.and_kleene if isinstance(expression, exp.And) else pc.or_kleene
            answers = evaluate(operands[0], batch, kinds)
            for operand in operands[1:]:
                answers = combine(answers, evaluate(operand, batch, kinds))
            return answers


def _column(batch: pa.RecordBatch | pa.Table, name: str, kind: pa.DataType) -> Any:
    column = batch.column(name)
    return column if column.type == kind else column.cast(kind)


def wide_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is compared with literals, which may be out of range of the column's own type."""
    return pa.int64() if pa.types.is_integer(kind) else pa.float64() if pa.types.is_floating(kind) else kind


def _lifted(batch: pa.RecordBatch | pa.Table, name: str, kinds: pa.Schema, common: pa.DataType) -> Any:
    column = _column(batch, name, kinds.field(name).type)
    if pa.types.is_floating(common):
        return column.cast(pa.float64(), safe=False)  # integers above 2**53 round, as in Spark
    if pa.types.is_timestamp(common):  # as microseconds: a timestamp without zone counts as UTC, a date as its midnight
        return (column.cast(pa.timestamp("us")) if pa.types.is_date(column.type) else column).cast(pa.int64())
    return column if column.type == common else column.cast(common)


def _compare(operator: exp.Operator, column: Any, value: Any) -> Any:
    if pa.types.is_floating(column.type) and math.isnan(value):
        if operator in ("<=", ">"):  # NaN equals itself and is greater than everything else
            return _unless_null(column, _TRUE if operator == "<=" else _FALSE)
        return pc.is_nan(column) if operator in ("=", ">=") else pc.invert(pc.is_nan(column))
    answers = _KERNELS[operator](column, typed_scalar(value, column.type))
    return pc.or_(answers, pc.is_nan(column)) if pa.types.is_floating(column.type) and operator in (">", ">=") else answers


def _compare_columns(operator: exp.Operator, left: Any, right: Any) -> Any:
    if not pa.types.is_floating(left.type):
        return _KERNELS[operator](left, right)
    if operator in (">", ">="):
        return _compare_columns(exp.FLIPPED[operator], right, left)
    if operator == "<>":
        return pc.invert(_compare_columns("=", left, right))
    right_nan = pc.is_nan(right)
    if operator == "<":
        return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), right_nan))
    true_for_nan = pc.and_(pc.is_nan(left), right_nan) if operator == "=" else right_nan
    return pc.or_(_KERNELS[operator](left, right), true_for_nan)


def _in(expression: exp.In, column: Any) -> Any:
    values = list(expression.values)
    if pa.types.is_floating(column.type):
        # is_in hashes the bits: so -0.0 becomes 0.0 on both sides, and NaN, which has many encodings, is tested separately.
        numbers = [value + 0.0 for value in values if not math.isnan(value)]
        found = pc.is_in(pc.add(column, _ZERO), typed_array(numbers, pa.float64()))
        found = pc.or_kleene(found, pc.is_nan(column)) if len(numbers) < len(values) else found
    else:
        found = pc.is_in(column, typed_array(values, column.type))
    if expression.has_null:
        found = pc.if_else(found, _TRUE, _NULL)
    return _unless_null(column, found)


def _unless_null(column: Any, answers: Any) -> Any:
    return pc.if_else(pc.is_valid(column), answers, _NULL)
