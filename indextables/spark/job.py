"""What all jobs share: arguments in, one call, one JSON report out, an exit code.

The report is the last line of stdout and, with `--report FILE`, in that file; a failed job has one too. Exit codes: 0 done or nothing to
do, 1 failed, 2 usage, 75 try again later, 78 will never work as asked. pyspark is not imported before a job is sure to need it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from indextables import interrupts, logs
from indextables.clock import SYSTEM_CLOCK
from indextables.errors import IndexTablesError, InvalidArgument, PointedError
from indextables.operations.request import Interface, Request
from indextables.spark.session import LazySession, under_spark_submit
from indextables.startup import INTERRUPTED
from indextables.usage import add_arguments, add_option, options_of, request_of

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
        return self.verb.verb()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidArgument(f"{message} (see {self.prog} --help)")


def main(job: Job, argv: Sequence[str] | None = None) -> int:
    """Runs the job and gives its exit code."""
    if under_spark_submit() and sys.platform.startswith("linux"):
        die_with_parent()
        own_stderr()
    given = list(sys.argv[1:] if argv is None else argv)
    session = LazySession(job.name)
    # What must be known even if the arguments are wrong: where to report, and what table it is about.
    known = _shared(argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False))
    started = SYSTEM_CLOCK.now_ms()
    arguments: argparse.Namespace | None = None
    try:
        with interrupts.record_interrupts():
            arguments = _parser(job).parse_args(given)
            logs.configure(sys.stderr, verbose=False)
            check_report_path(arguments.report)
            report = _run(job, arguments, session).to_dict()
            session.stop()
    except (Exception, KeyboardInterrupt) as error:
        arguments = arguments or _leniently(known, given)
        return _fail(job, error, arguments, started, session)
    return _tell(report, arguments.report, 0)


def _run(job: Job, arguments: argparse.Namespace, session: LazySession) -> Report:
    request = request_of(job.verb, arguments, Interface.JOB)
    from indextables.table import TableContext

    return job.run(request, TableContext.at(arguments.table, options_of(arguments)), session)


def _parser(job: Job) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"jobs/{job.name}.py", description=f"{job.verb.summary()}.", allow_abbrev=False)
    parser.add_argument("--table", required=True, metavar="T", help="the table's folder")
    add_arguments(parser, job.verb, Interface.JOB)
    add_option(parser, "--option")
    parser.add_argument("--report", metavar="FILE", help="write the report there too")
    parser.add_argument("--debug", action="store_true", help="show the trace of an error")
    return parser


def _shared(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--table", nargs="?")
    parser.add_argument("--report", nargs="?")
    parser.add_argument("--mode", nargs="?")
    parser.add_argument("--debug", action="store_true")
    return parser


def _leniently(known: argparse.ArgumentParser, given: list[str]) -> argparse.Namespace:
    try:
        return known.parse_known_args(given)[0]
    except (argparse.ArgumentError, SystemExit):
        return argparse.Namespace(table=None, report=None, mode=None, debug=False)


def check_report_path(given: str | None) -> None:
    """InvalidArgument if no report could be written there."""
    if given is None:
        return
    folder = os.path.dirname(os.path.abspath(given))
    if not given or os.path.isdir(given) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise InvalidArgument(f"report {given!r} cannot be written: it is a folder, or its folder is missing or not writable")


def die_with_parent() -> None:
    """Under spark-submit this process is a child of the JVM. One that outlived it could commit after its job was given up and retried."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def own_stderr() -> None:
    """spark-submit sends a driver's stderr to stdout, where the report belongs: ours goes to the JVM's stderr, where that can be opened."""
    try:
        theirs = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return
    os.dup2(theirs, 2)
    os.close(theirs)


def _fail(job: Job, error: BaseException, arguments: argparse.Namespace, started: int, session: LazySession) -> int:
    from indextables.operations import Status, reporter

    message, code, caret = _explained(error)
    if arguments.debug or not isinstance(error, IndexTablesError | KeyboardInterrupt):
        traceback.print_exception(error)
    _stop_quietly(session)
    failed = reporter(_operation(job, arguments), _table_name(arguments.table), replace(SYSTEM_CLOCK, now_ms=_Moments(started)))
    print(f"error: {message}", *([caret] if caret else []), sep="\n", file=sys.stderr, flush=True)
    notes = list(getattr(error, "__notes__", ()))  # such as splits that stay behind
    return _tell(failed(Status.FAILED, {}, base_version=None, error=message, warnings=notes).to_dict(), _usable(arguments.report), code)


class _Moments:
    """A clock that begins when the job did."""

    def __init__(self, started: int) -> None:
        self.first: int | None = started

    def __call__(self) -> int:
        moment, self.first = self.first, None
        return SYSTEM_CLOCK.now_ms() if moment is None else moment


def _operation(job: Job, arguments: argparse.Namespace) -> str:
    """Writes are reported under their mode."""
    if job.name != "write":
        return job.name
    return "overwrite" if arguments.mode == "overwrite" else "append"


def _usable(report: str | None) -> str | None:
    try:
        check_report_path(report)
    except InvalidArgument:
        return None
    return report


def _explained(error: BaseException) -> tuple[str, int, str | None]:
    """One sentence, the exit code, and the place in a predicate where it is known."""
    from indextables.spark.failures import first_line, our_error

    if isinstance(error, KeyboardInterrupt):
        return f"interrupted{f'; {error}' if str(error) else ''}", INTERRUPTED, None
    ours = our_error(error)
    if ours is not None:
        return str(ours), ours.exit_code, ours.caret() if isinstance(ours, PointedError) else None
    return f"{type(error).__name__}: {first_line(str(error))}", FAILED, None


def _table_name(given: str | None) -> str:
    """As a report of success would call it."""
    from indextables.paths import TableRoot

    try:
        return str(TableRoot.parse(given or ""))
    except IndexTablesError:
        return given or ""


def _stop_quietly(session: LazySession) -> None:
    try:
        session.stop()
    except Exception as error:  # the failure to report is the one that came before
        print(f"warning: Spark did not stop cleanly: {error}", file=sys.stderr)


def _tell(report: dict[str, Any], path: str | None, code: int) -> int:
    """The report as the last line of stdout and, whole or not at all, in the file."""
    line = json.dumps(report, ensure_ascii=False)
    if path:
        try:
            _replace(Path(path), line + "\n")
        except OSError as error:
            print(f"error: report {path!r} cannot be written: {error}", file=sys.stderr)
            code = code or FAILED
    print(line, flush=True)
    return code


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.absolute().parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o666 & ~_umask())
    os.replace(file.name, path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
