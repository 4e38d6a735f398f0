"""Calls a function in a forked copy of this process."""

from __future__ import annotations

import os
import pickle
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any

SECONDS = 60  # until a child that does not answer is killed


def in_forked_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the call. The child ends without cleaning up, since an earlier test may have left threads and signal handlers here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, pickle.dumps(function(*arguments)))
        except BaseException:
            os.write(writing, pickle.dumps(traceback.format_exc()[-2000:]))
        finally:
            os._exit(0)
    os.close(writing)
    try:
        answered, _, _ = select.select([reading], [], [], SECONDS)
        assert answered, "the child does not answer"
        return pickle.loads(os.read(reading, 1 << 16))
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
