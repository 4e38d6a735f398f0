"""The verbs of the terminal: each builds its request from the arguments, runs it and shows the result.

Modules that a verb needs are imported when it runs: importing Arrow takes a second, which `--help` should not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from indextables import command_line
from indextables.cli import display as terminal
from indextables.command_line import AnyRequest, options_of
from indextables.errors import InvalidArgument, LogCorrupted, TableNotFound
from indextables.operations import Report, Status, unreadable
from indextables.operations import verbs as requests
from indextables.operations.request import Interface, Request

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.api import Table
    from indextables.operations import Finding
    from indextables.table import TableContext


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    run: Callable[[argparse.Namespace], int | None]  # returns the exit code; None is 0
    request: type[Request] | None = None
    about: str | None = None  # replaces the summary of the request
    without: Collection[str] = ()  # options of the request that this verb does not have
    table: Literal["required", "optional", "none"] = "required"
    argument: tuple[str, Callable[[str], Any], str] | None = None  # a positional argument that is not in the request: name, type, help
    is_versioned: bool = False  # reads older versions too: has --version and --timestamp
    shows_rows: bool = False  # has --format and --output

    @property
    def summary(self) -> str:
        return self.about or (self.request.summary() if self.request else "")


# ---- writing ------------------------------------------------------------------------------------------------------------------------


def _create(arguments: argparse.Namespace) -> None:
    from indextables.api import create_table
    from indextables.rows import open_source, schema_file

    request = _request(requests.Create, arguments)
    if request.schema is None and request.like is None:
        raise InvalidArgument("one of --schema and --like is required")
    schema = schema_file(request.schema) if request.schema else open_source(request.like or "", request.format).schema
    table = create_table(arguments.path, schema, request.partition_by or [], options_of(arguments))
    terminal.print_description(table.describe(), arguments.json)


def _write(arguments: argparse.Namespace, mode: str) -> int:
    from indextables.operations.write import commit_write, prepare_from_source, write_rows
    from indextables.rows import open_source

    request, context = _request(requests.Write, arguments, mode=mode), _context(arguments)
    source = request.source or ""

    def open_rows(schema: pa.Schema | None, warn: Callable[[str], None]) -> tuple[pa.RecordBatchReader, pa.Schema]:
        reader = open_source(source, request.format, schema, warn)
        return reader, reader.schema

    try:
        prepared, reader = prepare_from_source(request, context, open_rows, options_of(arguments))
    except TableNotFound as error:
        is_missing = not request.create and context.log.listing().is_empty
        raise TableNotFound(f"{error}; --create makes a table there" if is_missing else str(error)) from None
    if reader is None:
        return _report(commit_write(prepared, [])[0], arguments.json)
    text = f"{mode} {os.path.basename(source)}"  # short, so that the count fits on the line
    with terminal.rows_counted(text, reader, arguments.verbose) as batches:
        report, _ = write_rows(prepared, batches)
    return _report(report, arguments.json)


def _drop(arguments: argparse.Namespace) -> int:
    from indextables.operations.expire import drop

    if not arguments.confirm:
        raise InvalidArgument(f"dropping {arguments.path!r} deletes the table permanently; add --confirm to do so")
    return _report(drop(_request(requests.Drop, arguments), _context(arguments)), arguments.json)


def _drop_partitions(arguments: argparse.Namespace) -> int:
    from indextables.operations.alter import drop_partitions

    context = _context(arguments)
    report, _ = drop_partitions(_request(requests.DropPartitions, arguments), context, context.snapshot())
    return _report(report, arguments.json)


# ---- maintenance --------------------------------------------------------------------------------------------------------------------


def _merge_splits(arguments: argparse.Namespace) -> int:
    from indextables.operations.merge import merge_options, merge_splits

    request, context = _request(requests.MergeSplits, arguments), _context(arguments)
    snapshot = context.snapshot()
    with terminal.items_counted("merging splits", request.workload.threads, arguments.verbose, "groups") as executor:
        report, _ = merge_splits(request, context, snapshot, executor)
    options = merge_options(request, context.config, snapshot)
    limit = f"{options.skip_threshold:.0%} of {terminal.human('bytes', options.target_size)}"
    return _report(report, arguments.json, f"a merge takes two or more splits of one partition, each below {limit}")


def _checkpoint(arguments: argparse.Namespace) -> int:
    from indextables.operations.checkpoint import checkpoint

    return _report(checkpoint(_request(requests.Checkpoint, arguments), _context(arguments)), arguments.json)


def _purge(arguments: argparse.Namespace) -> int:
    from indextables.operations.expire import purge

    request = _request(requests.Purge, arguments)
    with terminal.items_counted("purging", request.workload.threads, arguments.verbose) as executor:
        report = purge(request, _context(arguments), executor)
    return _report(report, arguments.json, f"no split was removed more than {request.older_than} ago, and no log file has expired")


def _truncate_history(arguments: argparse.Namespace) -> int:
    from indextables.operations.expire import truncate_history

    return _report(truncate_history(_request(requests.TruncateHistory, arguments), _context(arguments)), arguments.json)


def _repair(arguments: argparse.Namespace) -> int:
    from indextables.operations.repair import repair

    request = _request(requests.Repair, arguments)
    code = _report(repair(request, arguments.path, options_of(arguments)), arguments.json)
    if not arguments.json:
        print(f"  next: move the table's _transaction_log aside and put {request.destination} in its place")
    return code


# ---- examining ----------------------------------------------------------------------------------------------------------------------


def _verify(arguments: argparse.Namespace) -> int:
    request = _request(requests.Verify, arguments)
    try:
        table = _open(arguments)
    except LogCorrupted as error:  # a finding, as in doctor
        return _findings([unreadable(str(_context(arguments).root), error)], arguments.json)
    with terminal.items_counted("verifying splits", request.workload.threads, arguments.verbose) as executor:
        findings = table.verify(request.deep, executor)
    return _findings(findings, arguments.json)


def _doctor(arguments: argparse.Namespace) -> int:
    from indextables.operations.inspect import doctor

    return _findings(doctor(_context(arguments)), arguments.json)


def _health(arguments: argparse.Namespace) -> int:
    from indextables.operations.inspect import health

    document = health(_context(arguments))
    if arguments.json:
        terminal.print_json(document)
        return 0
    findings = document.pop("findings")
    document |= {f"state {name}": value for name, value in (document.pop("state") or {"": None}).items()}
    for name, value in document.items():
        shown = terminal.human(name, value) if name.endswith("bytes") and value is not None else value
        print(f"{name.replace('_', ' '):26} {_null_of(name, document) if shown is None else shown}")
    terminal.print_findings(findings)
    return 0


def _null_of(name: str, document: Mapping[str, Any]) -> str:
    """What a null of the health document means. Versions that have expired may have had a write or a merge."""
    version = document["version"]
    if version is not None and name in ("last_checkpoint", "last_checkpoint_at") and document["last_checkpoint"] is None:
        return "none"
    if version is not None and name in ("last_write_at", "last_merge_at") and document["num_versions"] == version + 1:
        return "never"
    return "unknown"


def _describe(arguments: argparse.Namespace) -> None:
    terminal.print_description(_open(arguments).describe(), arguments.json)


def _log(arguments: argparse.Namespace) -> None:
    actions = _open(arguments, versioned=False).log.actions(arguments.version)
    if arguments.json:
        terminal.print_json_rows(actions)
        return
    for action in actions:
        terminal.print_json(action)


def _config(arguments: argparse.Namespace) -> None:
    from indextables.operations.inspect import describe_options

    table = _open(arguments).configuration if arguments.path else {}
    rows = describe_options(options_of(arguments), table)
    _rows(rows, ["key", "value", "from", "default", "type", "meaning"], arguments.json)


# ---- reading ------------------------------------------------------------------------------------------------------------------------


def _files(arguments: argparse.Namespace) -> None:
    rows = terminal.rows_of(_open(arguments).files(_request(requests.Files, arguments).where))
    _rows(rows, ["path", "num_records", "size", "partition_values", "added_at_version", "num_merge_ops"], arguments.json)


def _explain(arguments: argparse.Namespace) -> None:
    request = _request(requests.Explain, arguments)
    explanation = _open(arguments).explain(request.where, request.query).to_dict()
    terminal.print_json(explanation) if arguments.json else terminal.print_values(explanation)


def _history(arguments: argparse.Namespace) -> None:
    columns = ["version", "timestamp", "operation", "num_added", "num_removed", "rows_added", "user"]
    _rows(terminal.rows_of(_open(arguments).history()), columns, arguments.json)


def _changes(arguments: argparse.Namespace) -> None:
    request = _request(requests.Changes, arguments)
    changes = _open(arguments).changes(request.start, request.end)
    _rows(terminal.rows_of(changes), changes.schema.names, arguments.json)


def _count(arguments: argparse.Namespace) -> None:
    number = _open(arguments).count(_request(requests.Count, arguments).where)
    terminal.print_json({"count": number}) if arguments.json else print(number)


def _search(arguments: argparse.Namespace) -> None:
    request, form = _request(requests.Search, arguments), _form(arguments)
    paging = request.limit, request.order_by, request.offset, request.snippets
    terminal.show(_open(arguments).search(request.query, request.columns, request.where, *paging).to_reader(), form, arguments.output)


def _scan(arguments: argparse.Namespace) -> None:
    request, form = _request(requests.Scan, arguments), _form(arguments)
    rows = _open(arguments).scan(request.where, request.columns)
    terminal.show(terminal.first_rows(rows, request.limit), form, arguments.output)


def _aggregate(arguments: argparse.Namespace) -> None:
    form = _form(arguments)
    groups = {
        name: given
        for text in arguments.group_by or []
        for name, given in [terminal.parse_call(text, "--group-by", "NAME=FUNCTION:COLUMN:SIZE", 3) if "=" in text else (text, text)]
    }
    aggs = dict(terminal.parse_call(text, "--agg", "NAME=FUNCTION:COLUMN", 2) for text in arguments.aggs)
    request = _request(requests.Aggregate, arguments, aggs=aggs, group_by=groups or None)
    table = _open(arguments).aggregate(request.aggs, request.group_by, request.where, request.query)
    terminal.show(table.to_reader(), form, arguments.output)


def _sql(arguments: argparse.Namespace) -> None:
    from indextables.commands import sql

    form = _form(arguments)
    terminal.show(sql(arguments.command, options_of(arguments)).to_reader(), form, arguments.output)


# ---- shared -------------------------------------------------------------------------------------------------------------------------


def _request(verb: type[AnyRequest], arguments: argparse.Namespace, **overrides: Any) -> AnyRequest:
    return command_line.request_of(verb, arguments, Interface.TERMINAL, **overrides)


def _context(arguments: argparse.Namespace) -> TableContext:
    from indextables.table import TableContext

    return TableContext.at(arguments.path, options_of(arguments))


def _open(arguments: argparse.Namespace, *, versioned: bool = True) -> Table:
    from indextables.api import open_table

    version = getattr(arguments, "version", None) if versioned else None
    return open_table(arguments.path, version, getattr(arguments, "timestamp", None), options=options_of(arguments))


def _report(report: Report, as_json: bool, why_nothing: str = "") -> int:
    terminal.print_json(report.to_dict()) if as_json else terminal.print_report(report)
    if why_nothing and not as_json and report.status is Status.NO_ACTION and not report.warnings:
        print(f"  {why_nothing}")
    return 0


def _findings(findings: Sequence[Finding], as_json: bool) -> int:
    """Returns exit code 1 if a finding is an error: the table is damaged."""
    rows = [finding.to_dict() for finding in findings]
    terminal.print_json({"findings": rows}) if as_json else terminal.print_findings(rows)
    return int(any(row["severity"] == "error" for row in rows))


def _rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Prints the columns as a table, or all of them as JSON."""
    terminal.print_json_rows(rows) if as_json else terminal.print_rows(columns, rows)


