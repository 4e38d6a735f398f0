"""SQL commands such as `MERGE SPLITS '/data/logs'`: parsed into the request of a verb, run, and shown as one row.

Start with `sql`, which runs a command. `grammar` has the syntax, `parse` makes the request, `Runner` runs it, and `results` has the columns
of the rows.
"""

from __future__ import annotations

from indextables.commands.parse import is_command
from indextables.commands.run import Runner, sql
