"""SQL commands such as `MERGE SPLITS '/data/logs'`: parsed into the request of a verb, run, and shown as one row.

Start with `sql`, which runs a command. `grammar` has the syntax, `parse` makes the request, and `Runner` runs it.
"""

from __future__ import annotations

from indextables.commands.grammar import is_command
from indextables.commands.run import Runner, sql
