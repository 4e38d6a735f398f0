"""Ctrl-C where it must not strike: a commit is made or not, and whoever is interrupted hears which.

Only the main thread hears of a signal; elsewhere nothing here does anything. Spark's driver, among others, has a handler of its own.
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
    """What was under way is not finished, but this version is part of the table."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} was committed")
        self.version = version


class _Heard:
    """Raises, as Python's own handler does, and remembers that it did."""

    any = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.any = True
        raise KeyboardInterrupt


@contextmanager
def noticed() -> Iterator[None]:
    """For a program's whole run: an interrupt that a library swallows is remembered, and is raised before the next commit. One that a
    library turns into another exception, or prints the trace of, as extensions do while they are imported, is a KeyboardInterrupt again."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous not in (signal.default_int_handler, interrupted):
        yield
        return
    heard = _Heard()
    signal.signal(signal.SIGINT, heard)
    try:
        with _no_traces():
            yield
    except IndexTablesError:
        raise  # says what happened to the table
    except Exception:
        if heard.any:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def _no_traces() -> Iterator[None]:
    """Of an interrupt that is raised where nobody can catch it, as in a callback of the garbage collector: _Heard remembers it."""
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
def held_back() -> Iterator[list[int]]:
    """An interrupt waits until the end, and then goes to whoever would have had it; the versions that were put into the list by then are
    told with it. Where something fails meanwhile, that is what is told."""
    committed: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield committed
        return
    if isinstance(handler, _Heard) and handler.any:
        raise KeyboardInterrupt
    waiting: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: waiting.append(frame))
    try:
        yield committed
    finally:
        signal.signal(signal.SIGINT, handler)
        if isinstance(handler, _Heard):
            handler.any = bool(waiting)
    if waiting:
        with after(committed[-1] if committed else None):
            handler(signal.SIGINT, waiting[0])


@contextmanager
def after(version: int | None) -> Iterator[None]:
    """What follows a commit, if there was one: an interrupt says that it stands."""
    try:
        yield
    except InterruptedAfterCommit:
        raise
    except KeyboardInterrupt:
        if version is None:
            raise
        raise InterruptedAfterCommit(version) from None
