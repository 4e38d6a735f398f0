"""Command lines for the terminal and for jobs: parser arguments from the options of a request, and the request from the arguments."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn, TypeVar

from indextables.errors import InvalidArgument
from indextables.operations.request import FLAG, Interface, Option, Request

AnyRequest = TypeVar("AnyRequest", bound=Request)
_DASHED = re.compile(r"-[^-0-9=]")


class Parser(argparse.ArgumentParser):
    """Prints a usage error as one line, like every other error."""

    given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.given = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        takes_query = any(action.metavar == "QUERY" and not action.option_strings for action in self._actions)
        if takes_query and (message.endswith("required: QUERY") or message.startswith("argument -o/--option:")):
            message += self._dash_hint()
        if takes_query and message.startswith("unrecognized arguments:") and " -" not in message:
            message += "; quote a query of several words"
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(InvalidArgument.exit_code)

    def _dash_hint(self) -> str:
        """A hint for queries that look like an option: `-payments`, or `-outage`, which reads as `-o`."""
        words = (word for word in self.given if _DASHED.match(word) and word not in self._option_string_actions)
        return "".join(f"; if {word!r} is the query, write -- before it" for word in list(words)[:1])


def add_option(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Adds the argument for configuration options, KEY=VALUE, which may be repeated."""
    parser.add_argument(*flags, action="append", type=_pair, default=[], metavar="KEY=VALUE", help="set an option; may be repeated")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def options_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The options by key; the last value wins if a key is given twice."""
    return dict(arguments.option)


def add_arguments(parser: argparse.ArgumentParser, verb: type[Request], interface: Interface, without: Collection[str] = ()) -> None:
    """Adds an argument for each option that the interface offers, except those in `without`."""
    for option in verb.options(interface):
        if option.name not in without:
            _add_argument(parser, option, interface)


def _add_argument(parser: argparse.ArgumentParser, option: Option, interface: Interface) -> None:
    help_text = option.help.replace("%", "%%")
    if option.type is FLAG:
        parser.add_argument(option.flag(interface), dest=option.name, action="store_true", help=help_text)
        return
    given: dict[str, Any] = {"type": option.type.from_text, "metavar": option.type.metavar, "help": help_text}
    if option.type.choices:
        given |= {"choices": option.type.choices, "metavar": None}
    if option.repeats:
        given |= {"action": "append"}
    if option.is_positional and interface is Interface.TERMINAL:
        parser.add_argument(option.name, **given)
    else:
        parser.add_argument(option.flag(interface), dest=option.name, default=option.default, required=option.required, **given)


def request_of(verb: type[AnyRequest], arguments: argparse.Namespace, interface: Interface, **overrides: Any) -> AnyRequest:
    """The request of a command line; InvalidArgument for a malformed value. `overrides` take precedence over the arguments."""
    given = {option.name: getattr(arguments, option.name) for option in verb.options(interface) if hasattr(arguments, option.name)}
    try:
        return verb(**given | overrides)
    except InvalidArgument as error:
        raise InvalidArgument(_with_flags(str(error), verb, interface)) from None


def _with_flags(message: str, verb: type[Request], interface: Interface) -> str:
    """The message with option names as spelled on the command line; quoted words are values and stay as they are."""
    flags = {option.name: option.name if option.is_positional else option.flag(interface) for option in verb.options(interface)}
    return re.sub(r"'[^']*'|\w+", lambda word: flags.get(word[0], word[0]), message)
