"""`make demo`: Airflow writes logs with Spark and maintains their table, then a search finds lines in it.

Nothing is simulated and nothing is left running: the DAGs run in this process (`dag.test()`), and each step is a spark-submit.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from indextables.airflow.local.demo_logs import write_batches
from indextables.airflow.local.settings import airflow_environment
from indextables.api import open_table
from indextables.cli.display import human
from indextables.errors import ConfigError, IndexTablesError
from indextables.limits import OLDER_THAN

TABLE = "demo_logs"
WRITE, MAINTAIN = f"indextables_{TABLE}_write", f"indextables_{TABLE}_maintain"
QUERY = "connection AND (refused OR timed) AND NOT payments"
BATCHES, ROWS, DAYS = 4, 5_000, 3


class DemoFailed(IndexTablesError):
    """A DAG run did not succeed."""


def main() -> int:
    try:
        run(Path.cwd())
    except IndexTablesError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nerror: interrupted", file=sys.stderr)
        return 130
    return 0


def run(root: Path) -> None:
    started = time.monotonic()
    if not (root / "dags" / "tables.yaml").is_file():
        raise ConfigError(f"there is no dags/tables.yaml in {str(root)!r}; run this from the project's folder")
    home = root / ".airflow" / "demo"
    log = home / "demo.log"
    # Must precede the import of Airflow, which reads its settings then.
    os.environ.update(airflow_environment(home, root=root))
    log.unlink(missing_ok=True)
    say(f"IndexTables demo: {BATCHES} deliveries of {ROWS:,} log lines, written and maintained by Airflow and Spark.")
    say(f"The output of Airflow and Spark goes to {log.relative_to(root)}\n")
    path = _clear(root / "warehouse" / TABLE, root)
    batches = write_batches(root / "warehouse" / "incoming" / TABLE, BATCHES, ROWS, DAYS)
    with step("start Airflow with SQLite", log):
        dags = _dags(root)
    for number, batch in enumerate(batches, start=1):
        with step(f"{WRITE}, delivery {number} of {BATCHES}", log):
            _run_dag(dags[WRITE], {"source": str(batch)}, log)
    before = _figures(path)
    with step(f"{MAINTAIN}: merge splits, checkpoint, purge", log):
        states = _run_dag(dags[MAINTAIN], {}, log)
    say("     " + ", ".join(f"{task} {state}" for task, state in states.items()))
    say(f"     (purge keeps what was live in the last {OLDER_THAN}, so it has nothing to do yet and every version can be read)\n")
    _show_table(path, before, _figures(path))
    _show_search(path)
    _show_next_steps(path.relative_to(root), time.monotonic() - started)


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def step(text: str, log: Path) -> Iterator[None]:
    """Prints a step and how long it took; other output during the step goes to the log."""
    line_start = "\r" if sys.stdout.isatty() else "\n"  # on a terminal the line is overwritten
    print(f"  …  {text}", end="", flush=True)
    started = time.monotonic()
    try:
        with _captured(log):
            yield
    except BaseException:
        print(f"{line_start}  ✗  {text}", flush=True)
        raise
    print(f"{line_start}  ✓  {text} ({time.monotonic() - started:.0f} s)", flush=True)


@contextmanager
def _captured(log: Path) -> Iterator[None]:
    """Redirects the file descriptors, so that output of child processes and of loggers is captured too."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, number in zip(saved, (1, 2), strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _clear(path: Path, root: Path) -> Path:
    """Removes the table of an earlier demo; a table with more rows than a demo writes is renamed instead."""
    if (path / "_transaction_log").is_dir():
        if _is_only_demo(path):
            say(f"     (removing {path.relative_to(root)}, left by an earlier demo)")
            shutil.rmtree(path)
        else:
            renamed = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}")
            path.rename(renamed)
            say(f"     ({path.relative_to(root)} has more rows than the demo writes: renamed to {renamed.relative_to(root)})")
    return path


