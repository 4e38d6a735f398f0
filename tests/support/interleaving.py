"""Runs machines concurrently with their storage calls serialized in a chosen order, and explores all orders that can differ in effect.

Orders that differ only in commuting calls (`Call.commutes_with`) have the same effect; one of them is run. The algorithm is dynamic
partial-order reduction with sleep sets.
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

TIMEOUT = 60  # seconds until a machine must reach its next storage call


class Redundant(BaseException):
    """Ends a run whose outcome is known from another run."""


class Turn:
    """One machine in its own thread. It waits before each storage call until `go`. `result` is its return value or its error."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pending: Call | None = None
        self.result: Any = None
        self._events: queue.SimpleQueue[Turn] | None = None
        self._go = threading.Semaphore(0)
        self._stopped = False

    def intercept(self, call: Call, perform: Callable[[], Any]) -> Any:
        if self._events is None:  # not started yet
            return perform()
        self.pending = call
        self._events.put(self)
        self._go.acquire()
        if self._stopped:
            raise Redundant
        return perform()

    def begin(self, run: Callable[[], Any], events: queue.SimpleQueue[Turn]) -> None:
        """Runs the machine up to its first storage call."""
        self._events = events
        self.thread = threading.Thread(target=self._main, args=(run, events), name=self.name, daemon=True)
        self.thread.start()
        self._wait_for_call()

    def _wait_for_call(self) -> None:
        assert self._events is not None
        try:
            assert self._events.get(timeout=TIMEOUT) is self
        except queue.Empty:
            where = "\n".join("".join(traceback.format_stack(frame)[-12:]) for frame in sys._current_frames().values())
            raise AssertionError(f"{self.name} does not reach its next storage call:\n{where}") from None

    def go(self) -> None:
        """Performs the pending call and runs the machine up to the next call or its end."""
        assert self._events is not None
        self.pending = None
        self._go.release()
        self._wait_for_call()

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
    """Runs the machines to their ends in the order that `choose` returns. False if it returned None, which ends the run."""
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
    """A step of a run: one of the pending calls is performed."""

    pending: dict[int, Call]
    sleeping: set[int]
    chosen: int
    clock: dict[int, int]  # vector clock of the chosen call: calls of each machine that precede it in every equivalent order
    to_try: set[int] = field(default_factory=set)  # machines that might go first here with another effect
    done: set[int] = field(default_factory=set)

    @property
    def call(self) -> Call:
        return self.pending[self.chosen]

    def sleeping_below(self) -> set[int]:
        return {other for other in self.sleeping | self.done if other != self.chosen and self.pending[other].commutes_with(self.call)}

    def next(self) -> int | None:
        return next((number for number in sorted(self.to_try) if number not in self.sleeping | self.done), None)


@dataclass
class Explorer:
    """Runs all orders that differ in more than commuting calls, at most `most` of them."""

    run: Callable[[Chooser], bool]  # performs one run; False if the chooser ended it
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
                assert node.pending == pending, "a run must make the same calls as the previous one up to the first different choice"
                depth += 1
                return node.chosen

            if self.run(choose):
                self.runs += 1
            else:
                self.redundant += 1
            if not self._backtrack():
                self.is_complete = True
                return

    def _backtrack(self) -> bool:
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
            self._note_alternative(number, call)
        chosen = next((number for number in pending if number not in sleeping), None)
        if chosen is None:
            return False
        self._path.append(_Node(dict(pending), sleeping, chosen, self._clock(len(self._path), chosen, pending[chosen]), {chosen}))
        return True

    def _note_alternative(self, number: int, call: Call) -> None:
        """Marks the last conflicting call of another machine as a step at which to try this machine first."""
        own = next((node.clock for node in reversed(self._path) if node.chosen == number), {})
        for node in reversed(self._path):
            if node.chosen != number and not node.call.commutes_with(call) and node.clock[node.chosen] > own.get(node.chosen, 0):
                node.to_try |= {number} if number in node.pending else set(node.pending)
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
    """A random order for each seed. It tends to stay with one machine for several calls."""
    chance = random.Random(seed)
    last: list[int] = []

    def choose(pending: dict[int, Call]) -> int:
        if not last or last[0] not in pending or chance.random() < 0.3:
            last[:] = [chance.choice(sorted(pending))]
        return last[0]

    return choose
