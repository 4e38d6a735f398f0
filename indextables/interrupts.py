"""Ctrl-C where it must not strike: a commit is made or not, and whoever is interrupted hears which.

Only the main thread hears of a signal; elsewhere nothing here does anything. Spark's driver, among others, has a handler of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
    """For a program's whole run: an interrupt that some library swallows on its way is remembered, and strikes before the next commit."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _Heard())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
