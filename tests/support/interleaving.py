"""Two or three machines whose storage calls come one at a time, in an order that is chosen: all orders that can make a difference.

Orders that differ only in calls which commute (`Call.commutes_with`) come to the same: of those one is run. This is dynamic partial-order
reduction with sleep sets, a standard way to go through all behaviours of concurrent programs without going through all orders.
"""

from __future__ import annotations

import queue
import random
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.intercepted_store import Call

PATIENCE = 60  # seconds for a machine to come to its next storage call


class Redundant(BaseException):
    """Ends a run whose outcome is known from another one."""


class Turn:
    """One machine: from its start on it waits before each storage call until it is its turn. `result`: what it gave, or its error."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pending: Call | None = None
        self.result: Any = None
        self._events: queue.SimpleQueue[Turn] | None = None
        self._go = threading.Semaphore(0)
        self._stopped = False

    def intercept(self, call: Call, perform: Callable[[], Any]) -> Any:
        if self._events is None:  # it has not begun
            return perform()
        self.pending = call
        self._events.put(self)
        self._go.acquire()
        if self._stopped:
            raise Redundant
        return perform()

    def begin(self, run: Callable[[], Any], events: queue.SimpleQueue[Turn]) -> None:
        """Up to its first storage call."""
        self._events = events
        self.thread = threading.Thread(target=self._main, args=(run, events), name=self.name, daemon=True)
        self.thread.start()
        self._arrive()

    def _arrive(self) -> None:
        assert self._events is not None
        try:
            assert self._events.get(timeout=PATIENCE) is self
        except queue.Empty:
            where = "\n".join("".join(traceback.format_stack(frame)[-12:]) for frame in sys._current_frames().values())
            raise AssertionError(f"{self.name} comes to no end:\n{where}") from None

    def go(self) -> None:
        """One call, and on to the next or to the end."""
        assert self._events is not None
        self.pending = None
        self._go.release()
        self._arrive()

    def stop(self) -> None:
        self._stopped = True
        while self.pending is not None:
            self.go()

    def _main(self, run: Callable[[], Any], events: queue.SimpleQueue[Turn]) -> None:
        try:
            self.result = run()
        except BaseException as error:
            self.result = error
        self.pending = None
        events.put(self)


Chooser = Callable[[dict[int, Call]], int | None]


def take_turns(turns: Sequence[tuple[Turn, Callable[[], Any]]], choose: Chooser) -> bool:
    """Runs them to their ends in the order that `choose` gives; False where it gave up."""
    events: queue.SimpleQueue[Turn] = queue.SimpleQueue()
    for turn, run in turns:
        turn.begin(run, events)
    is_whole = True
    while pending := {number: turn.pending for number, (turn, _) in enumerate(turns) if turn.pending is not None}:
        chosen = choose(pending)
        is_whole = chosen is not None
        if chosen is None:
            for turn, _ in turns:
                turn.stop()
        else:
            turns[chosen][0].go()
    for turn, _ in turns:
        turn.thread.join()
    return is_whole


@dataclass
class _Node:
    """A crash_point at which one of several calls is carried out."""

    pending: dict[int, Call]
    sleeping: set[int]
    chosen: int
    clock: dict[int, int]  # of the call that is carried out: how many calls of each machine come before it in every equal order, or are it
    wanted: set[int] = field(default_factory=set)  # machines that might have been first here, to another effect
    done: set[int] = field(default_factory=set)

    @property
    def call(self) -> Call:
        return self.pending[self.chosen]

    def sleeping_below(self) -> set[int]:
        return {other for other in self.sleeping | self.done if other != self.chosen and self.pending[other].commutes_with(self.call)}

    def next(self) -> int | None:
        return next((number for number in sorted(self.wanted) if number not in self.sleeping | self.done), None)


@dataclass
class Explorer:
    """Every order of calls, but for those that only swap calls which commute; it stops after `most` of them."""

    run: Callable[[Chooser], bool]  # one run; False where the chooser gave up
    most: int
    runs: int = 0
    redundant: int = 0
    is_complete: bool = False
    _path: list[_Node] = field(default_factory=list)

    def explore(self) -> None:
        while self.runs + self.redundant < self.most:
            depth = 0

            def choose(pending: dict[int, Call]) -> int | None:
                nonlocal depth
                if depth == len(self._path) and not self._extend(pending):
                    return None
                node = self._path[depth]
                assert node.pending == pending, "a run must do the same as the one before it up to where they part"
                depth += 1
                return node.chosen

            if self.run(choose):
                self.runs += 1
            else:
                self.redundant += 1
            if not self._turn_back():
                self.is_complete = True
                return

    def _turn_back(self) -> bool:
        while self._path:
            node = self._path[-1]
            node.done.add(node.chosen)
            following = node.next()
            if following is not None:
                node.chosen = following
                node.clock = self._clock(len(self._path) - 1, following, node.call)
                return True
            self._path.pop()
        return False

    def _extend(self, pending: dict[int, Call]) -> bool:
        sleeping = self._path[-1].sleeping_below() & set(pending) if self._path else set()
        for number, call in pending.items():
            self._want(number, call)
        chosen = next((number for number in pending if number not in sleeping), None)
        if chosen is None:
            return False
        self._path.append(_Node(dict(pending), sleeping, chosen, self._clock(len(self._path), chosen, pending[chosen]), {chosen}))
        return True

    def _want(self, number: int, call: Call) -> None:
        """The last call of another that this one could have come before, with another effect, is a place to try that."""
        own = next((node.clock for node in reversed(self._path) if node.chosen == number), {})
        for node in reversed(self._path):
            if node.chosen != number and not node.call.commutes_with(call) and node.clock[node.chosen] > own.get(node.chosen, 0):
                node.wanted |= {number} if number in node.pending else set(node.pending)
                return

    def _clock(self, depth: int, number: int, call: Call) -> dict[int, int]:
        clock: dict[int, int] = {}
        for node in self._path[:depth]:
            if node.chosen == number or not node.call.commutes_with(call):
                for machine, count in node.clock.items():
                    clock[machine] = max(count, clock.get(machine, 0))
        clock[number] = 1 + sum(node.chosen == number for node in self._path[:depth])
        return clock


def at_random(seed: int) -> Chooser:
    """Another order for every seed, which prefers to stay with one machine for a while."""
    chance = random.Random(seed)
    last: list[int] = []

    def choose(pending: dict[int, Call]) -> int:
        if not last or last[0] not in pending or chance.random() < 0.3:
            last[:] = [chance.choice(sorted(pending))]
        return last[0]

    return choose
