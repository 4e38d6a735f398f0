"""Arguments that commands and jobs share, and how the terminal reports wrong ones."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

USAGE = 2
_DASHED = re.compile(r"-[^-0-9=]")


class Parser(argparse.ArgumentParser):
    """One line for a usage error, as for every other error."""

    given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.given = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        takes_query = any(action.metavar == "QUERY" and not action.option_strings for action in self._actions)
        if takes_query and (message.endswith("required: QUERY") or message.startswith("argument -o/--option:")):
            message += self._dashed()
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(USAGE)

    def _dashed(self) -> str:
        """`-payments` is a query that looks like an option, and `-outage` like `-o`."""
        words = (word for word in self.given if _DASHED.match(word) and word not in self._option_string_actions)
        return "".join(f"; if {word!r} is the query, write -- before it" for word in list(words)[:1])


def add_option(parser: argparse.ArgumentParser, *flags: str) -> None:
    """For commands and jobs alike: KEY=VALUE, any number of times."""
    parser.add_argument(*flags, action="append", type=_pair, default=[], metavar="KEY=VALUE", help="an option; any number of times")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def options_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The options by key; the last one counts where a key is given twice."""
    return dict(arguments.option)


def names_of(text: str | None) -> list[str] | None:
    """The column names of `a,b`."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
