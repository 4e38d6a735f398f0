"""From the search syntax to tantivy's queries, for the columns of a table or of one split."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NoReturn

import pyarrow as pa
from tantivy import FieldType, Occur
from tantivy import Query as TantivyQuery

from indextables import limits
from indextables.errors import InvalidQuery
from indextables.splits import mapping as kinds
from indextables.splits.index import NULLS, index_schema, translated, words_analyzer
from indextables.splits.mapping import DocMapping
from indextables.splits.syntax import MAX_BOOST, parse
from indextables.splits.tree import Boost, Clause, Column, Everything, Exists, Node, Range, Words
from indextables.values import decode_value

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_EXPENSIVE = 16  # clauses that a prefix, a phrase or a range counts for
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that fits a table. Plain data: it may be pickled and sent elsewhere."""

    text: str
    tree: Node
    default_columns: tuple[str, ...]  # searched where no column is named

    def compile(self, schema: pa.Schema, mapping: DocMapping) -> Any:
        """tantivy's query for a split with this schema and mapping. A column that the split does not have is null in all its rows."""
        return _Compiler(self, schema, mapping, partial=True).build()


def parse_query(text: str, schema: pa.Schema, mapping: DocMapping) -> ParsedQuery:
    """Check a query against a table, without any split; InvalidQuery names what is wrong, with the position."""
    try:
        query = ParsedQuery(text, parse(text), mapping.text_columns)
        _Compiler(query, schema, mapping, partial=False).build()
    except RecursionError as cause:
        raise InvalidQuery("the query is nested too deeply") from cause
    return query


