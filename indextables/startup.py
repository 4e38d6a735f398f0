"""Ctrl-C while a program of this package still imports what it needs: one line and exit code 130, no trace.

Imports only what every interpreter has loaded before it starts a script, so that almost nothing runs before the handler is in place.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def exit_on_interrupt() -> None:
    """Until a program handles Ctrl-C by itself. An exception would not do: C extensions turn one that is raised while they import into
    an ImportError of their own, and print the trace."""
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as in the background of a shell
            signal.signal(signal.SIGINT, interrupted)
    except KeyboardInterrupt:
        interrupted()


def leave(code: int) -> NoReturn:
    """Exits with the code of a program that has said all it has to say."""
    if code == INTERRUPTED:
        # Python would end the process by SIGINT instead, if the interrupt was raised in code given as text, such as that of a dataclass.
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)
    sys.exit(code)


def interrupted(*_: object) -> NoReturn:
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)
