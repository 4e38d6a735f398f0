"""R18: commands and jobs in child processes that can be killed. They import everything before they report their start."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.racing import TIMEOUT, light_processes

WORK = (
    "indextables.cli.main",
    "indextables.spark.jobs",
    "indextables.api",
    "indextables.operations.write.run",
    "indextables.operations.expire.purge_files",
    "indextables.splits.writer",
)


def _run(command: str, argv: list[str], environment: Mapping[str, str], tell: Any) -> None:
    """Runs a job by its name, or the terminal program. Sends "started" after all imports."""
    os.setsid()
    os.environ.update(environment)
    cli, jobs, *_ = map(importlib.import_module, WORK)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    tell.send("started")
    tell.send(cli.main(argv) if command == "indextables" else jobs.main(command, argv))


class CommandRun:
    """One run of a command in a child process. Call exactly one of `end` and `kill`."""

    def __init__(self, command: str, *argv: object) -> None:
        self._hear, tell = light_processes().Pipe(duplex=False)
        self._process = light_processes().Process(target=_run, args=(command, [str(a) for a in argv], dict(os.environ), tell))
        self._process.start()
        tell.close()
        assert self._hear.poll(TIMEOUT)
        assert self._hear.recv() == "started"

    def end(self) -> int:
        """Waits for the end. Returns the exit code."""
        assert self._hear.poll(TIMEOUT), "it did not end"
        code: int = self._hear.recv()
        self._process.join()
        return code

    def kill(self, after: float, once: Callable[[], bool] = lambda: True) -> bool:
        """Kills the process `after` this many seconds from when `once` holds. Returns whether it was still running."""
        while not once() and not self._hear.poll(0):
            time.sleep(0.0005)
        was_at_work = not self._hear.poll(after)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        return was_at_work
