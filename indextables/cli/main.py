"""`indextables VERB PATH [options]`: tables and progress for people, `--json` for programs.

What a verb needs is imported when it runs: Arrow and the rest take a second, and `--help` should not.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from indextables import interrupts, limits, logs
from indextables.cli import display as terminal
from indextables.errors import IndexTablesError, InvalidArgument, PointedError, TableNotFound
from indextables.file_formats import FORMATS, RESULTS
from indextables.operations import Report, Status, in_many_threads, in_threads
from indextables.startup import INTERRUPTED
from indextables.usage import Parser, add_option, names_of, options_of
from indextables.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.api import Table
    from indextables.operations import Finding


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and gives its exit code: 0 done or nothing to do, 1 failed, 2 usage, 75 try again later, 78 will never work."""
    if argv is None:
        _without_pandas()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path need not be text: it is shown escaped, as on stderr, and ends nothing
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        arguments.refuse(f"unrecognized arguments: {' '.join(unknown)}")
    # What a snapshot had to work around is worth a line for people; programs find it in the report.
    logs.configure(sys.stderr, verbose=arguments.verbose)
    try:
        with interrupts.noticed():
            code: int = arguments.run(arguments) or 0
            sys.stdout.flush()
        return code
    except IndexTablesError as error:
        return _fail(error, arguments.debug)
    except KeyboardInterrupt as interrupt:
        print(f"error: interrupted{f'; {interrupt}' if str(interrupt) else ''}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `indextables scan … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _NoPandas:
    """Arrow imports pandas, where there is one, to ask whether a value is of its: a second at the first filter, for nothing here."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the indextables command does without pandas", name=name)


def _without_pandas() -> None:
    """For a process that is this command."""
    sys.meta_path.insert(0, _NoPandas())


def _fail(error: IndexTablesError, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"error: {' '.join(str(error).splitlines())}", file=sys.stderr)  # one line, whatever it names
    if isinstance(error, PointedError) and (caret := error.caret()):
        print(caret, file=sys.stderr)
    return error.exit_code


# ---- verbs ------------------------------------------------------------------------------------------------------------------------


def _create(arguments: argparse.Namespace) -> None:
    from indextables.api import create_table
    from indextables.rows import open_source, schema_file

    schema = schema_file(arguments.schema) if arguments.schema else open_source(arguments.like, arguments.format).schema
    table = create_table(arguments.path, schema, names_of(arguments.partition_by) or [], options_of(arguments))
    terminal.print_description(table.describe(), arguments.json)


def _append(arguments: argparse.Namespace) -> int:
    return _write(arguments, "append")


def _overwrite(arguments: argparse.Namespace) -> int:
    return _write(arguments, "overwrite", arguments.where)


def _write(arguments: argparse.Namespace, mode: str, where: str | None = None) -> int:
    from indextables.operations.write import prepare_write, write_rows
    from indextables.rows import open_source
    from indextables.table import TableContext

    options = options_of(arguments)
    context = TableContext.at(arguments.path, options)
    partition_by = names_of(arguments.partition_by)
    try:
        known = None if arguments.create else context.snapshot()
    except TableNotFound as error:
        none = context.log.listing().is_empty
        raise TableNotFound(f"{error}; --create makes a table there" if none else str(error)) from None
    if known is None and not context.log.listing().is_empty:
        known = context.snapshot()
    reader = open_source(arguments.source, arguments.format, known.schema if known else None)
    prepared = prepare_write(
        context,
        reader.schema,
        mode=mode,
        where=where,
        known=known,
        txn=_txn(arguments),
        create=arguments.create,
        partition_by=partition_by,
        table_options=options,
    )
    show = terminal.Reporter(arguments.verbose)
    with show.step(f"{mode} {os.path.basename(arguments.source)}") as progress:  # short, so that the count fits on the line
        report, _ = write_rows(prepared, show.counted(reader, progress))
    return _report(report, arguments.json)


def _txn(arguments: argparse.Namespace) -> tuple[str, int] | None:
    if (arguments.txn_app is None) != (arguments.txn_version is None):
        raise InvalidArgument("--txn-app and --txn-version go together")
    return None if arguments.txn_app is None else (arguments.txn_app, arguments.txn_version)


def _files(arguments: argparse.Namespace) -> None:
    found = _open(arguments).files(arguments.where)
    _rows(found, arguments.json, ["path", "num_records", "size", "partition_values", "added_at_version", "num_merge_ops"])


def _explain(arguments: argparse.Namespace) -> None:
    found = _open(arguments).explain(arguments.where, arguments.query).to_dict()
    terminal.print_json(found) if arguments.json else terminal.print_facts(found)


def _history(arguments: argparse.Namespace) -> None:
    _rows(
        _open(arguments).history(), arguments.json, ["version", "timestamp", "operation", "num_added", "num_removed", "rows_added", "user"]
    )


def _describe(arguments: argparse.Namespace) -> None:
    terminal.print_description(_open(arguments).describe(), arguments.json)


def _search(arguments: argparse.Namespace) -> None:
    form = _form(arguments)
    found = _open(arguments).search(
        arguments.query,
        columns=names_of(arguments.columns),
        where=arguments.where,
        limit=arguments.limit,
        order_by=arguments.order_by,
        offset=arguments.offset,
        snippets=names_of(arguments.snippets),
    )
    terminal.show(found.to_reader(), form, arguments.output)


def _scan(arguments: argparse.Namespace) -> None:
    form = _form(arguments)
    if arguments.limit is not None and arguments.limit < 0:
        raise InvalidArgument(f"limit {arguments.limit} is not a whole number from 0 on")
    terminal.show(
        terminal.first_rows(_open(arguments).scan(arguments.where, names_of(arguments.columns)), arguments.limit), form, arguments.output
    )


def _count(arguments: argparse.Namespace) -> None:
    number = _open(arguments).count(arguments.where)
    terminal.print_json({"count": number}) if arguments.json else print(number)


def _aggregate(arguments: argparse.Namespace) -> None:
    form = _form(arguments)
    aggs = dict(terminal.named(text, "--agg", "NAME=FUNCTION:COLUMN", 2) for text in arguments.agg)
    groups = {
        name: given
        for text in names_of(arguments.group_by) or []
        for name, given in [terminal.named(text, "--group-by", "NAME=FUNCTION:COLUMN:SIZE", 3) if "=" in text else (text, text)]
    }
    found = _open(arguments).aggregate(aggs, groups or None, arguments.where, arguments.query)
    terminal.show(found.to_reader(), form, arguments.output)


def _sql(arguments: argparse.Namespace) -> None:
    from indextables.commands import sql

    form = _form(arguments)
    terminal.show(sql(arguments.command, options_of(arguments)).to_reader(), form, arguments.output)


def _changes(arguments: argparse.Namespace) -> None:
    _rows(_open(arguments).changes(arguments.start, arguments.end), arguments.json)


def _log(arguments: argparse.Namespace) -> None:
    actions = _open(arguments).log.actions(arguments.log_version)
    if arguments.json:
        terminal.print_json_rows(actions)
        return
    for action in actions:
        print(json.dumps(action, ensure_ascii=False))


def _config(arguments: argparse.Namespace) -> None:
    from indextables.api import open_table
    from indextables.operations.inspect import configured

    table = open_table(arguments.path, options=options_of(arguments)).configuration if arguments.path else {}
    rows = configured(options_of(arguments), table)
    if arguments.json:
        terminal.print_json_rows(rows)
        return
    terminal.print_rows(["key", "value", "from", "default", "type", "meaning"], rows)


def _merge_splits(arguments: argparse.Namespace) -> int:
    from indextables.operations.merge import merge_options, merge_splits
    from indextables.table import TableContext

    context = TableContext.at(arguments.path, options_of(arguments))
    snapshot = context.snapshot()
    wanted = arguments.target_size, arguments.where, arguments.max_dest_splits, arguments.max_source_splits, arguments.dry_run
    with terminal.Reporter(arguments.verbose).counting("merging splits", in_threads, "groups") as executor:
        report, _ = merge_splits(context, snapshot, *wanted, executor)
    options = merge_options(context.config, snapshot, arguments.target_size)
    small = f"{options.skip_threshold:.0%} of {terminal.human('bytes', options.target_size)}"
    return _report(report, arguments.json, f"a merge takes two or more splits of one partition, each below {small}")


def _checkpoint(arguments: argparse.Namespace) -> int:
    return _report(_open(arguments).checkpoint(arguments.dry_run), arguments.json)


def _purge(arguments: argparse.Namespace) -> int:
    from indextables.operations.expire import purge
    from indextables.table import TableContext

    context = TableContext.at(arguments.path, options_of(arguments))
    with terminal.Reporter(arguments.verbose).counting("purging", in_many_threads) as executor:
        report = purge(context, arguments.older_than, arguments.log_retention, arguments.dry_run, executor)
    return _report(report, arguments.json, f"no split has been dead for {arguments.older_than}, no file of the log is past its retention")


def _drop(arguments: argparse.Namespace) -> int:
    from indextables.api import drop_table

    if not arguments.confirm:
        raise InvalidArgument(f"dropping {arguments.path!r} deletes the table for good; add --confirm if that is wanted")
    return _report(drop_table(arguments.path, confirm=arguments.confirm, options=options_of(arguments)), arguments.json)


def _drop_partitions(arguments: argparse.Namespace) -> int:
    return _report(_open(arguments).drop_partitions(arguments.where), arguments.json)


def _truncate_history(arguments: argparse.Namespace) -> int:
    return _report(_open(arguments).truncate_history(arguments.dry_run), arguments.json)


def _repair(arguments: argparse.Namespace) -> int:
    from indextables.api import repair_log

    code = _report(repair_log(arguments.path, arguments.destination, options_of(arguments)), arguments.json)
    if not arguments.json:
        print(f"  next: move the table's _transaction_log away, and {arguments.destination} into its place")
    return code


def _verify(arguments: argparse.Namespace) -> int:
    table = _open(arguments)
    with terminal.Reporter(arguments.verbose).counting("verifying splits", in_threads) as executor:
        found = table.verify(arguments.deep, executor)
    return _findings(found, arguments.json)


def _doctor(arguments: argparse.Namespace) -> int:
    from indextables.operations.inspect import doctor
    from indextables.table import TableContext

    return _findings(doctor(TableContext.at(arguments.path, options_of(arguments))), arguments.json)


def _health(arguments: argparse.Namespace) -> int:
    from indextables.operations.inspect import health
    from indextables.table import TableContext

    document = health(TableContext.at(arguments.path, options_of(arguments)))
    if arguments.json:
        terminal.print_json(document)
        return 0
    findings = document.pop("findings")
    document |= {f"state {name}": value for name, value in (document.pop("state") or {"": None}).items()}
    for name, value in document.items():
        shown = terminal.human(name, value) if name == "size_bytes" and value is not None else value
        print(f"{name.replace('_', ' '):26} {'unknown' if shown is None else shown}")
    terminal.print_findings(findings)
    return 0


# ---- shared ------------------------------------------------------------------------------------------------------------------------


def _open(arguments: argparse.Namespace) -> Table:
    from indextables.api import open_table

    return open_table(
        arguments.path, getattr(arguments, "version", None), getattr(arguments, "timestamp", None), options=options_of(arguments)
    )


def _report(report: Report, as_json: bool, why_nothing: str = "") -> int:
    terminal.print_json(report.to_dict()) if as_json else terminal.print_report(report)
    if why_nothing and not as_json and report.status is Status.NO_ACTION and not report.warnings:
        print(f"  {why_nothing}")
    return 0


def _findings(findings: Sequence[Finding], as_json: bool) -> int:
    """Exit code 1 where one of them is an error: the table is damaged."""
    rows = [finding.to_dict() for finding in findings]
    terminal.print_json({"findings": rows}) if as_json else terminal.print_findings(rows)
    return int(any(row["severity"] == "error" for row in rows))


def _rows(table: pa.Table, as_json: bool, columns: Sequence[str] | None = None) -> None:
    rows = terminal.rows_of(table)
    if as_json:
        terminal.print_json_rows(rows)
    else:
        terminal.print_rows(columns or table.schema.names, rows)


def _form(arguments: argparse.Namespace) -> str:
    form: str = terminal.form_of(arguments.format or ("json" if arguments.json else None), arguments.output)
    if arguments.json and form != "json":
        raise InvalidArgument(f"--json and --format {form} do not go together")
    return form


# ---- arguments ---------------------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    about = "Search and keep tables: an open table format for full-text search on Spark."
    parser = Parser(prog="indextables", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"indextables {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)

    def verb(name: str, run: Callable[[argparse.Namespace], int | None], help_text: str, *, reads: bool = False) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".", allow_abbrev=False)
        if name != "sql":  # the command names the table
            made.add_argument("path", metavar="PATH", nargs="?" if name == "config" else None, help="the table's folder")
        made.set_defaults(run=run, refuse=made.error)
        if reads:
            made.add_argument("--version", type=int, metavar="N", help="read this version instead of the newest")
            made.add_argument("--timestamp", metavar="TIME", help="read the table as of this time (ISO 8601, UTC without a zone)")
        add_option(made, "-o", "--option")
        made.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else there")
        made.add_argument("--verbose", action="store_true", help="say what is being done, also where stderr is no terminal")
        made.add_argument("--debug", action="store_true", help="show the trace of an error")
        return made

    _add_writing(verb)
    _add_reading(verb)
    _add_maintenance(verb)
    return parser


CSV = "a csv file begins with a line of column names, separated by commas: a number, a time, an empty or a repeated cell in it is refused"


def _add_writing(verb: Callable[..., argparse.ArgumentParser]) -> None:
    create = verb("create", _create, "make an empty table")
    kind = create.add_mutually_exclusive_group(required=True)
    kind.add_argument("--schema", metavar="FILE", help="the schema as Spark's JSON (df.schema.json())")
    kind.add_argument("--like", metavar="FILE", help=f"take the schema of this parquet, csv or jsonl file; {CSV}")
    create.add_argument("--partition-by", metavar="A,B", help="partition columns")
    create.add_argument("--format", choices=sorted(set(FORMATS.values())), help="of --like, where its name does not say")
    for name, run, help_text in (
        ("append", _append, "add the rows of a file"),
        ("overwrite", _overwrite, "replace the rows by those of a file"),
    ):
        made = verb(name, run, help_text)
        made.add_argument(
            "source", metavar="FILE", help=f"parquet, csv or jsonl; - reads standard input, and tells by its beginning which it is; {CSV}"
        )
        made.add_argument("--format", choices=sorted(set(FORMATS.values())), help="where the file's name does not say")
        made.add_argument(
            "--create",
            action="store_true",
            help="make the table with the file's schema if there is none; a csv or jsonl column without values is a string",
        )
        made.add_argument("--partition-by", metavar="A,B", help="with --create: partition columns")
        made.add_argument("--txn-app", metavar="A", help="with --txn-version: write once under this name and number, however often retried")
        made.add_argument("--txn-version", type=int, metavar="N", help="the number")
        if name == "overwrite":
            made.add_argument("--where", metavar="PREDICATE", help="replace only the partitions it names")


def _add_reading(verb: Callable[..., argparse.ArgumentParser]) -> None:
    where: dict[str, Any] = {"metavar": "PREDICATE", "help": "SQL predicate, such as \"level = 'ERROR' AND date >= '2024-01-01'\""}
    verb("files", _files, "list the live splits", reads=True).add_argument("--where", **where)
    explain = verb("explain", _explain, "say how many splits a filter would read, and what leaves out the others", reads=True)
    explain.add_argument("--where", **where)
    explain.add_argument("--query", metavar="QUERY", help="as for search: checked, and opens every split that remains")
    verb("history", _history, "list the versions, newest first")
    verb("describe", _describe, "say what the table is", reads=True)
    verb("count", _count, "count rows", reads=True).add_argument("--where", **where)
    changes = verb("changes", _changes, "list the splits that came and went between two versions")
    changes.add_argument("--start", type=int, default=-1, metavar="N", help="after this version (from the first)")
    changes.add_argument("--end", type=int, metavar="N", help="up to and with this version (the newest)")
    verb("log", _log, "print the actions of a version").add_argument("log_version", type=int, metavar="VERSION", help="its number")
    verb("config", _config, "list every option with the value in force, of a table or in general")
    search = verb("search", _search, "find the best rows for a query", reads=True)
    search.add_argument("query", metavar="QUERY", help='such as "connection AND refused" or "message:(timeout OR refused)"')
    scan = verb("scan", _scan, "show rows", reads=True)
    aggregate = verb("aggregate", _aggregate, "count, add up and compare, by groups", reads=True)
    aggregate.add_argument(
        "--agg", action="append", required=True, metavar="NAME=FUNCTION:COLUMN", help="such as n=count:* or slow=max:latency_ms; any number"
    )
    aggregate.add_argument("--group-by", metavar="A,B", help="columns, or hour=date_histogram:ts:1h, or ms=histogram:latency_ms:100")
    aggregate.add_argument("--query", metavar="QUERY", help="only rows that a search finds")
    sql = verb("sql", _sql, "run a SQL command, such as MERGE SPLITS or DESCRIBE INDEXTABLES STATE")
    sql.add_argument("command", metavar="COMMAND", help="such as \"MERGE SPLITS 'warehouse/logs' TARGET SIZE 100M\"")
    for made in (search, scan, aggregate):
        made.add_argument("--where", **where)
    for made in (search, scan, aggregate, sql):
        made.add_argument("--format", choices=RESULTS, help="table unless the name of the output file says something else")
        made.add_argument("--output", metavar="FILE", help="write there instead of to stdout")
    for made in (search, scan):
        made.add_argument("--columns", metavar="A,B", help="only these columns")
    search.add_argument("--snippets", metavar="A,B", help="show the best piece of these columns with the words found")
    search.add_argument("--limit", type=int, default=10, metavar="N", help="how many rows (10)")
    search.add_argument("--offset", type=int, default=0, metavar="N", help="how many of the best rows to pass over (0)")
    search.add_argument("--order-by", metavar="COLUMN", help='a column instead of the score; "ts desc" for the other way')
    scan.add_argument("--limit", type=int, metavar="N", help="stop after this many rows")


def _add_maintenance(verb: Callable[..., argparse.ArgumentParser]) -> None:
    merge = verb("merge-splits", _merge_splits, "turn small splits into large ones")
    merge.add_argument("--target-size", metavar="SIZE", help="how large a merged split may be, such as 100M (5G)")
    merge.add_argument("--where", metavar="PREDICATE", help="only these partitions")
    merge.add_argument("--max-dest-splits", type=int, metavar="N", help="make at most this many splits")
    merge.add_argument("--max-source-splits", type=int, metavar="N", help="merge at most this many splits into one (1000)")
    checkpoint = verb("checkpoint", _checkpoint, "write the table's state into one file, for fast reading")
    purge = verb("purge", _purge, "delete what has been dead for long enough")
    purge.add_argument(
        "--older-than", default=limits.OLDER_THAN, metavar="DURATION", help=f"keep what was live within this time ({limits.OLDER_THAN})"
    )
    purge.add_argument("--log-retention", metavar="DURATION", help="keep version files this long (purge.txLogRetentionHours: 30d)")
    drop = verb("drop", _drop, "delete the table for good, with its log and splits")
    drop.add_argument("--confirm", action="store_true", help="yes, delete it")
    drop_partitions = verb("drop-partitions", _drop_partitions, "remove whole partitions from the table")
    drop_partitions.add_argument("--where", required=True, metavar="PREDICATE", help="which ones; partition columns only")
    truncate = verb(
        "truncate-history", _truncate_history, "leave only the newest version in the log, so that older ones can no longer be read"
    )
    verb("verify", _verify, "compare every split with the log and its checksums", reads=True).add_argument(
        "--deep", action="store_true", help="decode all rows, too"
    )
    verb("doctor", _doctor, "say what is wrong with the table, and what mends it; changes nothing")
    verb("health", _health, "the doctor's findings and the table's figures")
    repair = verb("repair", _repair, "write a new log of the splits that are valid; the table stays as it is")
    repair.add_argument(
        "destination",
        metavar="DESTINATION",
        help="the folder for the new log; missing or empty. "
        "To use it, move the table's _transaction_log away, and this folder into its place",
    )
    for made in (merge, checkpoint, purge, truncate):
        made.add_argument("--dry-run", action="store_true", help="only say what would be done")


if __name__ == "__main__":
    sys.exit(main())
