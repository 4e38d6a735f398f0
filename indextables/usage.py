"""What the terminal says of arguments that it does not understand."""

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
        if message.endswith("required: QUERY"):
            message += self._dashed()
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(USAGE)

    def _dashed(self) -> str:
        """`-payments` is a query that looks like an option."""
        words = (word for word in self.given if _DASHED.match(word) and word not in self._option_string_actions)
        return "".join(f"; if {word!r} is it, write -- before it" for word in list(words)[:1])