def _is_only_demo(path: Path) -> bool:
    try:
        history = open_table(path).history().to_pylist()
    except IndexTablesError:
        return False
    return sum(int(entry["rows_added"]) for entry in history if entry["operation"] == "append") <= BATCHES * ROWS


def _dags(root: Path) -> dict[str, Any]:
    """Creates Airflow's database and loads the project's DAGs, by id."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils import db

    db.initdb()
    bag = DagBag(str(root / "dags"))
    for dag_id in (WRITE, MAINTAIN):
        if dag_id not in bag.dags:
            errors = " ".join(str(text).strip().splitlines()[-1] for text in bag.import_errors.values())
            message = f"dags/tables.yaml defines no DAG {dag_id!r}; the demo needs the original entry of the table {TABLE!r}. {errors}"
            raise ConfigError(message.strip())
    return dict(bag.dags)


def _run_dag(dag: Any, conf: dict[str, Any], log: Path) -> dict[str, str]:
    """Runs a DAG to its end; returns the states of its tasks in order."""
    run = dag.test(run_conf=conf)
    states = {task.task_id: str(task.state) for task in sorted(run.get_task_instances(), key=lambda t: t.start_date)}
    if str(run.state) != "success":
        failed = ", ".join(f"{task} {state}" for task, state in states.items() if state not in ("success", "skipped"))
        raise DemoFailed(f"{dag.dag_id} did not succeed ({failed}); see {log}")
    return states


def _figures(path: Path) -> dict[str, Any]:
    """The figures of `indextables health`, under readable names."""
    health = open_table(path).health()
    shown = {
        "version": "version", "num_records": "rows", "num_files": "live splits", "size_bytes": "live bytes",
        "num_small_files": "small splits", "num_dead_files": "dead splits", "dead_bytes": "dead bytes",
        "versions_since_checkpoint": "since checkpoint", "status": "health",
    }  # fmt: skip
    findings = ", ".join(finding["code"] for finding in health["findings"]) or "none"
    return {name: health[key] for key, name in shown.items()} | {"findings": findings}


def _show_table(path: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    say(f"{TABLE:<18}{'before':>14}{'after maintenance':>20}")
    for name, old in before.items():
        was, now = (value if isinstance(value, str) else human(name, value) for value in (old, after[name]))
        say(f"  {name:<16}{was:>14}{now:>20}")
    say("\nversions")
    for entry in reversed(open_table(path).history().to_pylist()):
        version = open_table(path, version=entry["version"])
        rows = sum(batch.num_rows for batch in version.scan(columns=["ts"]))  # counted, not taken from the log
        changed = f"{entry['num_added']:>3} splits added, {entry['num_removed']:>2} removed"
        say(f"  {entry['version']:>3}  {entry['operation']:<14}{changed}, {rows:>6,} rows")


def _show_search(path: Path) -> None:
    table = open_table(path)
    started = time.perf_counter()
    hits = table.search(QUERY, columns=["ts", "service", "message"], limit=5)
    took = (time.perf_counter() - started) * 1000
    say(f"\nsearch {QUERY!r}: the best {hits.num_rows} of {table.count():,} lines in {took:.0f} ms")
    for hit in hits.to_pylist():
        say(f"  {hit['_score']:6.2f}  {hit['ts']:%Y-%m-%d %H:%M:%S}  {hit['service']:<10} {hit['message']}")


def _show_next_steps(path: Path, seconds: float) -> None:
    say(f"\nDone in {seconds:.0f} s. Next steps:")
    for command, meaning in (
        (f".venv/bin/indextables search {path} '{QUERY}'", "search it yourself"),
        (f".venv/bin/indextables history {path}", "every commit and who made it"),
        (f".venv/bin/indextables health {path} --json", "its figures and findings, for dashboards"),
        ("make up", "these DAGs in Airflow's UI"),
        ("dags/tables.yaml", "add your own tables here"),
    ):
        say(f"  {command}\n      {meaning}")


if __name__ == "__main__":
    sys.exit(main())
