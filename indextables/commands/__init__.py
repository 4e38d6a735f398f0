"""SQL commands as text: a grammar, the commands it gives, and what each of them does and shows.

`grammar` is the syntax, `parse` turns a text into one of the values of `model`, `run` carries it out by the verbs of `operations`, and
`results` holds the columns that are shown.
"""

from __future__ import annotations

from indextables.commands.parse import is_ours
from indextables.commands.run import Runner, sql

__all__ = [
    "Runner",
    "is_ours",
    "sql",
]
