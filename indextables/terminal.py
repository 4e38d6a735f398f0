"""How the terminal shows things: tables and progress for people, one JSON document for programs.

Arrow and rich are imported when they are needed: `--help` and usage errors come at once.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from indextables.operations.report import Report

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

PIPE_WIDTH = 10_000  # nothing is cut off when another program reads


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO 8601, what is no number by its name."""
    if isinstance(value, datetime):
        text = value.isoformat()
        return text.replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def rows_of(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with JSON values; maps become objects."""
    import pyarrow as pa

    maps = {f.name for f in table.schema if pa.types.is_map(f.type)}
    columns = {f.name: _python(column) for f, column in zip(table.schema, table.columns, strict=True)}
    rows = zip(*columns.values(), strict=True)
    return [{k: dict(v or ()) if k in maps else plain(v) for k, v in zip(columns, row, strict=True)} for row in rows]


def _python(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values; times that Python has no room for (before year 1, after 9999) as Arrow writes them."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = [_python_value(value) for value in column]
    return values


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return value.cast("string").as_py()


def print_json(document: Any) -> None:
    print(json.dumps(document, ensure_ascii=False, allow_nan=False))


def print_json_rows(rows: Iterable[dict[str, Any]]) -> None:
    """One list, written as it comes."""
    separator = "["
    for row in rows:
        sys.stdout.write(separator + json.dumps(row, ensure_ascii=False, allow_nan=False))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[" else "]\n")


def print_rows(names: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    kept = list(rows)
    if not kept:
        print("no rows")
        return
    table = Table(box=SIMPLE_HEAD)
    for name in names:
        number = any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in kept)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in kept:
        table.add_row(*(_cell(row[name]) for name in names))
    console().print(table)


def _cell(value: Any) -> Text:
    from rich.text import Text

    if value is None:
        return Text("null", style="dim")
    if isinstance(value, dict):
        return Text(", ".join(f"{k}={v}" for k, v in value.items()))
    return Text(f"{value:.4f}" if isinstance(value, float) else str(value))


def print_report(report: Report) -> None:
    """Status, version and what was counted, on a few lines."""
    from rich.text import Text

    out = console()
    colour = {"success": "green", "no_action": "dim", "partial": "yellow"}.get(str(report.status), "red")
    version = f", version {report.version}" if report.version is not None else ""
    dry = " (dry run)" if report.dry_run else ""
    out.print(Text.assemble((f"{report.status}", colour), f"  {report.operation}{dry}{version}, {report.duration_ms} ms"))
    counted = ", ".join(f"{name.replace('_', ' ')} {human(name, value)}" for name, value in report.metrics.items() if value)
    if counted:
        out.print(Text("  " + counted))
    for step in report.plan or ():
        out.print(Text("  would: " + _step(step)))
    for warning in report.warnings:
        out.print(Text(f"  warning: {warning}", style="yellow"))


def _step(step: Any) -> str:
    if "sources" in step:
        where = ", ".join(f"{k}={v}" for k, v in step["partition"].items()) or "the table"
        return f"merge {len(step['sources'])} splits of {where}, {step['rows']} rows, {human('bytes', step['bytes'])}"
    return f"delete {step['path']} ({human('bytes', step['bytes'])}): {step['reason']}"


def human(name: str, value: int) -> str:
    """Bytes with a unit; other numbers as they are."""
    if "bytes" not in name or value < 1024:
        return f"{value:,}"
    size = float(value)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:,.1f} {unit}"
    return f"{size / 1024:,.1f} TiB"


class Reporter:
    """Progress on a terminal; elsewhere silent, or lines on stderr if asked for."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose

    @contextmanager
    def step(self, text: str) -> Iterator[Progress | None]:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,} rows"), TimeElapsedColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
                progress.add_task(text, total=None)
                yield progress
            return
        if self._verbose:
            print(f"{text} …", file=sys.stderr)
        yield None

    def counted(self, batches: Iterable[pa.RecordBatch], progress: Progress | None) -> Iterator[pa.RecordBatch]:
        """The same batches, with the rows counted on the way."""
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if progress is not None:
                progress.update(progress.task_ids[0], completed=rows)
        if progress is None and self._verbose:
            print(f"{rows} rows read", file=sys.stderr)
