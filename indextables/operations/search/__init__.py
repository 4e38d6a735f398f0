"""Reading a snapshot: `scan` and `count` over rows, and `search` over the full-text index.

`explain_filter` shows which splits they would read. Other verbs check predicates and queries against the table with `bind` and
`bound_query`.
"""

from __future__ import annotations

from indextables.operations.search.rows import SCORE, bind, bound_query, count, explain_filter, requested_columns, scan
from indextables.operations.search.run import search
