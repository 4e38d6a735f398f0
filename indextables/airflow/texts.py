"""The documentation of DAGs and tasks in the Airflow UI."""

from __future__ import annotations

from indextables.airflow.tables import Table, Write

TASKS = {
    "write": "Loads the source into the table as one commit. A retry of the same run never commits twice.",
    "merge_splits": "Merges small splits into larger ones, partition by partition. Skipped when there is nothing to merge.",
    "checkpoint": "Writes a checkpoint, so that readers need not replay the log. Skipped when there is no newer version.",
    "purge": "Deletes splits that no retained version needs, and expired history. Live splits are kept. Skipped when nothing has expired.",
}

_CODES = """\
| exit code of the job | meaning | Airflow |
| --- | --- | --- |
| 0 | done, nothing to do, or done in part: the report's status is then `partial`, and its warnings say what is left | success, or skipped |
| 1 | failed: unreadable source, schema mismatch, damaged table, unknown commit outcome | retried |
| 2 | usage: malformed option, predicate, size or duration | failed at once |
| 75 | try again later: a conflict, throttling, or the store is unreachable | retried |
| 78 | will never work as asked: the table does not exist, bad configuration, access denied | failed at once |
"""


def write_doc(table: Table, write: Write) -> str:
    when = f"on the schedule {_code(write.schedule)}, or when triggered manually" if write.schedule else "when triggered manually"
    return f"""\
### Write into {_code(table.name)}
{_description(table)}
Loads {_code(write.source)}{_format_and_mode(write)} into the table at {_code(table.path)} {when}. Each commit triggers
{_code(f"indextables_{table.name}_maintain")}.

**Manual run:** press *Trigger*; the form takes another source or mode for this one run. The task's XCom `return_value` is the report.

{_retries(table)}
{_CODES}"""


def maintain_doc(table: Table) -> str:
    return f"""\
### Maintenance of {_code(table.name)}
{_description(table)}
`merge_splits` → `checkpoint` → `purge` on the table at {_code(table.path)}, after every write by Airflow or when triggered manually.
A step with nothing to do is skipped and the next one still runs; a failed step stops the rest.

**Manual run:** press *Trigger*; the form takes other sizes and ages for this one run. In a dry run every step only reports what it would
do; the table is not changed. Each task's XCom `return_value` is its report.

{_retries(table)}
{_CODES}"""


def _format_and_mode(write: Write) -> str:
    words = ", ".join(word for word in (write.format, write.mode) if word)
    return f" ({words})" if words else ""


def _description(table: Table) -> str:
    return f"\n{table.description}\n" if table.description else ""


def _retries(table: Table) -> str:
    return (
        f"A failed task is retried up to {table.retries} times, after {table.retry_delay:g} s and then increasingly longer, "
        f"at most {table.max_retry_delay:g} s; each try may take {table.timeout:g} s.\n"
    )


def _code(value: str | None) -> str:
    """`value` as inline code, with backticks replaced so that none can end it."""
    return f"`{(value or '').replace('`', chr(0x2BC))}`"
