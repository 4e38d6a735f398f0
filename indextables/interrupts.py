"""Keeps Ctrl-C from leaving the outcome of a commit unknown, and reports with the interrupt which version was committed.

Signals arrive in the main thread only; in other threads these functions do nothing. Handlers of other programs, such as that of Spark's
driver, are called as usual.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from indextables.errors import IndexTablesError
from indextables.startup import interrupted


class InterruptedAfterCommit(KeyboardInterrupt):
    """The operation was interrupted after this version was committed."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} was committed")
        self.version = version


class _Handler:
    """Raises KeyboardInterrupt, like Python's own handler, and records that it did."""

    was_called = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.was_called = True
        raise KeyboardInterrupt


@contextmanager
def record_interrupts() -> Iterator[None]:
    """Makes sure that no interrupt is lost during a program's run, whatever libraries do with it.

    An interrupt that a library swallows is raised before the next commit. One that a library converts into another exception or merely
    prints, as extensions do while they are imported, is raised again as KeyboardInterrupt.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous not in (signal.default_int_handler, interrupted):
        yield
        return
    handler = _Handler()
    signal.signal(signal.SIGINT, handler)
    try:
        with _no_traces():
            yield
    except IndexTablesError:
        raise  # states what happened to the table
    except Exception:
        if handler.was_called:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def _no_traces() -> Iterator[None]:
    """Suppresses the trace of an interrupt that cannot be caught, as in a callback of the garbage collector; `_Handler` recorded it."""
    report, report_unraisable = sys.excepthook, sys.unraisablehook

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            report(kind, error, trace)

    def unraisable(what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            report_unraisable(what)

    sys.excepthook, sys.unraisablehook = uncaught, unraisable
    try:
        yield
    finally:
        sys.excepthook, sys.unraisablehook = report, report_unraisable


@contextmanager
def defer_interrupts() -> Iterator[list[int]]:
    """Defers an interrupt to the end of the block and then calls the previous handler.

    The last version that the block appended to the list is reported with it. An exception of the block takes precedence.
    """
    committed: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield committed
        return
    if isinstance(handler, _Handler) and handler.was_called:
        raise KeyboardInterrupt
    waiting: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: waiting.append(frame))
    try:
        yield committed
    finally:
        signal.signal(signal.SIGINT, handler)
        if isinstance(handler, _Handler):
            handler.was_called = bool(waiting)
    if waiting:
        with naming_commit(committed[-1] if committed else None):
            handler(signal.SIGINT, waiting[0])


@contextmanager
def naming_commit(version: int | None) -> Iterator[None]:
    """Turns an interrupt of the block into InterruptedAfterCommit, which names the version that was committed before, if any."""
    try:
        yield
    except InterruptedAfterCommit:
        raise
    except KeyboardInterrupt:
        if version is None:
            raise
        raise InterruptedAfterCommit(version) from None
