"""The command line: a sub-command for each verb, with the options of its request and those that only the terminal has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from indextables.cli.verbs import VERBS, Verb
from indextables.command_line import Parser, add_arguments, add_option
from indextables.file_formats import RESULTS
from indextables.operations.request import Interface
from indextables.version import __version__


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; `run` is the function of the verb. Exits with 2 on a usage error."""
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        arguments.refuse(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _parser() -> argparse.ArgumentParser:
    about = "Search and maintain tables: an open table format for full-text search on Spark."
    parser = Parser(prog="indextables", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"indextables {__version__}")
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_VerbParser)
    for verb in VERBS:
        summary = verb.summary
        help_text = summary[0].lower() + summary[1:]
        subparsers.add_parser(verb.name, verb=verb, help=help_text, description=f"{summary}.", allow_abbrev=False)
    return parser


class _VerbParser(Parser):
    """Adds its arguments when its verb is given: those of all verbs take a fifth of the time of `--help`."""

    def __init__(self, verb: Verb, **settings: Any) -> None:
        super().__init__(**settings)
        self._verb = verb

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        _add_verb(self, self._verb)
        return super().parse_known_args(args, namespace)


def _add_verb(parser: argparse.ArgumentParser, verb: Verb) -> None:
    if verb.table != "none":
        parser.add_argument("path", metavar="TABLE", nargs="?" if verb.table == "optional" else None, help="folder or address of the table")
    parser.set_defaults(run=verb.run, refuse=parser.error)
    if verb.argument is not None:
        name, kind, help_text = verb.argument
        parser.add_argument(name.lower(), type=kind, metavar=name, help=help_text)
    if verb.request is not None:
        add_arguments(parser, verb.request, Interface.TERMINAL, verb.without)
    if verb.is_versioned:
        parser.add_argument("--version", type=int, metavar="N", help="read this version instead of the newest")
        parser.add_argument("--timestamp", metavar="TIME", help="read the table as of this time (ISO 8601, UTC without a zone)")
    if verb.shows_rows:
        parser.add_argument("--format", choices=RESULTS, help="output format; default: by the name of the output file, else table")
        parser.add_argument("--output", metavar="FILE", help="write to this file instead of stdout")
    add_option(parser, "-o", "--option")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout and nothing else there")
    parser.add_argument("--verbose", action="store_true", help="report progress on stderr even if it is not a terminal")
    parser.add_argument("--debug", action="store_true", help="show the trace of an error")
