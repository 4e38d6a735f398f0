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
from indextables.errors import ConfigError
from indextables.limits import PATH_CHARACTERS
from indextables.operations import verbs
from indextables.operations.request import FLAG, Interface, Option, Request

# One transaction per run: however often a run is retried or cleared, it commits at most once. The run id is part of the application id
# because runs need not start in the order of their version (a manual run before a late scheduled one, an old run cleared), and a lower
# version would count as already committed: its data would be lost silently.
TXN_APP = "airflow:{{ dag_run.dag_id }}:{{ dag_run.run_id }}"
TXN_VERSION = "{{ (dag_run.run_after.timestamp() * 1000000) | int }}"


@dataclass(frozen=True, slots=True)
class Built:
    """The DAGs of all valid tables, and one line for each problem of the others."""

    dags: tuple[DAG, ...]
    problems: tuple[str, ...]

    def check(self) -> None:
        """Raises one error that names every problem, if there is any."""
        if self.problems:
            raise ConfigError("\n".join(self.problems))


def build_all(dags: Path, environ: Mapping[str, str] | None = None) -> Built:
    """The DAGs of the tables file that belongs to the folder `dags`; a table that Airflow itself refuses is also reported as a problem."""
    tables = load(dags, environ)
    built: list[DAG] = []
    problems = list(tables.problems)
    for table in tables.tables:
        try:
            table_dags = build(table)
            for dag in table_dags:
                dag.validate()  # Airflow does this later, and would then refuse the whole file
            built += table_dags
        except Exception as error:  # Airflow's checks, such as that of a cron expression, raise errors of any type
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
    # none_failed: a step that was skipped because there was nothing to do does not stop the next one, a failed step does.
    first, *others = verbs.MAINTENANCE
    steps = [_task(dag, table, verb.verb_name(), _arguments(verb), trigger_rule="none_failed") for verb in others]
    chain(_task(dag, table, first.verb_name(), _arguments(first)), *steps)
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
            description_md="File or folder to load; a relative path starts at the project's folder.",
        ),
        "mode": _param(verbs.Write.option("mode"), write.mode),
    }


def _arguments(verb: type[Request]) -> dict[str, Value]:
    """The arguments of a job, rendered from the parameters of the run. Empty ones are not passed."""
    arguments: dict[str, Value] = {}
    for option in verb.options(Interface.AIRFLOW):
        value = f"params.{option.name}" if option.type is FLAG else f"params.{option.name} or ''"
        arguments[option.flag(Interface.JOB).removeprefix("--")] = f"{{{{ {value} }}}}"
    return arguments


def _maintain_params(table: Table) -> dict[str, Param]:
    """A field for each option of the steps; all of them share one `dry_run`."""
    params = {
        option.name: _param(option, table.maintain.get(option.name), verb.verb_name())
        for verb in verbs.MAINTENANCE
        for option in verb.options(Interface.AIRFLOW)
        if option.type is not FLAG
    }
    dry_run = Param(False, type="boolean", title="Dry run", description_md="Every step only reports what it would do and changes nothing.")
    return {**params, "dry_run": dry_run}


def _param(option: Option, value: Any, verb: str | None = None) -> Param:
    """A field that may be empty, so that the table's own option or the default applies. Fields of one verb form a section."""
    form = {**option.type.form, "type": ["null", option.type.form["type"]]}
    if option.type.choices:
        form["enum"] = [None, *option.type.choices]
    if verb is not None:
        form["section"] = _words(verb)
    return Param(value, **form, title=_words(option.name), description_md=option.help)


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