def _form(arguments: argparse.Namespace) -> str:
    form: str = terminal.output_format(arguments.format or ("json" if arguments.json else None), arguments.output)
    if arguments.json and form != "json":
        raise InvalidArgument(f"--json and --format {form} cannot be combined")
    return form


VERBS = (
    Verb("create", _create, requests.Create),
    Verb("append", partial(_write, mode="append"), requests.Write, "Add the rows of a file", without=("where",)),
    Verb("overwrite", partial(_write, mode="overwrite"), requests.Write, "Replace the rows with those of a file"),
    Verb("files", _files, requests.Files, is_versioned=True),
    Verb("explain", _explain, requests.Explain, is_versioned=True),
    Verb("history", _history, requests.History),
    Verb("describe", _describe, requests.Describe, is_versioned=True),
    Verb("count", _count, requests.Count, is_versioned=True),
    Verb("changes", _changes, requests.Changes),
    Verb("log", _log, about="Print the actions of a version", argument=("VERSION", int, "number of the version")),
    Verb("config", _config, about="List every option with its value, for a table or in general", table="optional"),
    Verb("search", _search, requests.Search, is_versioned=True, shows_rows=True),
    Verb("scan", _scan, requests.Scan, is_versioned=True, shows_rows=True),
    Verb("aggregate", _aggregate, requests.Aggregate, is_versioned=True, shows_rows=True),
    Verb(
        "sql",
        _sql,
        about="Run a SQL command, such as MERGE SPLITS or DESCRIBE INDEXTABLES STATE",
        table="none",
        argument=("COMMAND", str, "such as \"MERGE SPLITS 'warehouse/logs' TARGET SIZE 100M\""),
        shows_rows=True,
    ),
    Verb("merge-splits", _merge_splits, requests.MergeSplits),
    Verb("checkpoint", _checkpoint, requests.Checkpoint),
    Verb("purge", _purge, requests.Purge),
    Verb("drop", _drop, requests.Drop),
    Verb("drop-partitions", _drop_partitions, requests.DropPartitions),
    Verb("truncate-history", _truncate_history, requests.TruncateHistory),
    Verb("verify", _verify, requests.Verify, is_versioned=True),
    Verb("doctor", _doctor, requests.Doctor),
    Verb("health", _health, requests.Health),
    Verb("repair", _repair, requests.Repair),
)
