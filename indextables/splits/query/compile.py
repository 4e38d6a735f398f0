"""Compiles the tree of a query to tantivy queries, for the columns of a table or of one split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
from tantivy import FieldType, Occur
from tantivy import Query as TantivyQuery

from indextables import limits
from indextables.errors import InvalidQuery
from indextables.splits.index import GRAM, NULLS, DocMapping, analyzer, grams, index_schema, kinds, prepare_column, tantivy_errors_as
from indextables.splits.query.index_parts import FAST, POSITIONS, WORDS, IndexPart
from indextables.splits.query.scanner import refusal
from indextables.splits.query.syntax import MAX_BOOST, parse
from indextables.splits.query.tree import Boost, Clause, Column, Everything, Exists, Node, Range, Words
from indextables.values import decode_value

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_EXPENSIVE = 16  # clauses that a prefix, a phrase or a range counts as
_ORDERED = (kinds.INTEGER, kinds.FLOAT, kinds.DECIMAL, kinds.DATE, kinds.IP)
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Compiled:
    query: Any  # tantivy's
    parts: frozenset[IndexPart]  # the parts of the index that it reads


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that was validated against a table. Plain data that can be pickled."""

    text: str
    tree: Node
    default_columns: tuple[str, ...]  # searched where no column is named

    def compile(self, schema: pa.Schema, mapping: DocMapping) -> Compiled:
        """The query for a split with this schema and mapping. A column that the split does not have is null in all its rows."""
        compiler = _Compiler(self, schema, mapping, partial=True)
        return Compiled(compiler.build(), frozenset(compiler.parts))


