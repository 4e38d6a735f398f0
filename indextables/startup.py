"""Handles Ctrl-C while a program is still importing modules: one line and exit code 130, no trace.

Imports only modules that every interpreter has loaded before it starts a script, so that the handler is installed almost at once.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def exit_on_interrupt() -> None:
    """Exits at once on Ctrl-C, until the program installs its own handler.

    An exception would not work: C extensions turn one that is raised during their import into an ImportError and print the trace.
    """
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if it is ignored, as in background jobs of a shell
            signal.signal(signal.SIGINT, interrupted)
    except KeyboardInterrupt:
        interrupted()


def exit_process(code: int) -> NoReturn:
    if code == INTERRUPTED:
        # sys.exit would end the process by SIGINT if the interrupt was raised in code compiled from a string, such as that of a dataclass.
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)
    sys.exit(code)


def interrupted(*_: object) -> NoReturn:
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)
