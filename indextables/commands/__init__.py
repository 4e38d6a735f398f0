"""SQL commands: text to request, and report to rows.

`grammar` is the syntax, `parse` turns a text into the request of a verb, `run` runs it, and `results` has the columns of the result.
"""

from __future__ import annotations

from indextables.commands.parse import is_ours
from indextables.commands.run import Runner, sql

__all__ = [
    "Runner",
    "is_ours",
    "sql",
]