def parse_query(text: str, schema: pa.Schema, mapping: DocMapping) -> ParsedQuery:
    """Parses a query and validates it against a table, without reading a split; InvalidQuery names the error and its position."""
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
        self.mapping = mapping
        self.kinds = dict(mapping.fields)
        self.index = index_schema(mapping)
        self.partial = partial
        self.clauses = 0
        self.parts: set[IndexPart] = set()
        self.factor = 1.0

    def build(self) -> Any:
        with tantivy_errors_as(InvalidQuery, "the query cannot be searched"):
            return self.node(self.query.tree)

    def fail(self, message: str, position: int) -> NoReturn:
        raise refusal(message, self.query.text, position)

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
        if not parts:  # in tantivy, exclusions alone match nothing
            parts = [(Occur.Must, TantivyQuery.all_query())]
        parts += [(Occur.MustNot, self.node(node)) for node in clause.must_not]
        return TantivyQuery.boolean_query(parts)

    def boost(self, boost: Boost) -> Any:
        outer = self.factor
        self.factor *= boost.factor
        if not 1 / MAX_BOOST <= self.factor <= MAX_BOOST:  # scores are 32-bit floats
            raise InvalidQuery(f"nested boosts multiply to {self.factor:g}, but at most {MAX_BOOST:g} is allowed")
        query = TantivyQuery.boost_query(self.node(boost.node), boost.factor)
        self.factor = outer
        return query

    def all_columns(self, words: Words) -> Any:
        columns = self.query.default_columns
        if not columns:
            self.fail(f"the table has no text column to search {words.text!r} in; name a column", words.position)
        return TantivyQuery.boolean_query([(Occur.Should, self.words(words, Column(name, words.position))) for name in columns])

    def kind(self, column: Column) -> str | None:
        """The index kind of a column; None for a column that this split does not have."""
        if column.name in self.kinds:
            return self.kinds[column.name]
        if _json_path(column.name, self.kinds) is not None:
            return kinds.JSON
        if not self.partial:
            self.unknown(column)
        return None

    def unknown(self, column: Column) -> NoReturn:
        for name, kind in self.kinds.items():
            if kind == kinds.STORED and column.name.startswith(f"{name}."):
                self.not_indexed(name, column.position)
        self.fail(f"the table has no column {column.name!r} to search (it has {', '.join(self.kinds)})", column.position)

    def not_indexed(self, column: str, position: int) -> NoReturn:
        objects = kinds.is_object(self.schema.field(column).type)
        hint = f" (set indexing.typemap.{column}=json when creating a table)" if objects else ""
        self.fail(f"column {column!r} is not indexed{hint}; filter it with `where`", position)

    # --- one column

    def reads(self, column: str, part: str, words: Iterable[Any] = (None,)) -> None:
        """Records that the query reads these words, or all words, of a column. Of a path into an object, all JSON columns are recorded."""
        if column == NULLS or self.kinds.get(column) in (kinds.TEXT, kinds.STRING):
            self.parts.update(IndexPart(column, part, None if word is None else word.encode()) for word in words)
        else:
            names = [column] if column in self.kinds else [name for name, kind in self.kinds.items() if kind == kinds.JSON]
            self.parts.update(IndexPart(name, part) for name in names)

    def term(self, column: str, value: Any, index_option: str = "basic") -> Any:
        self.reads(column, WORDS, [value])
        return TantivyQuery.term_query(self.index, column, value, index_option=index_option)

    def words(self, words: Words, where: Column) -> Any:
        self.count(1)
        kind, column = self.kind(where), where.name
        if kind is None:
            return TantivyQuery.empty_query()
        if kind == kinds.STORED:
            self.not_indexed(column, words.position)
        if kind == kinds.TEXT:
            return self.text(words, column)
        if kind == kinds.JSON:
            return self.inside(words, column)
        if words.slop:
            self.fail(f"~ requires a text column, which {column!r} is not", words.position)
        if kind == kinds.STRING:
            return self.prefix(column, words.text) if words.prefix else self.term(column, words.text)
        if words.prefix:
            self.fail(f"a prefix requires a string column, which {column!r} is not", words.position)
        value = self.value(column, kind, words.text, words.position)
        return self.term(column, value) if kind in (kinds.BOOLEAN, kinds.IP) else self.between(column, kind, value, value)

    def text(self, words: Words, column: str) -> Any:
        if not words.quoted and words.text[:1] in ("-", "+") and words.column is not None:
            self.fail("the sign of a condition must come before its column", words.position)
        tokenizer = self.mapping.tokenizer(column)
        if tokenizer == kinds.NGRAM:
            return self.substring(words, column)
        if tokenizer == kinds.EN_STEM and words.prefix:
            self.fail(f"column {column!r} is indexed by word stems, which cannot be searched by prefix", words.position)
        return self.tokens(words, column, tokenizer)

    def tokens(self, words: Words, column: str, tokenizer: str) -> Any:
        """Searches for all tokens of a text. `column` is a text column, or a path into a JSON column."""
        words_of = analyzer(tokenizer)
        tokens = words_of.analyze(words.text)
        if not tokens:
            self.fail(f"{words.text!r} contains no word to search for", words.position)
        if len(tokens) > 1:
            self.count(len(tokens) + _EXPENSIVE)
        if words.prefix:
            if words.text[-1:] and not words_of.analyze(words.text[-1:]):
                self.fail(f"* needs a letter or a digit before it, not {words.text[-1:]!r}", words.position)
            return self.text_prefix(column, tokens)
        if words.slop and len(tokens) > 2:  # tantivy's result depends on which of the words is rarest in the segment
            self.fail(f"~ requires a phrase of two words, but this one has {len(tokens)}", words.position)
        return self.phrase(column, tokens, words.slop)

    def phrase(self, column: str, tokens: list[str], slop: int = 0) -> Any:
        if len(tokens) == 1:
            return self.term(column, tokens[0], "freq")
        self.reads(column, POSITIONS, tokens)
        return TantivyQuery.phrase_query(self.index, column, tokens, slop=slop)

    def text_prefix(self, column: str, tokens: list[str]) -> Any:
        if len(tokens) == 1:
            return self.prefix(column, tokens[0])
        self.reads(column, POSITIONS)
        # tantivy's phrase_prefix_query silently stops at 50 words; this query expands to all of them or fails.
        patterns = [re.escape(token) for token in tokens]
        return TantivyQuery.regex_phrase_query(self.index, column, [*patterns[:-1], patterns[-1] + ".*"])

    def substring(self, words: Words, column: str) -> Any:
        """A substring of a text: a phrase of the substring's grams. A `*` at the end changes nothing."""
        found = grams(words.text)
        if not found:
            self.fail(f"column {column!r} (ngram) needs at least {GRAM} characters to search for, not {words.text!r}", words.position)
        if words.slop:
            self.fail(f"~ requires a column indexed by words, but {column!r} is indexed by ngrams", words.position)
        self.count(len(found) + _EXPENSIVE)
        return self.phrase(column, found)

    def inside(self, words: Words, column: str) -> Any:
        """A path into a struct or a map: the words there, or the number or boolean that the text represents."""
        path = _json_path(column, self.kinds)
        if path is None:
            self.fail(f"column {column!r} is searched by path, for example {column}.key:word", words.position)
        if not words.prefix and not words.quoted and not analyzer().analyze(words.text):
            self.fail(f"{words.text!r} contains no word to search for", words.position)
        found = [self.tokens(words, path, kinds.DEFAULT)]
        if not words.prefix and not words.quoted:
            values = _typed_values(words.text)
            self.count(len(values))
            found += [self.term(path, value) for value in values]
        return found[0] if len(found) == 1 else TantivyQuery.boolean_query([(Occur.Should, query) for query in found])

    def prefix(self, column: str, text: str) -> Any:
        self.count(_EXPENSIVE)
        self.reads(column, WORDS)
        return TantivyQuery.fuzzy_term_query(self.index, column, text, distance=0, transposition_cost_one=False, prefix=True)

    def exists(self, exists: Exists) -> Any:
        self.count(1)
        if self.kind(exists.column) is None:
            return TantivyQuery.empty_query()
        if exists.column.name not in self.kinds:
            self.fail(f":* requires a column, but {exists.column.name!r} is a path inside one", exists.column.position)
        null = self.term(NULLS, exists.column.name)
        return TantivyQuery.boolean_query([(Occur.Must, TantivyQuery.all_query()), (Occur.MustNot, null)])

    def range(self, bounds: Range) -> Any:
        kind, column = self.kind(bounds.column), bounds.column.name
        if kind is None:
            return TantivyQuery.empty_query()
        if kind not in _ORDERED:
            self.fail(f"ranges require a column of numbers, dates, timestamps or addresses, which {column!r} is not", bounds.position)
        lower, upper = (None if text is None else self.value(column, kind, text, bounds.position) for text in (bounds.lower, bounds.upper))
        return self.between(column, kind, lower, upper, bounds.include_lower, bounds.include_upper)

    def between(self, column: str, kind: str, lower: Any, upper: Any, with_lower: bool = True, with_upper: bool = True) -> Any:
        self.count(_EXPENSIVE)
        self.reads(column, FAST)
        field_type = {kinds.FLOAT: FieldType.Float, kinds.IP: FieldType.IpAddr}.get(kind, FieldType.Integer)
        return TantivyQuery.range_query(self.index, column, field_type, lower, upper, with_lower, with_upper)

    def value(self, column: str, kind: str, text: str, position: int) -> Any:
        """A value as it is in the index."""
        arrow = self.schema.field(column).type
        expected = f"a value of column {column!r}, which has type {arrow}"
        try:
            if kind == kinds.BOOLEAN:
                expected = f"true or false, but column {column!r} is boolean"
                return _boolean(text)
            if kind == kinds.IP:
                expected = f"an IP address, but column {column!r} holds addresses"
                return str(ip_address(text))
            if kind != kinds.DATE and not _FLOAT.fullmatch(text):
                raise ValueError(text)
            # An integer may be beyond the column's type: as a bound it is still meaningful.
            column_of_one = pa.array([decode_value(text, arrow)], pa.int64() if kind == kinds.INTEGER else arrow)
            _, (value,) = prepare_column(column_of_one, kind, kinds.DEFAULT)
            return _finite(value)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is not {expected}", position)


# --- values


def _json_path(name: str, columns: Mapping[str, str]) -> str | None:
    """A path into a JSON column (the longest matching column name) in tantivy's notation; None if no JSON column matches."""
    at = name.rfind(".")
    while at > 0:
        if columns.get(name[:at]) == kinds.JSON and name[at + 1 :]:
            return name[:at].replace(".", "\\.") + name[at:]
        at = name.rfind(".", 0, at)
    return None


def _typed_values(text: str) -> list[int | float]:
    """The boolean and the numbers that a text may represent."""
    found: list[int | float] = []
    for read in (_boolean, _integer, _float):
        with suppress(ValueError, OverflowError):
            found.append(read(text))
    return found


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def _float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(text)
    return _finite(float(text) + 0.0)  # -0.0 becomes 0.0, as in the index


def _finite(value: _Number) -> _Number:
    if value in (float("inf"), float("-inf")):
        raise OverflowError
    return value
