"""Runs the child process that decodes the stored documents of upstream's splits.

Each parent has one child, started with the first job; it ends with the parent. A job is pickled; its answer is a line of JSON, because the
documents may be crafted. The child limits its own memory, and if it dies or exceeds the time limit, the job fails and the next gets a new
process.
"""

from __future__ import annotations

import os
import pickle
import selectors
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from indextables import limits
from indextables.errors import SplitCorrupted, StorageError
from indextables.process_cache import ProcessCache
from indextables.splits.format import Range
from indextables.splits.index import Segment
from indextables.splits.writer import SplitSettings


@dataclass(frozen=True, slots=True)
class Job:
    source: Path
    files: Mapping[str, Range]
    segments: Sequence[Segment]
    target: Path
    settings: SplitSettings
    partition_values: Mapping[str, str]


class Answer(msgspec.Struct, frozen=True):
    error: str | None = None
    damaged: bool = False  # whether the split caused the error, not the machine


# Built at import, for the reason given in splits/format/bundle.py.
_ANSWER = msgspec.json.Decoder(Answer)


def decode(job: Job) -> None:
    """Runs a job in the child process: on return, its target is a complete split. Raises SplitCorrupted or StorageError."""
    answer = _workers.get_or_make("documents", _Worker).ask(job)
    if isinstance(answer, int):
        raise SplitCorrupted(f"split {job.source} is damaged: the process that decodes its documents exited with {answer}")
    if answer.error is not None:
        if answer.damaged:
            raise SplitCorrupted(f"split {job.source} is damaged: {answer.error}")
        raise StorageError(f"split {job.source} could not be read: {answer.error}")


class _Worker:
    """The child process, started on demand; it runs one job at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, job: Job) -> Answer | int:
        """The answer, or the exit code if the process ended without one."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
            answer = None
            try:
                answer = _ask(self._process, job)
            finally:
                if answer is None:
                    process, self._process = self._process, None
                    process.kill()
                    with suppress(OSError):  # unsent data cannot be flushed
                        process.communicate()
                    code = process.wait()
        return code if answer is None else answer


_workers: ProcessCache[str, _Worker] = ProcessCache()  # one per process: a forked child must not share the pipes


def _ask(worker: subprocess.Popen[bytes], job: Job) -> Answer | None:
    """The answer; None if the process died or exceeded the time limit."""
    assert worker.stdin is not None  # both are pipes
    assert worker.stdout is not None
    try:
        pickle.dump(job, worker.stdin)
        worker.stdin.flush()
    except BrokenPipeError:
        return None
    received = bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(worker.stdout, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            if not waiting.select(limits.UPSTREAM_SECONDS):
                return None
            part = os.read(worker.stdout.fileno(), 65_536)
            if not part:
                return None
            received += part
    return _ANSWER.decode(received)


def _start() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    command = [sys.executable, "-P", "-m", "indextables.splits.foreign.documents"]
    try:
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError as cause:
        raise StorageError(f"the process that decodes documents could not be started: {cause}") from cause
