"""Drop partitions: one commit removes their splits from the table; purge deletes the files later."""

from __future__ import annotations

from indextables.actions import Remove
from indextables.errors import InvalidArgument
from indextables.operations.checkpoint import checkpoint_if_due
from indextables.operations.report import Report, Status, reporter
from indextables.operations.verbs import DropPartitions
from indextables.predicates import parse_predicate
from indextables.table import Draft, Snapshot, TableContext, check_owned, check_writable, rows_of_partitions, transact


def drop_partitions(request: DropPartitions, context: TableContext, known: Snapshot) -> tuple[Report, Snapshot]:
    """Removes every split of the partitions that match. InvalidPredicate if `where` does not fit the table."""
    where = request.where
    report = reporter("drop_partitions", str(context.root), context.clock)
    if not isinstance(where, str) or not where.strip():
        raise InvalidArgument(f"drop_partitions requires a predicate on partition columns, not {where!r}")
    base = context.newest(known)
    check_writable(base.protocol)
    if not base.partition_columns:
        raise InvalidArgument(f"the table {context.root} is not partitioned")
    predicate = parse_predicate(where, base.schema, allowed=base.partition_columns, purpose="drop_partitions (partition columns only)")
    bound = context.for_table(base)

    def build(base: Snapshot) -> Draft:
        """Removes all splits that match at commit time, including splits added concurrently."""
        check_owned(base.protocol)
        view = context.load(base, predicate)
        adds = list(view.adds(rows_of_partitions(view, predicate)))
        now = context.clock.now_ms()
        metrics = {
            "partitions_dropped": len({tuple(sorted(add.partition_values.items())) for add in adds}),
            "files_removed": len(adds),
            "bytes_removed": sum(add.size for add in adds),
            "rows_removed": sum(add.num_records or 0 for add in adds),
        }
        return Draft([Remove.of(add, now, data_change=True) for add in adds], metrics)

    outcome = transact(context.log, base, "drop_partitions", build, config=bound.config, clock=context.clock)
    assert outcome.draft is not None
    metrics = outcome.draft.metrics
    if outcome.version is None:
        return report(Status.NO_ACTION, metrics, base_version=outcome.base_version), outcome.snapshot
    snapshot, warnings = checkpoint_if_due(bound, outcome.snapshot)
    return report(Status.SUCCESS, metrics, base_version=outcome.base_version, version=outcome.version, warnings=warnings), snapshot
