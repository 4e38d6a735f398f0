"""Record a skipped file: a commit that excludes a split from merges during a cooldown; its rows stay readable."""

from __future__ import annotations

from dataclasses import replace

from indextables.actions import Skip
from indextables.errors import InvalidArgument
from indextables.operations.checkpoint import checkpoint_if_due
from indextables.table import Draft, Outcome, Snapshot, TableContext, log_new_skips, new_skip, protocol_for_skips, transact

_LONGEST_HOURS = 24 * 366 * 100


def record_skipped_file(
    context: TableContext, known: Snapshot, path: str, reason: str, operation: str, cooldown_hours: float | None = None
) -> Outcome:
    """Commits one `mergeskip` for a live split. `cooldown_hours` defaults to `skippedFiles.cooldownDuration`."""
    for name, text in (("path", path), ("reason", reason), ("operation", operation)):
        if not isinstance(text, str) or not text:
            raise InvalidArgument(f"{name} {text!r} of a skipped file is not a non-empty string")
    base = context.newest(known)
    bound = context.for_table(base)
    hours = bound.config.get("skippedFiles.cooldownDuration") if cooldown_hours is None else cooldown_hours
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours <= _LONGEST_HOURS:
        raise InvalidArgument(f"cooldown_hours {cooldown_hours!r} is not a number of hours from 0 to {_LONGEST_HOURS}")
    relative, now = context.root.relative(path), context.clock.now_ms()

    def build(base: Snapshot) -> Draft:
        """The skip with the next skip count of the base, so that concurrent skips get different counts."""
        add = context.load(base).files.get(relative)
        if add is None:
            raise InvalidArgument(f"{relative!r} is not a live file of the table at version {base.version}")
        return Draft([*protocol_for_skips(base), new_skip(base, add, reason, operation, now, hours)])

    outcome = transact(context.log, base, "record_skipped_file", build, config=bound.config, clock=context.clock)
    assert outcome.draft is not None
    log_new_skips(action for action in outcome.draft.actions if isinstance(action, Skip))
    return replace(outcome, snapshot=checkpoint_if_due(context, outcome.snapshot)[0])
