"""Mergers in processes of their own, that can race and be killed: forked, so that they start within milliseconds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import indextables as it
from tests.support.racing import PATIENCE, light_processes


def _merge(place: str, options: Mapping[str, str], environment: Mapping[str, str], start: Any, tell: Any) -> None:
    os.setsid()  # with the children that merge segments, so that all of them can be killed
    os.environ.update(environment)
    table = it.open(place, options=options)
    if start is not None:
        start.wait(PATIENCE)
    tell.send("started")
    try:
        report = table.merge_splits()
        tell.send((str(report.status), report.version, list(report.warnings)))
    except it.IndexTablesError as error:
        tell.send((type(error).__name__, None, [str(error)]))


@dataclass
class MergerProcess:
    """A process that opens the table, waits for the start if there is one, says that it begins, and merges."""

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
        assert self._hear.poll(PATIENCE)
        assert self._hear.recv() == "started"

    def result(self) -> tuple[str, int | None, list[str]]:
        """The status or the type of the error, the version, and warnings or the error's text."""
        assert self._hear.poll(PATIENCE), "the merger did not answer"
        answer: tuple[str, int | None, list[str]] = self._hear.recv()
        self._process.join()
        return answer

    def kill(self, after: float) -> bool:
        """Whether it was still at work `after` so many seconds."""
        time.sleep(after)
        was_alive = self._process.is_alive()
        if was_alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        return was_alive