class _Compiler:
    def __init__(self, query: ParsedQuery, schema: pa.Schema, mapping: DocMapping, partial: bool) -> None:
        self.query = query
        self.schema = schema
        self.kinds = dict(mapping.fields)
        self.index = index_schema(mapping)
        self.partial = partial
        self.analyzer = words_analyzer()
        self.clauses = 0
        self.factor = 1.0

    def build(self) -> Any:
        with translated(InvalidQuery, "the query cannot be searched"):
            return self.node(self.query.tree)

    def fail(self, message: str, position: int) -> NoReturn:
        raise InvalidQuery(f"{message} at position {position} of the query", self.query.text, position)

    def count(self, number: int) -> None:
        self.clauses += number
        if self.clauses > limits.QUERY_CLAUSES:
            raise InvalidQuery(f"the query has too many words for the columns it searches (more than {limits.QUERY_CLAUSES} clauses)")

    def node(self, node: Node) -> Any:
        match node:
            case Clause():
                return self.clause(node)
            case Words(column=None):
                return self.all_columns(node)
            case Words(column=Column() as column):
                return self.words(node, column)
            case Exists():
                return self.exists(node)
            case Range():
                return self.range(node)
            case Boost():
                return self.boost(node)
            case Everything():
                self.count(1)
                return TantivyQuery.all_query()

    def clause(self, clause: Clause) -> Any:
        parts = [(Occur.Must, self.node(node)) for node in clause.must]
        parts += [(Occur.Should, self.node(node)) for node in clause.should]
        if not parts:  # tantivy would find nothing
            parts = [(Occur.Must, TantivyQuery.all_query())]
        parts += [(Occur.MustNot, self.node(node)) for node in clause.must_not]
        return TantivyQuery.boolean_query(parts)

    def boost(self, boost: Boost) -> Any:
        outer = self.factor
        self.factor *= boost.factor
        if not 1 / MAX_BOOST <= self.factor <= MAX_BOOST:  # scores are 32-bit floats
            raise InvalidQuery(f"boosts within each other multiply to {self.factor:g}, at most {MAX_BOOST:g} is allowed")
        query = TantivyQuery.boost_query(self.node(boost.node), boost.factor)
        self.factor = outer
        return query

    def all_columns(self, words: Words) -> Any:
        columns = self.query.default_columns
        if not columns:
            self.fail(f"the table has no text column to search {words.text!r} in; name a column", words.position)
        return TantivyQuery.boolean_query([(Occur.Should, self.words(words, Column(name, words.position))) for name in columns])

    def kind(self, column: Column) -> str | None:
        """How a column is indexed; None for a column that this split does not have."""
        if column.name not in self.kinds and not self.partial:
            self.fail(f"the table has no column {column.name!r} to search", column.position)
        return self.kinds.get(column.name)

    # --- one column

    def words(self, words: Words, where: Column) -> Any:
        self.count(1)
        kind, column = self.kind(where), where.name
        if kind is None:
            return TantivyQuery.empty_query()
        if kind == kinds.TEXT:
            return self.text(words, column)
        if words.slop:
            self.fail(f"~ is for text columns, which {column!r} is not", words.position)
        if kind == kinds.STRING:
            return self.string(words, column)
        if words.prefix:
            self.fail(f"a prefix is for strings, which column {column!r} is not", words.position)
        if kind == kinds.BOOLEAN:
            return TantivyQuery.term_query(self.index, column, self.boolean(words, column), index_option="basic")
        value = self.number(column, kind, words.text, words.position)
        return self.between(column, kind, value, value)

    def text(self, words: Words, column: str) -> Any:
        if not words.quoted and words.text[:1] in ("-", "+") and words.column is not None:
            self.fail("the sign of a condition stands before its column", words.position)
        tokens = self.analyzer.analyze(words.text)
        if not tokens:
            self.fail(f"{words.text!r} has no word to search for", words.position)
        if len(tokens) > 1:
            self.count(len(tokens) + _EXPENSIVE)
        if words.prefix:
            return self.text_prefix(words, column, tokens)
        if len(tokens) == 1:
            return TantivyQuery.term_query(self.index, column, tokens[0])
        return TantivyQuery.phrase_query(self.index, column, tokens, slop=words.slop)

    def text_prefix(self, words: Words, column: str, tokens: list[str]) -> Any:
        if words.text[-1:] and not self.analyzer.analyze(words.text[-1:]):
            self.fail(f"* needs a letter or a digit before it, not {words.text[-1:]!r}", words.position)
        if len(tokens) == 1:
            return self.prefix(column, tokens[0])
        # tantivy's phrase_prefix_query looks at 50 words and forgets the others; this one looks at all or refuses.
        patterns = [re.escape(token) for token in tokens]
        return TantivyQuery.regex_phrase_query(self.index, column, [*patterns[:-1], patterns[-1] + ".*"])

    def string(self, words: Words, column: str) -> Any:
        if words.prefix:
            return self.prefix(column, words.text)
        return TantivyQuery.term_query(self.index, column, words.text, index_option="basic")

    def prefix(self, column: str, text: str) -> Any:
        self.count(_EXPENSIVE)
        return TantivyQuery.fuzzy_term_query(self.index, column, text, distance=0, transposition_cost_one=False, prefix=True)

    def exists(self, exists: Exists) -> Any:
        self.count(1)
        if self.kind(exists.column) is None:
            return TantivyQuery.empty_query()
        null = TantivyQuery.term_query(self.index, NULLS, exists.column.name, index_option="basic")
        return TantivyQuery.boolean_query([(Occur.Must, TantivyQuery.all_query()), (Occur.MustNot, null)])

    def range(self, bounds: Range) -> Any:
        kind, column = self.kind(bounds.column), bounds.column.name
        if kind is None:
            return TantivyQuery.empty_query()
        if kind not in (kinds.INTEGER, kinds.FLOAT, kinds.DATE):
            self.fail(f"ranges are for numbers, dates and timestamps, which column {column!r} is not", bounds.position)
        lower, upper = (None if text is None else self.number(column, kind, text, bounds.position) for text in (bounds.lower, bounds.upper))
        return self.between(column, kind, lower, upper, bounds.include_lower, bounds.include_upper)

    def between(self, column: str, kind: str, lower: Any, upper: Any, with_lower: bool = True, with_upper: bool = True) -> Any:
        self.count(_EXPENSIVE)
        field_type = FieldType.Float if kind == kinds.FLOAT else FieldType.Integer
        return TantivyQuery.range_query(self.index, column, field_type, lower, upper, with_lower, with_upper)

    # --- values

    def boolean(self, words: Words, column: str) -> bool:
        if words.text.lower() not in ("true", "false"):
            self.fail(f"{words.text!r} is not true or false, which column {column!r} holds", words.position)
        return words.text.lower() == "true"

    def number(self, column: str, kind: str, text: str, position: int) -> int | float:
        """The number that stands in the index for a value."""
        arrow = self.schema.field(column).type
        try:
            if kind == kinds.INTEGER:
                return _integer(text)
            return _float(text, arrow) if kind == kinds.FLOAT else _moment(text, arrow)
        except (ValueError, OverflowError, struct.error):
            self.fail(f"{text!r} is not a value of type {arrow}, which column {column!r} has", position)


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def _float(text: str, arrow: pa.DataType) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(text)
    value = float(text) + 0.0  # -0.0 becomes 0.0, as in the index
    if pa.types.is_float32(arrow):
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    if value in (float("inf"), float("-inf")):
        raise OverflowError(text)
    return value


def _moment(text: str, arrow: pa.DataType) -> int:
    value = decode_value(text, arrow)
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    assert isinstance(value, date)  # what decode_value gives for a date column
    return (value - date(1970, 1, 1)).days
