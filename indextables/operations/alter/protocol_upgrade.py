"""Protocol upgrade in a separate commit; protocol versions are never lowered (PRT-06)."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.errors import InvalidArgument
from indextables.paths import is_our_split
from indextables.table import SUPPORTED, Draft, Outcome, Snapshot, TableContext, is_foreign, taken_over, transact, upgraded


@dataclass(frozen=True, slots=True)
class _Upgrade:
    reader: int
    writer: int
    context: TableContext

    def __call__(self, base: Snapshot) -> Draft:
        new = upgraded(base.protocol, self.reader, self.writer)
        if new is base.protocol:
            return Draft([])
        files = self.context.load(base).files
        ours = not files or any(map(is_our_split, files.paths()))
        return Draft([taken_over(new) if is_foreign(new) and not is_foreign(base.protocol) and ours else new])


def upgrade_protocol(context: TableContext, known: Snapshot, reader: int, writer: int) -> Outcome:
    """Raises the table's minimum protocol versions. If both are high enough already, nothing is committed.

    From version 3 on, the protocol lists our split format as a feature, so that programs that cannot open our splits refuse the table.
    """
    for name, version in (("reader", reader), ("writer", writer)):
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= SUPPORTED:
            raise InvalidArgument(f"{name} version {version!r} is not a whole number from 1 to {SUPPORTED}")
    base = context.newest(known)
    config = context.for_table(base).config
    return transact(context.log, base, "upgrade_protocol", _Upgrade(reader, writer, context), config=config, clock=context.clock)
