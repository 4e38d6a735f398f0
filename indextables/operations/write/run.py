"""Write: append and overwrite. Splits are written on any machine; one process makes the commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from indextables.actions import Action, Add, Metadata, Remove, Txn
from indextables.config import COLUMN_PREFIXES
from indextables.errors import ConfigError, InvalidArgument, SchemaMismatch, TableExists, TableNotFound
from indextables.log import is_already_committed, require_same_columns
from indextables.logs import logger
from indextables.operations.checkpoint import checkpoint_if_due
from indextables.operations.executor import Executor, in_threads
from indextables.operations.report import Report, Status, reporter
from indextables.operations.verbs import Write
from indextables.operations.write.after_write import FollowUp, after_write
from indextables.operations.write.create import new_metadata, write_version_zero
from indextables.predicates import Predicate, parse_predicate
from indextables.rows import SplitTask, batches_of, check_source_schema, describe_uncommitted, uncommitted_splits_in_errors
from indextables.schema import from_spark_json
from indextables.splits import SplitSettings
from indextables.table import (
    Draft,
    Outcome,
    Snapshot,
    TableContext,
    check_owned,
    is_foreign,
    partition_row,
    rows_of_partitions,
    taken_over,
    transact,
    version_of,
)
from indextables.values import Scalar

_Rows = TypeVar("_Rows")


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A checked write that has not started: `task` turns rows into splits on any machine, then `commit_write` commits their adds."""

    context: TableContext
    base: Snapshot | None  # None: the table is created before the commit
    metadata: Metadata
    task: SplitTask
    mode: str
    txn: Txn | None
    touched_only: bool = False  # an overwrite replaces only the partitions that have new rows
    warnings: Sequence[str] = ()  # about the source, for the report

    @property
    def is_done(self) -> bool:
        """Whether an earlier attempt has committed this txn, so that there is nothing to write."""
        return self.base is not None and self.txn is not None and is_already_committed(self.txn, self.base.txns)


def prepare_write(
    request: Write,
    context: TableContext,
    source_schema: pa.Schema | None = None,
    *,
    known: Snapshot | None = None,
    table_options: Mapping[str, Any] | None = None,
) -> PreparedWrite:
    """Checks everything that can be checked before rows are read.

    `source_schema` is the schema of the rows, if it is known in advance. With `create` a missing table is created with it before the
    commit; `partition_by` must match that of an existing table.
    """
    partition_by = request.partition_by
    base = _base(context, known, request.create)
    if base is None and source_schema is None:
        raise InvalidArgument("creating a table requires a schema")
    metadata = base.metadata if base else new_metadata(context, source_schema, partition_by or (), table_options or {})
    schema = from_spark_json(metadata.schema_string)
    if base is not None:
        check_owned(base.protocol, take_over=bool(context.config.get("storage.takeOver")))
        base.require_no_gap()
        if source_schema is not None:
            check_source_schema(source_schema, schema)
    if partition_by is not None and list(partition_by) != metadata.partition_columns:
        has = ", ".join(metadata.partition_columns) or "nothing"
        raise SchemaMismatch(f"the table is partitioned by {has}, not by {', '.join(partition_by) or 'nothing'}")
    config = context.config.with_table(metadata.configuration)
    config.check()
    settings = SplitSettings.of_config(config, schema, metadata.partition_columns)
    if base is not None:
        _check_indexing_options(context, base)
    task = SplitTask(
        context.store.spec,
        settings,
        split_bytes=int(config.get("write.targetSplitSize")),
        split_rows=int(config.get("write.targetSplitRows")),
        within=_partition_predicate(request.where, schema, metadata),
        mark=uuid.uuid4().hex[:8],
    )
    return PreparedWrite(replace(context, config=config), base, metadata, task, request.mode, _txn(request, context))


def prepare_from_source(
    request: Write,
    context: TableContext,
    open_rows: Callable[[pa.Schema | None, Callable[[str], None]], tuple[_Rows, pa.Schema]],
    table_options: Mapping[str, Any],
) -> tuple[PreparedWrite, _Rows | None]:
    """Prepares a write of a source that is opened only after the request has been checked against the table; None if the write is done.

    `open_rows` takes the schema of the table, if there is one, and a function for warnings, which are logged and reported. It returns the
    rows and their schema.
    """
    known = None if request.create and context.log.listing().is_empty else context.snapshot()
    if known is not None:
        prepared = prepare_write(request, context, known=known)
        if prepared.is_done:
            return prepared, None
    warnings: list[str] = []

    def warn(warning: str) -> None:
        logger.warning("%s", warning)
        warnings.append(warning)

    rows, schema = open_rows(known.schema if known else None, warn)
    return replace(prepare_write(request, context, schema, known=known, table_options=table_options), warnings=warnings), rows


def write_rows(prepared: PreparedWrite, data: Any) -> tuple[Report, Snapshot]:
    """Runs the complete write in this process."""
    report = reporter(prepared.mode, str(prepared.context.root), prepared.context.clock)
    if prepared.is_done:
        return commit_write(prepared, [], report)  # commits nothing: reports no_action with the version of the first attempt
    return commit_write(prepared, prepared.task.write(batches_of(data, prepared.task.settings.schema)), report)


