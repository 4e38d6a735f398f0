"""Ctrl-C where it must not strike: a commit is made or not, and whoever is interrupted hears which.

Only the main thread hears of a signal. Elsewhere, and where a program has a handler of its own, nothing here does anything.
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
    """Of the signals since `noticed` began."""

    any = False
    is_held = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.any = True
        if not self.is_held:
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
    """An interrupt waits until the end; the versions that were put into the list by then are told with it."""
    committed: list[int] = []
    with noticed():
        heard = signal.getsignal(signal.SIGINT)
        if not isinstance(heard, _Heard) or threading.current_thread() is not threading.main_thread():
            yield committed
            return
        if heard.any:
            raise KeyboardInterrupt
        heard.is_held = True
        try:
            yield committed
        finally:
            heard.is_held = False
        if heard.any:
            raise InterruptedAfterCommit(committed[-1]) if committed else KeyboardInterrupt


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
