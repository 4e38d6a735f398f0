"""Protocol upgrade in a separate commit; protocol versions are never lowered (PRT-06)."""

from __future__ import annotations

from indextables.errors import InvalidArgument
from indextables.paths import is_our_split
from indextables.table import SUPPORTED, Draft, Outcome, Snapshot, TableContext, is_foreign, taken_over, transact, upgraded


def upgrade_protocol(context: TableContext, known: Snapshot, reader: int, writer: int) -> Outcome:
    """Raises the table's minimum protocol versions. If both are high enough already, nothing is committed.

    From version 3 on, the protocol lists our split format as a feature, so that programs that cannot open our splits refuse the table.
    """
    for name, version in (("reader", reader), ("writer", writer)):
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= SUPPORTED:
            raise InvalidArgument(f"{name} version {version!r} is not a whole number from 1 to {SUPPORTED}")

    def build(base: Snapshot) -> Draft:
        new = upgraded(base.protocol, reader, writer)
        if new is base.protocol:
            return Draft([])
        files = context.load(base).files
        ours = not files or any(map(is_our_split, files.paths()))
        return Draft([taken_over(new) if is_foreign(new) and not is_foreign(base.protocol) and ours else new])

    base = context.newest(known)
    return transact(context.log, base, "upgrade_protocol", build, config=context.for_table(base).config, clock=context.clock)
