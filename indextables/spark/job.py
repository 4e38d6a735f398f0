"""The frame of every job: parses the arguments, runs the verb, prints a JSON report and returns an exit code.

The report is the last line of stdout and, with `--report FILE`, also written to that file; a failed job has one too.
docs/operations.md lists the exit codes. pyspark is imported only when the job needs Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from indextables import interrupts, logs
from indextables.atomic_file import replacing
from indextables.clock import SYSTEM_CLOCK, iso_ms
from indextables.command_line import add_arguments, add_option, options_of, request_of
from indextables.errors import ConfigError, IndexTablesError, InvalidArgument, PointedError
from indextables.operations.request import Interface, Request
from indextables.spark.session import LazySession, under_spark_submit
from indextables.startup import INTERRUPTED

if TYPE_CHECKING:
    from indextables.operations import Report
    from indextables.table import TableContext

FAILED = 1
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Job:
    verb: type[Request]
    run: Callable[[Any, TableContext, LazySession], Report]  # takes a request of the verb

    @property
    def name(self) -> str:
        return self.verb.verb_name()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidArgument(f"{message} (see {self.prog} --help)")


def run(job: Job, argv: Sequence[str] | None = None) -> int:
    """Runs the job and returns its exit code."""
    if under_spark_submit() and sys.platform.startswith("linux"):
        die_with_parent()
        redirect_stderr()
    given = list(sys.argv[1:] if argv is None else argv)
    session = LazySession(job.name)
    started = SYSTEM_CLOCK.now_ms()
    arguments: argparse.Namespace | None = None
    try:
        with interrupts.record_interrupts():
            arguments = _parser(job).parse_args(given)
            logs.configure(sys.stderr, verbose=False)
            if not _is_writable(arguments.report):
                where = "it is a folder, or its folder is missing or not writable"
                raise InvalidArgument(f"report {arguments.report!r} cannot be written: {where}")
            report = _run(job, arguments, session).to_dict()
            session.stop()
    except (Exception, KeyboardInterrupt) as error:
        arguments = arguments or _parse_leniently(given)
        return _fail(job, error, arguments, started, session)
    return _write_report(report, arguments.report, 0)


def _run(job: Job, arguments: argparse.Namespace, session: LazySession) -> Report:
    request = request_of(job.verb, arguments, Interface.JOB)
    from indextables.table import TableContext

    return job.run(request, TableContext.at(arguments.table, options_of(arguments)), session)


def _parser(job: Job) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"jobs/{job.name}.py", description=f"{job.verb.summary()}.", allow_abbrev=False)
    parser.add_argument("--table", required=True, metavar="T", help="the table's folder")
    add_arguments(parser, job.verb, Interface.JOB)
    add_option(parser, "--option")
    parser.add_argument("--report", metavar="FILE", help="also write the report to this file")
    parser.add_argument("--debug", action="store_true", help="show the trace of an error")
    return parser


def _parse_leniently(given: list[str]) -> argparse.Namespace:
    """The arguments that the report of a failure needs, even if other arguments are wrong."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--table", "--report", "--mode"):
        parser.add_argument(name, nargs="?")
    parser.add_argument("--debug", action="store_true")
    try:
        return parser.parse_known_args(given)[0]
    except (argparse.ArgumentError, SystemExit):
        return argparse.Namespace(table=None, report=None, mode=None, debug=False)


def _is_writable(report: str | None) -> bool:
    if report is None:
        return True
    folder = os.path.dirname(os.path.abspath(report))
    return bool(report) and not os.path.isdir(report) and os.path.isdir(folder) and os.access(folder, os.W_OK)


def die_with_parent() -> None:
    """Ends this process with its parent, the JVM of spark-submit: else it could commit after its job was given up and retried."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def redirect_stderr() -> None:
    """Sends our stderr to that of the JVM, if it can be opened: spark-submit would merge it into stdout, where the report belongs."""
    try:
        jvm_stderr = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return
    os.dup2(jvm_stderr, 2)
    os.close(jvm_stderr)


def _fail(job: Job, error: BaseException, arguments: argparse.Namespace, started: int, session: LazySession) -> int:
    from indextables.operations import Report, Status

    message, code, caret = _explained(error)
    if arguments.debug or not isinstance(error, IndexTablesError | KeyboardInterrupt):
        traceback.print_exception(error)
    _stop_or_warn(session)
    print(f"error: {message}", *([caret] if caret else []), sep="\n", file=sys.stderr, flush=True)
    notes = list(getattr(error, "__notes__", ()))  # such as splits left behind
    operation = job.name if job.name != "write" else "overwrite" if arguments.mode == "overwrite" else "append"
    nothing: dict[str, Any] = {"base_version": None, "version": None, "dry_run": False, "metrics": {}}
    times: dict[str, Any] = {"started_at": iso_ms(started), "duration_ms": SYSTEM_CLOCK.now_ms() - started}
    report = Report(
        operation=operation, status=Status.FAILED, table=_table_name(arguments.table), **nothing, **times, warnings=notes, error=message
    )
    return _write_report(report.to_dict(), arguments.report if _is_writable(arguments.report) else None, code)


def _explained(error: BaseException) -> tuple[str, int, str | None]:
    """The message, the exit code, and a caret under the position in a predicate if it is known."""
    from indextables.spark.failures import first_line, our_error

    if isinstance(error, KeyboardInterrupt):
        return f"interrupted{f'; {error}' if str(error) else ''}", INTERRUPTED, None
    ours = our_error(error)
    if ours is not None:
        return str(ours), ours.exit_code, ours.caret() if isinstance(ours, PointedError) else None
    return f"{type(error).__name__}: {first_line(str(error))}", FAILED, None


def _table_name(given: str | None) -> str:
    """The table as the report of a successful job would name it; only the scheme of an address that contains a credential."""
    from indextables.paths import TableRoot

    try:
        return str(TableRoot.parse(given or ""))
    except ConfigError:
        return f"{(given or '').partition(':')[0]}:…"
    except IndexTablesError:
        return given or ""


def _stop_or_warn(session: LazySession) -> None:
    try:
        session.stop()
    except Exception as error:  # the report has the earlier failure
        print(f"warning: Spark did not stop cleanly: {error}", file=sys.stderr)


def _write_report(report: dict[str, Any], path: str | None, code: int) -> int:
    """Prints the report as the last line of stdout and writes it to the file, completely or not at all; returns the exit code."""
    line = json.dumps(report, ensure_ascii=False)
    if path:
        try:
            with replacing(Path(path)) as temporary:
                temporary.write_text(line + "\n", "utf-8")
        except OSError as error:
            print(f"error: report {path!r} cannot be written: {error}", file=sys.stderr)
            code = code or FAILED
    print(line, flush=True)
    return code
