"""Create: commits version 0 with the protocol and the metadata of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables import interrupts
from indextables.actions import Action, Metadata
from indextables.config import PREFIX, Config, table_options
from indextables.errors import SchemaMismatch, TableExists
from indextables.predicates import has_keys
from indextables.schema import canonical_schema, to_spark_json
from indextables.splits import DocMapping
from indextables.table import CURRENT, WITH_STATES, Snapshot, TableContext, snapshot_after_commit


def new_metadata(context: TableContext, schema: pa.Schema, partition_by: Sequence[str], options: Mapping[str, Any]) -> Metadata:
    """The metadata of a new table. Raises on an invalid schema, partitioning or option before anything is written."""
    columns = canonical_schema(schema)
    _check_partition_columns(columns, partition_by)
    configuration = table_options(options)
    config = Config.of(configuration)
    DocMapping.of_config(config, columns, partition_by)
    return Metadata(
        id=context.clock.new_id(),
        schema_string=to_spark_json(columns),
        partition_columns=list(partition_by),
        configuration={PREFIX + name: text for name, text in configuration.items()},
        created_time=context.clock.now_ms(),
    )


def write_version_zero(context: TableContext, metadata: Metadata) -> Snapshot:
    """Creates the table. TableExists if there is a table or a remnant of a log; nothing is written then (INI-03)."""
    config = Config.of(context.config.options, metadata.configuration)
    protocol = WITH_STATES if config.get("state.format") == "avro" else CURRENT
    compress = bool(config.get("transaction.compression.enabled"))
    actions: list[Action] = [protocol, metadata]
    with interrupts.defer_interrupts() as versions:
        is_made = context.log.listing().is_empty and context.log.write(0, actions, compress=compress)
        if is_made:
            versions.append(0)
    if not is_made:
        raise TableExists(f"a table already exists at {context.root}")
    return snapshot_after_commit(context.log, None, 0, actions)


def _check_partition_columns(schema: pa.Schema, partition_by: Sequence[str]) -> None:
    missing = [name for name in partition_by if name not in schema.names]
    if missing:
        raise SchemaMismatch(f"partition columns {', '.join(missing)} not found in schema; it has {', '.join(schema.names)}")
    for name in partition_by:
        if not has_keys(schema.field(name).type):
            raise SchemaMismatch(f"column {name!r} of type {schema.field(name).type} cannot be a partition column")
    if len(set(partition_by)) < len(partition_by):
        raise SchemaMismatch(f"partition columns {', '.join(partition_by)} contain a column twice")
    if len(partition_by) == len(schema.names):
        raise SchemaMismatch("a table needs at least one column that is not a partition column")
