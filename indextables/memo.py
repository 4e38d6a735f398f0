"""Caches results for as long as the value that they were computed from exists.

Keys are compared by identity and referenced weakly: a result is freed with its key, so it must never refer to its key.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast
from weakref import WeakKeyDictionary

Key = TypeVar("Key")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Slot(Generic[Result]):
    """The result of one key; `lock` lets one thread compute it while others wait."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    is_made: bool = False
    result: Result | None = None


class Memo(Generic[Key, Result]):
    """Safe to use from many threads. A forked process starts empty, since another thread of the parent may have held a lock.

    An instance lives as long as the process, so it belongs to a module.
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def get(self, key: Key, make: Callable[[Key], Result]) -> Result:
        """`make(key)`, computed once. If `make` raises, nothing is cached."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
        with slot.lock:
            if not slot.is_made:
                slot.result = make(key)
                slot.is_made = True
            return cast(Result, slot.result)

    def peek(self, key: Key) -> Result | None:
        """The result if it was computed, else None."""
        with self._lock:
            slot = self._slots.get(key)
        return None if slot is None else slot.result

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._slots: WeakKeyDictionary[Key, _Slot[Result]] = WeakKeyDictionary()