def commit_write(
    prepared: PreparedWrite, adds: Sequence[Add], report: Callable[..., Report] | None = None, executor: Executor = in_threads
) -> tuple[Report, Snapshot]:
    """Commits the splits, then runs the follow-up steps that the table's options enable: a merge through the executor, a purge in threads.

    An append without rows commits nothing. If the commit fails, the error names the uncommitted splits.
    """
    context = prepared.context
    report = report or reporter(prepared.mode, str(context.root), context.clock)
    with uncommitted_splits_in_errors([add.path for add in adds]):
        base = prepared.base if prepared.base is not None else _create(context, prepared.metadata)
        build = partial(_draft, prepared, adds)
        outcome = transact(context.log, base, prepared.mode, build, config=context.config, clock=context.clock, txn=prepared.txn)
    if outcome.draft is None:
        return _done_before(report, outcome, prepared, adds), outcome.snapshot
    if outcome.version is None:
        created = [] if prepared.base is not None else ["the table was created, but the source has no rows"]
        warnings = [*prepared.warnings, *created]
        return report(Status.NO_ACTION, outcome.draft.metrics, base_version=outcome.base_version, warnings=warnings), outcome.snapshot
    snapshot, warnings = checkpoint_if_due(context, outcome.snapshot)
    followed = after_write(context, FollowUp(snapshot, warnings=[*prepared.warnings, *warnings]), outcome.version, executor)
    metrics = {**outcome.draft.metrics, **followed.metrics}
    made = report(Status.SUCCESS, metrics, base_version=outcome.base_version, version=outcome.version, warnings=followed.warnings)
    return made, followed.snapshot


def _done_before(report: Callable[..., Report], outcome: Outcome, prepared: PreparedWrite, adds: Sequence[Add]) -> Report:
    """The report if another attempt has committed the txn, possibly while this one wrote its splits."""
    txn = prepared.txn
    assert txn is not None
    left = [describe_uncommitted([add.path for add in adds])] if adds else []
    last = outcome.snapshot.txns.get(txn.app_id, txn).version
    why = "has already been committed" if last == txn.version else f"commits nothing: numbers must increase, and {last} is committed"
    warnings = [*prepared.warnings, f"txn {txn.app_id} {txn.version} {why}", *left]
    first = version_of(prepared.context.log, txn, outcome.snapshot.version)
    return report(Status.NO_ACTION, _metrics([], []), base_version=outcome.base_version, version=first, warnings=warnings)


def _draft(prepared: PreparedWrite, adds: Sequence[Add], base: Snapshot) -> Draft:
    """The commit on this base. An overwrite replaces all splits that are live (and match the predicate) at commit time."""
    check_owned(base.protocol, take_over=bool(prepared.context.config.get("storage.takeOver")))
    require_same_columns(prepared.mode, prepared.metadata, base.metadata, base.version)
    removes = _replaced(prepared, adds, base) if prepared.mode == "overwrite" else []
    actions: list[Action] = [*removes, *adds]
    taken = [taken_over(base.protocol)] if actions and is_foreign(base.protocol) else []
    return Draft([*taken, *actions], _metrics(removes, adds), new_paths=True)


def _replaced(prepared: PreparedWrite, adds: Sequence[Add], base: Snapshot) -> list[Remove]:
    context, task = prepared.context, prepared.task
    view = context.load(base, task.within)
    old: Iterable[Add] = view.adds(None if task.within is None else rows_of_partitions(view, task.within))
    if prepared.touched_only:
        touched = {_partition(add, task) for add in adds}
        old = [add for add in old if _partition(add, task) in touched]
    now = context.clock.now_ms()
    return [Remove.of(add, now, data_change=True) for add in old]


def _partition(add: Add, task: SplitTask) -> tuple[Scalar | None, ...]:
    """The partition of a split as typed values, since other writers may encode the same value differently."""
    values = partition_row(add.partition_values, task.settings.schema)
    return tuple(values.get(name) for name in task.settings.partition_columns)


def _metrics(removes: Sequence[Remove], adds: Sequence[Add]) -> dict[str, int]:
    return {
        "rows_written": sum(add.num_records or 0 for add in adds),
        "files_added": len(adds),
        "files_removed": len(removes),
        "bytes_added": sum(add.size for add in adds),
        "bytes_removed": sum(remove.size or 0 for remove in removes),
    }


def _check_indexing_options(context: TableContext, base: Snapshot) -> None:
    """Refuses indexing options that differ from the table's: a search would miss rows of splits that are indexed differently."""
    table = context.for_table(base).config.table
    for key, word in context.config.options.items():
        if key.startswith(COLUMN_PREFIXES) and table.get(key) != word:
            raise ConfigError(f"option {key} = {word!r} differs from the table's value, which cannot be changed after the table is created")


def _base(context: TableContext, known: Snapshot | None, create: bool) -> Snapshot | None:
    try:
        return context.newest(known)
    except TableNotFound:
        if not create:
            raise
        return None


def _create(context: TableContext, metadata: Metadata) -> Snapshot:
    """Creates the table. If another writer creates it at the same time, its table is used if it has the same schema and partitions."""
    try:
        return write_version_zero(context, metadata)
    except TableExists:
        snapshot = context.snapshot()
        other = snapshot.metadata
        if (metadata.schema_string, metadata.partition_columns) != (other.schema_string, other.partition_columns):
            raise SchemaMismatch(f"another writer created a different table at {context.root} at the same time") from None
        return snapshot


def _txn(request: Write, context: TableContext) -> Txn | None:
    if request.txn_app is None or request.txn_version is None:
        return None
    return Txn(app_id=request.txn_app, version=request.txn_version, last_updated=context.clock.now_ms())


def _partition_predicate(where: str | None, schema: pa.Schema, metadata: Metadata) -> Predicate | None:
    if where is None:
        return None
    return parse_predicate(where, schema, allowed=metadata.partition_columns, purpose="overwrite's where (partition columns only)")
