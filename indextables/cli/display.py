"""The output of the terminal: tables and progress for people, one JSON document for programs.

Arrow and rich are imported when they are needed, so that `--help` and usage errors appear at once.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from indextables.errors import InvalidArgument
from indextables.file_formats import BINARY, FORMATS, RESULTS
from indextables.operations import ProgressThreads, Report, Threads

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

PIPE_WIDTH = 10_000  # so wide that nothing is cut off when another program reads
PAGE_ROWS = 1000  # rows laid out at a time
READABLE = 12  # minimum width of a column in characters, unless its values are shorter
_TIMESTAMP_ZONES = {"timestamp[us]": None, "timestamp[us, tz=UTC]": UTC}


def console(out: TextIO | None = None) -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1, but a reader that stops early is not a failure

    width = None if (out or sys.stdout).isatty() else PIPE_WIDTH
    return Plain(file=out, width=width, highlight=False, no_color="NO_COLOR" in os.environ or None)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO 8601, bytes in hex, decimals and non-finite numbers as text, maps as objects."""
    if isinstance(value, datetime):
        text = value.isoformat()
        return text.replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(item, tuple) for item in value)  # Arrow converts a map to a list of pairs
        return {str(plain(key)): plain(item) for key, item in value} if pairs else [plain(item) for item in value]
    return value


