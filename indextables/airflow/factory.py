"""The DAGs of a table: `indextables_<name>_write` and `indextables_<name>_maintain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Param, chain

from indextables.airflow import texts
from indextables.airflow.command import Value
from indextables.airflow.operator import IndexTablesJobOperator
from indextables.airflow.tables import Table, Write, load
from indextables.config import DURATION_PATTERN, SIZE_PATTERN
from indextables.errors import ConfigError
from indextables.limits import OLDER_THAN, PATH_CHARACTERS, PREDICATE_CHARACTERS

# One transaction for each run: every try of it, also after it was cleared, commits at most once. The run is part of the application's id
# because runs need not come in the order of a number they carry (a manual one before a late scheduled one, an old one cleared), and an
# older number would be taken for done: its data would be lost in silence.
TXN_APP = "airflow:{{ dag_run.dag_id }}:{{ dag_run.run_id }}"
TXN_VERSION = "{{ (dag_run.run_after.timestamp() * 1000000) | int }}"


@dataclass(frozen=True, slots=True)
class Built:
    """The DAGs of all good tables, and one line for each problem of the others."""

    dags: tuple[DAG, ...]
    problems: tuple[str, ...]

    def check(self) -> None:
        """Raises one error that names every problem, if there is any."""
        if self.problems:
            raise ConfigError("\n".join(self.problems))


def build_all(dags: Path, environ: Mapping[str, str] | None = None) -> Built:
    """The DAGs of the tables file that belongs to the folder `dags`; a table that Airflow itself refuses is a problem like any other."""
    tables = load(dags, environ)
    built: list[DAG] = []
    problems = list(tables.problems)
    for table in tables.tables:
        try:
            made = build(table)
            for dag in made:
                dag.validate()  # Airflow does so later, and would then refuse the whole file
            built += made
        except Exception as error:  # Airflow's checks, e.g. of a cron line, raise what they like
            problems.append(f"{tables.file}: table {table.name!r}: {type(error).__name__}: {error}")
    return Built(tuple(built), tuple(problems))


def build(table: Table) -> list[DAG]:
    """The write DAG, if the table has a `write` section, and the maintenance DAG."""
    return [*([_write_dag(table, table.write)] if table.write else []), _maintain_dag(table)]


def table_asset(table: Table) -> Asset:
    """What the write DAG updates and the maintenance DAG waits for."""
    return Asset(
        name=f"indextables_{table.name}", uri=f"indextables://tables/{table.name}", group="indextables", extra={"path": table.path}
    )


def _write_dag(table: Table, write: Write) -> DAG:
    dag = _dag(table, "write", schedule=write.schedule, doc_md=texts.write_doc(table, write), params=_write_params(write))
    _task(
        dag,
        table,
        "write",
        {
            "source": "{{ params.source }}",
            "format": write.format,
            "mode": "{{ params.mode or '' }}",
            "partition-by": list(write.partition_by),
            "txn-app": TXN_APP,
            "txn-version": TXN_VERSION,
        },
        outlets=[table_asset(table)],
    )
    return dag


def _maintain_dag(table: Table) -> DAG:
    dag = _dag(table, "maintain", schedule=[table_asset(table)], doc_md=texts.maintain_doc(table), params=_maintain_params(table))
    merge: dict[str, Value] = {
        "target-size": "{{ params.target_size or '' }}",
        "where": "{{ params.where or '' }}",
        "max-dest-splits": "{{ params.max_dest_splits or '' }}",
        "max-source-splits": "{{ params.max_source_splits or '' }}",
    }
    dry_run: dict[str, Value] = {"dry-run": "{{ params.dry_run }}"}  # of every step: each would change the table
    purge: dict[str, Value] = {
        "older-than": "{{ params.older_than or '' }}",
        "log-retention": "{{ params.log_retention or '' }}",
    }
    # none_failed: a step that was skipped for want of work does not hold up the next one, a failed one does.
    chain(
        _task(dag, table, "merge_splits", merge | dry_run),
        _task(dag, table, "checkpoint", dry_run, trigger_rule="none_failed"),
        _task(dag, table, "purge", purge | dry_run, trigger_rule="none_failed"),
    )
    return dag


def _dag(table: Table, kind: str, **kwargs: Any) -> DAG:
    return DAG(
        f"indextables_{table.name}_{kind}",
        description=table.description or None,
        tags=["indextables", table.name],
        max_active_runs=1,
        catchup=False,
        is_paused_upon_creation=table.paused,
        default_args={
            "owner": table.owner,
            "retries": table.retries,
            "retry_delay": timedelta(seconds=table.retry_delay),
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(seconds=table.max_retry_delay),
            "execution_timeout": timedelta(seconds=table.timeout),
        },
        **kwargs,
    )


def _task(dag: DAG, table: Table, job: str, arguments: Mapping[str, Value], **kwargs: Any) -> IndexTablesJobOperator:
    return IndexTablesJobOperator(
        task_id=job,
        dag=dag,
        job=job,
        table=table.path,
        arguments=arguments,
        options=table.options,
        jobs_dir=table.root / "jobs",
        conn_id=table.conn_id,
        conf=dict(table.conf),
        name=f"indextables-{table.name}-{job}",
        doc_md=texts.TASKS[job],
        **kwargs,
    )


def _write_params(write: Write) -> dict[str, Param]:
    return {
        "source": Param(
            write.source,
            type="string",
            minLength=1,
            maxLength=PATH_CHARACTERS,
            pattern="^[^-~]",
            title="Source",
            description_md="File or folder to load; a relative path is taken against the project's folder.",
        ),
        "mode": Param(
            write.mode, type=["null", "string"], enum=[None, "append", "overwrite"], title="Mode", description_md="Empty: append."
        ),
    }


def _maintain_params(table: Table) -> dict[str, Param]:
    options = table.maintain
    size: dict[str, Any] = {"type": ["null", "string"], "pattern": SIZE_PATTERN}
    duration: dict[str, Any] = {"type": ["null", "string"], "pattern": DURATION_PATTERN}
    return {
        "target_size": Param(
            options.target_size,
            **size,
            title="Target size",
            description_md="Merge small splits up to this size; empty: the table's `merge.targetSize`.",
            section="Merge",
        ),
        "where": Param(
            options.where,
            type=["null", "string"],
            maxLength=PREDICATE_CHARACTERS,
            title="Only partitions where",
            description_md="SQL predicate on partition columns, e.g. `date >= '2024-01-01'`; empty: all.",
            section="Merge",
        ),
        "max_dest_splits": Param(
            options.max_dest_splits, type=["null", "integer"], minimum=1, title="Maximum number of merged splits", section="Merge"
        ),
        "max_source_splits": Param(
            options.max_source_splits, type=["null", "integer"], minimum=2, title="Maximum number of splits per merge", section="Merge"
        ),
        "older_than": Param(
            options.older_than,
            **duration,
            title="Purge splits removed longer ago than",
            description_md=f"Versions younger than this stay readable in full; empty: {OLDER_THAN}.",
            section="Purge",
        ),
        "log_retention": Param(
            options.log_retention,
            **duration,
            title="Keep history for",
            description_md="Empty: the table's `purge.txLogRetentionHours`.",
            section="Purge",
        ),
        "dry_run": Param(
            False, type="boolean", title="Dry run", description_md="Every step only reports what it would do and changes nothing."
        ),
    }
