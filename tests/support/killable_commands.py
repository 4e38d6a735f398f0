"""R18: commands and jobs in processes of their own that can be killed; forked, so that what a killing strikes is their work."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.racing import PATIENCE, light_processes

WORK = ("indextables.api", "indextables.operations.write.run", "indextables.operations.expire.purge_files", "indextables.splits.writer")


def _run(command: str, argv: list[str], environment: Mapping[str, str], tell: Any) -> None:
    """`indextables.cli.main`, or a job's module; imported before it says that it begins."""
    os.setsid()
    os.environ.update(environment)
    for name in (*WORK, command):
        module = importlib.import_module(name)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    tell.send("started")
    if command == "indextables.cli.main":
        tell.send(module.main(argv))
    else:
        tell.send(importlib.import_module("indextables.spark.job").main(module.JOB, argv))


class CommandRun:
    """One run of a command; exactly one of the two ways to end it is used."""

    def __init__(self, command: str, *argv: object) -> None:
        self._hear, tell = light_processes().Pipe(duplex=False)
        self._process = light_processes().Process(target=_run, args=(command, [str(a) for a in argv], dict(os.environ), tell))
        self._process.start()
        tell.close()
        assert self._hear.poll(PATIENCE)
        assert self._hear.recv() == "started"

    def end(self) -> int:
        """Its exit code."""
        assert self._hear.poll(PATIENCE), "it did not end"
        code: int = self._hear.recv()
        self._process.join()
        return code

    def kill(self, after: float, once: Callable[[], bool] = lambda: True) -> bool:
        """So many seconds after something is so; whether it was still at work."""
        while not once() and not self._hear.poll(0):
            time.sleep(0.0005)
        was_at_work = not self._hear.poll(after)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        return was_at_work
