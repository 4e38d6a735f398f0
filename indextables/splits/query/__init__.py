"""The search language, from text to tantivy queries.

Start with `parse_query`, which makes a tree (`syntax`) and binds it to a table; `compile` turns it into tantivy queries for one split. A
`Highlighter` marks the matching words in a text.
"""

from indextables.splits.query.compile import ParsedQuery, parse_query
from indextables.splits.query.index_parts import FAST, POSITIONS, IndexPart, Searchable
from indextables.splits.query.snippets import Highlighter, best_snippet
