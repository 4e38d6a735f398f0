"""`indextables VERB TABLE [options]`: tables and progress for people, `--json` for programs.

Modules that a verb needs are imported when it runs: importing Arrow takes a second, which `--help` should not.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from indextables import interrupts, logs
from indextables.cli.arguments import parse
from indextables.errors import IndexTablesError, PointedError
from indextables.startup import INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code (docs/operations.md lists them)."""
    if argv is None:  # only in a process that runs this command and nothing else
        sys.meta_path.insert(0, _PandasBlocker())
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path need not be valid text: show it escaped, as on stderr, instead of failing
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = parse(argv)
    # Warnings of a snapshot are one line each for people; programs find them in the report.
    logs.configure(sys.stderr, verbose=arguments.verbose)
    try:
        with interrupts.record_interrupts():
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


class _PandasBlocker:
    """Hides pandas from Arrow, which imports it at the first filter only to test the type of a value: that would take a second."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the indextables command does not use pandas", name=name)


def _fail(error: IndexTablesError, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"error: {' '.join(str(error).splitlines())}", file=sys.stderr)  # one line, even if a quoted value has line breaks
    if isinstance(error, PointedError) and (caret := error.caret()):
        print(caret, file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
