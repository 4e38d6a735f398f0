"""The search language: text to a tree (`syntax`), a tree to tantivy queries (`compile`), and snippets of the matching text (`snippets`)."""

from indextables.splits.query.compile import ParsedQuery, parse_query
from indextables.splits.query.index_parts import FAST, POSITIONS, IndexPart, Searchable
from indextables.splits.query.snippets import Highlighter, best_snippet
