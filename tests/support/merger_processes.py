"""Merges in child processes that can run concurrently and be killed. They are forked and start within milliseconds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import indextables as it
from tests.support.racing import TIMEOUT, light_processes


def _merge(place: str, options: Mapping[str, str], environment: Mapping[str, str], start: Any, tell: Any) -> None:
    os.setsid()  # a group with the children that merge segments, so that all can be killed
    os.environ.update(environment)
    table = it.open(place, options=options)
    if start is not None:
        start.wait(TIMEOUT)
    tell.send("started")
    try:
        report = table.merge_splits()
        tell.send((str(report.status), report.version, list(report.warnings)))
    except it.IndexTablesError as error:
        tell.send((type(error).__name__, None, [str(error)]))


@dataclass
class MergerProcess:
    """A process that opens the table, waits for `start` if given, reports that it starts, and merges."""

    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    start: Any = None

    def __post_init__(self) -> None:
        self._hear, tell = light_processes().Pipe(duplex=False)
        arguments = (self.place, dict(self.options), dict(os.environ), self.start, tell)
        self._process = light_processes().Process(target=_merge, args=arguments, daemon=False)
        self._process.start()
        tell.close()

    def begin(self) -> None:
        assert self._hear.poll(TIMEOUT)
        assert self._hear.recv() == "started"

    def result(self) -> tuple[str, int | None, list[str]]:
        """Status or error type, version, and the warnings or the error message."""
        assert self._hear.poll(TIMEOUT), "the merger did not answer"
        answer: tuple[str, int | None, list[str]] = self._hear.recv()
        self._process.join()
        return answer

    def kill(self, after: float) -> bool:
        """Kills the process after this many seconds. Returns whether it was still running."""
        time.sleep(after)
        was_alive = self._process.is_alive()
        if was_alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        return was_alive
