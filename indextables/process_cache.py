"""A cache shared by all threads of one process: of open splits, connections, decoded blocks, logs."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from operator import add, gt, sub
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Sizes = tuple[int, ...]  # one for each bound of a cache


class ProcessCache(Generic[Key, Value]):
    """Values by key, shared by the threads of one process; the least recently used are dropped first.

    The newest value always stays, however large it is. Values are freed outside the lock: that may unmap files.

    A child of a fork starts with an empty cache, because the threads that hold its locks or serve its connections exist only in the
    parent. The parent's values are never freed in the child: that could wait for those threads. An instance lives as long as the
    process, so it belongs to a module.
    """

    _entries: OrderedDict[Key, tuple[Value, Sizes]]
    _totals: Sizes

    def __init__(self, bounds: Callable[[], Sizes] = lambda: (), size_of: Callable[[Value], Sizes] = lambda _: (1,)) -> None:
        """`bounds()`, called for every `put`, limits the sums of `size_of(value)`, by default the number of values."""
        self._bounds = bounds
        self._size_of = size_of
        self._inherited: list[OrderedDict[Key, tuple[Value, Sizes]]] = []  # from the parent of a fork
        self._start_empty()
        os.register_at_fork(after_in_child=self._after_fork)

    def get(self, key: Key) -> Value | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value) -> Value:
        """Stores the value unless another thread was first; returns the stored one."""
        new = (value, self._size_of(value))
        dropped = []
        with self._lock:
            kept = self._entries.setdefault(key, new)
            self._entries.move_to_end(key)
            if kept is new:
                self._totals = tuple(map(add, self._totals, new[1])) if self._totals else new[1]
            bounds = self._bounds()
            while len(self._entries) > 1 and any(map(gt, self._totals, bounds)):
                dropped.append(self._remove(next(iter(self._entries))))
        del dropped
        return kept[0]

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of the key; if it is missing, one thread makes it while others wait. If `make` raises, nothing is stored."""
        found = self.get(key)
        if found is not None:
            return found
        with self._making:
            found = self.get(key)
            return self.put(key, make()) if found is None else found

    def pop(self, key: Key) -> Value | None:
        with self._lock:
            return self._remove(key) if key in self._entries else None

    def items(self) -> list[tuple[Key, Value]]:
        """The least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def values(self) -> list[Value]:
        return [value for _, value in self.items()]

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        with self._lock:
            dropped, self._entries, self._totals = self._entries, OrderedDict(), ()
        del dropped

    def _remove(self, key: Key) -> Value:
        value, sizes = self._entries.pop(key)
        self._totals = tuple(map(sub, self._totals, sizes))
        return value

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        self._making = threading.Lock()  # separate, so that lookups do not wait while a value is made
        self._entries = OrderedDict()
        self._totals = ()

    def _after_fork(self) -> None:
        self._inherited.append(self._entries)
        self._start_empty()