def rows_of(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with JSON values; maps become objects."""
    import pyarrow as pa

    maps = {f.name for f in table.schema if pa.types.is_map(f.type)}
    columns = {f.name: _python(column) for f, column in zip(table.schema, table.columns, strict=True)}
    rows = zip(*columns.values(), strict=True)
    return [{k: {} if v == [] and k in maps else plain(v) for k, v in zip(columns, row, strict=True)} for row in rows]


def _python(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values; times that Python cannot represent (before year 1, after 9999) as Arrow's text."""
    try:
        if str(column.type) not in _TIMESTAMP_ZONES:
            return list(column.to_pylist())
        # Converted here because Arrow would import pandas for it, which takes longer than a search.
        epoch = datetime(1970, 1, 1, tzinfo=_TIMESTAMP_ZONES[str(column.type)])
        return [None if value is None else epoch + timedelta(microseconds=value) for value in column.cast("int64").to_pylist()]
    except (OverflowError, ValueError):
        from indextables.values import python_value

        return [python_value(value, lambda moment: moment.cast("string").as_py()) for value in column]


def print_json(document: Any, out: TextIO | None = None) -> None:
    print(json.dumps(document, ensure_ascii=False, allow_nan=False), file=out)


def print_json_rows(rows: Iterable[dict[str, Any]], out: TextIO | None = None) -> None:
    """Prints one JSON list, row by row."""
    to = out or sys.stdout
    separator = "["
    for row in rows:
        to.write(separator + json.dumps(row, ensure_ascii=False, allow_nan=False))
        separator = ",\n"
    to.write("[]\n" if separator == "[" else "]\n")


def print_rows(names: Sequence[str], rows: Iterable[dict[str, Any]], out: TextIO | None = None) -> None:
    """Prints a table; many rows are printed as they arrive, in pages with a header each."""
    remaining = iter(rows)
    page = list(islice(remaining, PAGE_ROWS))
    if not page:
        print("no rows", file=out)
    while page:
        _print_page(names, page, out)
        page = list(islice(remaining, PAGE_ROWS))


def _print_page(names: Sequence[str], page: list[dict[str, Any]], out: TextIO | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    screen = console(out)
    cells = [[_cell(row[name]) for name in names] for row in page]
    widths = [max(len(name), *(row[at].cell_len for row in cells)) for at, name in enumerate(names)]
    if sum(min(width, READABLE) + 2 for width in widths) > screen.width:
        _print_records(screen, names, cells)
        return
    table = Table(box=SIMPLE_HEAD)
    for name in names:
        is_number = any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in page)
        table.add_column(_printable(name), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    screen.print(table)


def _print_records(screen: Console, names: Sequence[str], cells: list[list[Text]]) -> None:
    """Prints one value per line, for rows with too many columns for the width of the screen."""
    from rich.table import Table

    for row in cells:
        record = Table.grid(padding=(0, 2))
        record.add_column(style="bold", no_wrap=True)
        record.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            record.add_row(_printable(name), cell)
        screen.print(record)
        screen.print()


def _cell(value: Any) -> Text:
    from rich.text import Text

    if value is None:
        return Text("null", style="dim")
    if isinstance(value, dict):
        return Text(_printable(", ".join(f"{k}={v}" for k, v in value.items())))
    return Text(_shortened(value) if isinstance(value, float) else _printable(str(value)))


def _shortened(number: float) -> str:
    """At least six significant digits and two decimals, so that 0.00001 is not shown as zero, nor 1234567.5 with an exponent."""
    digits = max(6, len(str(int(abs(number)))) + 2) if abs(number) < 1e15 else 6
    return f"{number:.{digits}g}"


def _printable(text: str) -> str:
    """Escapes control characters, since rows come from untrusted sources; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def parse_call(text: str, option: str, shape: str, parts: int) -> tuple[str, tuple[str, ...]]:
    """The name and parts of `n=count:*` or `hour=date_histogram:ts:1h`; a column may contain colons."""
    name, equals, call = text.partition("=")
    function, colon, column = call.partition(":")
    values = (function, *(column.rsplit(":", 1) if parts == 3 else [column]))
    if not name or not equals or not colon or len(values) != parts:
        raise InvalidArgument(f"{option} {text!r} is not of the form {shape}")
    return name, values


def first_rows(reader: pa.RecordBatchReader, limit: int | None) -> pa.RecordBatchReader:
    """The first rows; batches after them are not read."""
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        left = limit
        for batch in reader:
            part = batch if left is None else batch.slice(0, left)
            yield part
            left = None if left is None else left - part.num_rows
            if left == 0:
                return

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def output_format(requested: str | None, output: str | None) -> str:
    """The format of the rows: the one requested, else the one that the suffix of the output file implies.

    A name without a suffix, such as /dev/stdout, means a text table; an unknown suffix is refused.
    """
    suffix = Path(output).suffix.lower() if output else ""
    known = FORMATS | {f".{form}": form for form in RESULTS if form != "table"} | {"": "table", ".txt": "table"}
    form = requested or known.get(suffix)
    if form is None:
        suffixes = ", ".join(sorted(known.keys() - {""}))
        raise InvalidArgument(f"--output {output!r} ends in none of {suffixes}; choose a format with --format")
    if form in BINARY and not output and sys.stdout.isatty():
        raise InvalidArgument(f"{form} cannot be shown on a terminal; write it to a file with --output FILE, or pipe it to a program")
    return form


def show(reader: pa.RecordBatchReader, form: str, output: str | None) -> None:
    """Writes rows as they arrive to stdout, or to a file that appears only when it is complete."""
    from indextables.rows import atomic_file, write_batches

    text = form in ("table", "json", "jsonl")
    stdout: Any = sys.stdout if text else sys.stdout.buffer
    opened: AbstractContextManager[Any] = atomic_file(output, text) if output else nullcontext(stdout)
    with opened as out:
        if not text:
            write_batches(reader, form, out, stream=not output)
            return
        rows = (row for batch in reader for row in rows_of(batch))
        if form == "table":
            print_rows(reader.schema.names, rows, out)
        elif form == "json":
            print_json_rows(rows, out)
        else:
            for row in rows:
                print_json(row, out)


def print_values(values: Mapping[str, Any]) -> None:
    """Prints one named value per line, without those that are None."""
    width = max(16, *map(len, values))
    for name, value in values.items():
        if value is not None:
            print(f"{name.replace('_', ' '):{width}} {human(name, value) if 'bytes' in name else value}")


def print_description(description: Mapping[str, Any], as_json: bool) -> None:
    """Prints the result of `describe`."""
    if as_json:
        print_json(description)
        return
    print_values(
        {
            **{name: description[name] for name in ("path", "version", "num_files", "num_records")},
            "size": human("bytes", description["size_bytes"]),
            "partitioned by": ", ".join(description["partition_columns"]) or "nothing",
            "columns": ", ".join(f"{field['name']} {field['type']}" for field in description["schema"]),
            "configuration": ", ".join(f"{key}={text}" for key, text in description["configuration"].items()) or "none",
        }
    )


def print_report(report: Report) -> None:
    """Prints status, version, metrics, plan and warnings."""
    from rich.text import Text

    out = console()
    colour = {"success": "green", "no_action": "dim", "partial": "yellow"}.get(str(report.status), "red")
    version = f", version {report.version}" if report.version is not None else ""
    dry = " (dry run)" if report.dry_run else ""
    out.print(Text.assemble((f"{report.status}", colour), f"  {report.operation}{dry}{version}, {report.duration_ms} ms"))
    metrics = ", ".join(f"{name.replace('_', ' ')} {human(name, value)}" for name, value in report.metrics.items() if value)
    if metrics:
        out.print(Text("  " + metrics))
    for step in report.plan or ():
        out.print(Text("  would: " + _step(step)))
    for warning in report.warnings:
        out.print(Text(f"  warning: {warning}", style="yellow"))


def print_findings(findings: Sequence[dict[str, str]]) -> None:
    from rich.text import Text

    out = console()
    colours = {"error": "red", "warning": "yellow"}
    for finding in findings:
        severity = finding["severity"]
        out.print(Text.assemble((severity, colours.get(severity, "dim")), f"  {finding['code']}: {finding['message']}"))
        out.print(Text(f"  fix: {finding['fix']}"))
    if not findings:
        print("no findings")


def _step(step: Any) -> str:
    if "sources" in step:
        where = ", ".join(f"{k}={v}" for k, v in step["partition"].items()) or "the table"
        return f"merge {len(step['sources'])} splits of {where}, {step['rows']} rows, {human('bytes', step['bytes'])}"
    size = f" ({human('bytes', step['bytes'])})" if "bytes" in step else ""
    return f"{step.get('action', 'delete')} {step['path']}{size}: {step['reason']}"


def human(name: str, value: int) -> str:
    """A number with thousands separators; bytes (by `name`) with a unit."""
    if "bytes" not in name or value < 1024:
        return f"{value:,}"
    size = float(value)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:,.1f} {unit}"
    return f"{size / 1024:,.1f} TiB"


@contextmanager
def items_counted(text: str, threads: Threads, verbose: bool, unit: str = "splits") -> Iterator[Threads | ProgressThreads]:
    """Yields the executor to work with; a terminal shows how many of its items are done."""
    with _progress(text, unit, verbose) as progress:
        if progress is None:
            yield threads
            return
        task = progress.task_ids[0]
        yield ProgressThreads(threads, lambda done, total: progress.update(task, completed=done, total=total, of=f" of {total:,}"))


@contextmanager
def rows_counted(text: str, batches: Iterable[pa.RecordBatch], verbose: bool) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yields the same batches; a terminal shows how many of their rows were read."""
    with _progress(text, "rows", verbose) as progress:

        def counted() -> Iterator[pa.RecordBatch]:
            rows = 0
            for batch in batches:
                yield batch
                rows += batch.num_rows
                if progress is not None:
                    progress.update(progress.task_ids[0], completed=rows)
            if progress is None and verbose:
                print(f"{rows} rows read", file=sys.stderr)

        yield counted()


@contextmanager
def _progress(text: str, unit: str, verbose: bool) -> Iterator[Progress | None]:
    """Shows progress on a terminal; elsewhere it is silent, or prints a line on stderr if `verbose`."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        counter = TextColumn(f"{{task.completed:,}}{{task.fields[of]}} {unit}")  # `1,200 rows`, or `3 of 12 splits`
        columns = (SpinnerColumn(), TextColumn("{task.description}"), counter, TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            progress.add_task(text, total=None, of="")
            yield progress
        return
    if verbose:
        print(f"{text} …", file=sys.stderr)
    yield None
