"""Merges, commands and jobs in child processes that can run concurrently and be killed. They are forked and start within milliseconds."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import indextables as it
from tests.support.racing import TIMEOUT, light_processes

# `_command` needs the first two by name.
WORK = (
    "indextables.cli.main indextables.spark.jobs indextables.api indextables.operations.write.run "
    "indextables.operations.expire.purge_files indextables.splits.writer"
)


class KillableProcess:
    """A child process. `work` gets a pipe and the arguments; it sends "started", which `begin` awaits, and then its result."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._hear, tell = light_processes().Pipe(duplex=False)
        self._process = light_processes().Process(target=_run, args=(work, tell, arguments, dict(os.environ)))
        self._process.start()
        tell.close()

    def begin(self) -> None:
        assert self._hear.poll(TIMEOUT)
        assert self._hear.recv() == "started"

    def result(self) -> Any:
        assert self._hear.poll(TIMEOUT), "the process did not answer"
        answer = self._hear.recv()
        self._process.join()
        return answer

    def kill(self, after: float, once: Callable[[], bool] = lambda: True) -> bool:
        """Kills the process `after` this many seconds from when `once` holds. Returns whether it was still at work."""
        while not once() and not self._hear.poll(0):
            time.sleep(0.0005)
        was_at_work = not self._hear.poll(after)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        return was_at_work


def merger(place: str, options: Mapping[str, str], start: Any = None) -> KillableProcess:
    """Opens the table, waits for `start` if given, and merges. The result is status or error type, version, and warnings or message."""
    return KillableProcess(_merge, place, dict(options), start)


def command(name: str, *argv: object) -> KillableProcess:
    """Runs a job by its name, or the terminal program `indextables`, which has begun. The result is the exit code."""
    process = KillableProcess(_command, name, [str(argument) for argument in argv])
    process.begin()
    return process


def _run(work: Callable[..., None], tell: Any, arguments: tuple[Any, ...], environment: Mapping[str, str]) -> None:
    os.setsid()  # a group with the children that merge segments, so that all can be killed
    os.environ.update(environment)
    work(tell, *arguments)


def _merge(tell: Any, place: str, options: Mapping[str, str], start: Any) -> None:
    table = it.open(place, options=options)
    if start is not None:
        start.wait(TIMEOUT)
    tell.send("started")
    try:
        report = table.merge_splits()
        tell.send((str(report.status), report.version, list(report.warnings)))
    except it.IndexTablesError as error:
        tell.send((type(error).__name__, None, [str(error)]))


def _command(tell: Any, name: str, argv: list[str]) -> None:
    """Imports everything before it sends "started"."""
    cli, jobs, *_ = map(importlib.import_module, WORK.split())
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    tell.send("started")
    tell.send(cli.main(argv) if name == "indextables" else jobs.main(name, argv))
