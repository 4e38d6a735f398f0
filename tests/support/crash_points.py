"""R4: a process that crashes before or after any storage call of any verb leaves the table in the old or in the new state.

Crashing before a call leaves the same files as crashing after the previous one, and reads leave nothing. So it is enough to crash once
after each call that changes something and once before all of them: these tests stand for all crash points.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

import indextables as it
from indextables.paths import LOG_FOLDER, is_our_split
from indextables.state.checkpoints.avro.state_files import manifest_path, read_state_manifest
from indextables.storage import open_store
from tests.support.intercepted_store import Call
from tests.support.locations import Image
from tests.support.seeds import random_seed
from tests.support.simulation import Simulation, TableState, ids_of, state_of
from tests.support.verb_cases import DAY, NO_CHECK, VerbCase, create, make_base_table, rows

_STATE = re.compile(rf"{LOG_FOLDER}/state-v([0-9]{{20}})/_manifest\.[a-z]+")
_MANIFEST = re.compile(rf"{LOG_FOLDER}/manifests/[^/]+")
Shape = tuple[TableState | None, Counter[str]]  # content of a table, and the names of all its files without their random parts


class Crash(BaseException):
    """Ends a process: product code must not catch it, and no later call reaches the store."""


@dataclass
class CrashInjector:
    """Crashes its machine right before or right after call number `at`; without `at` it records the calls."""

    at: int | None = None
    after: bool = False
    calls: list[Call] = field(default_factory=list)
    has_crashed: bool = False

    def __call__(self, call: Call, perform: Callable[[], Any]) -> Any:
        if self.has_crashed:
            raise Crash
        self.calls.append(call)
        if len(self.calls) - 1 != self.at:
            return perform()
        self.has_crashed = True
        if self.after:
            with suppress(FileNotFoundError):
                perform()
        raise Crash


@dataclass(frozen=True)
class CrashPoint:
    """A crash right before or right after a call. It stands for `points` crash points that leave the same files."""

    at: int
    after: bool
    points: int

    @classmethod
    def all_of(cls, calls: tuple[Call, ...]) -> list[CrashPoint]:
        changes = [number for number, call in enumerate(calls) if call.changes]
        edges = [-1, *changes, len(calls)]
        first = 2 * (changes[0] if changes else len(calls)) + 1
        return [
            cls(0, False, first if changes else first - 1),
            *(cls(here, True, 2 * (after - here) - (after == len(calls))) for here, after in zip(changes, edges[2:], strict=True)),
        ]


@dataclass(frozen=True)
class Oracle:
    """The expected states of a verb without a crash: before it, after it, and after running it twice."""

    image: Image
    calls: tuple[Call, ...]
    before: TableState | None
    after: TableState | None
    twice: TableState | None
    left: dict[bool, Shape]  # remaining files after expiry and a purge: False after one run, True after two

    @classmethod
    def of(cls, simulation: Simulation, verb_case: VerbCase, image: Image) -> Oracle:
        left = {}
        with simulation.in_memory():
            for again in (False, True):
                place = simulation.restore(image)
                before = state_of(simulation, place)
                verb_case.run(simulation.machine(), place)
                after = twice = state_of(simulation, place)
                if again:
                    repeat(simulation, verb_case, place)
                    twice = state_of(simulation, place)
                left[again] = continue_and_purge(simulation, place, twice)
                simulation.clear(place)
        place, clean = simulation.restore(image), CrashInjector()
        verb_case.run(simulation.machine(clean, ids="cccc"), place)
        assert state_of(simulation, place) == after
        simulation.clear(place)
        return cls(image, tuple(clean.calls), before, after, twice, left)


def repeat(simulation: Simulation, verb_case: VerbCase, place: str) -> None:
    """Runs the verb again in a new process that does not crash."""
    if verb_case.repeat_error is None:
        verb_case.run(simulation.machine(), place)
        return
    with pytest.raises(verb_case.repeat_error):
        verb_case.run(simulation.machine(), place)


def continue_and_purge(simulation: Simulation, place: str, state: TableState | None) -> Shape:
    """Checks that the table remains usable and that a purge of everything expired leaves no garbage. Returns what remains."""
    now = simulation.ms
    if state is None and not it.exists(place, simulation.machine().options):
        create(simulation.machine(), place)
    for start in (900, 950):  # twice, since the last two checkpoints are kept
        table = simulation.machine().open(place)
        table.append(rows(start, "ab"))
        table.checkpoint()
        simulation.ms += 60 * DAY
    simulation.machine().open(place, **NO_CHECK).purge(older_than="0s", log_retention="0s")
    found = state_of(simulation, place)
    assert found is not None
    expected = [*(() if state is None else state.rows), *(row["id"] for start in (900, 950) for row in rows(start, "ab"))]
    assert list(found.rows) == sorted(expected)
    image = simulation.image(place)
    live = set(simulation.machine().open(place).files().column("path").to_pylist())
    assert {path for path in image if is_our_split(path)} == live
    manifests = {path for path in image if _MANIFEST.fullmatch(path)}
    assert manifests == _referenced_manifests(simulation, place, image)  # their number depends on how many states reused manifests
    simulation.ms = now
    return found, Counter(_normalized(path, data) for path, (data, _) in image.items() if path not in manifests)


def _referenced_manifests(simulation: Simulation, place: str, image: Image) -> set[str]:
    """The manifests that the existing states reference."""
    store = open_store(simulation.machine().spec(place))
    states = [int(found[1]) for path in image if (found := _STATE.fullmatch(path))]
    return {manifest_path(info.path, version) for version in states for info in read_state_manifest(store, version).manifests}


def _normalized(path: str, data: bytes) -> str:
    if is_our_split(path):
        return f"{path.rpartition('/')[0]} {ids_of(data)}"
    return re.sub(r"[0-9a-f]{32,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "*", path)


@dataclass
class CrashTester:
    simulation: Simulation
    points: int = 0
    seen: set[Any] = field(default_factory=set)
    ends: Counter[str] = field(default_factory=Counter)

    def all_of(self, verb_case: VerbCase, most: int | None = None) -> None:
        """Crashes at every crash point, or at a random sample of `most` of them."""
        simulation = self.simulation
        oracle = Oracle.of(simulation, verb_case, make_base_table(simulation, verb_case.base))
        assert oracle.calls, verb_case.name
        crash_points = CrashPoint.all_of(oracle.calls)
        if most is not None:
            crash_points = random.Random(f"{verb_case.name} {random_seed(0)}").sample(crash_points, min(most, len(crash_points)))
        for crash_point in crash_points:
            self.one(verb_case, oracle, crash_point)
        simulation.discard_machines()
        kinds = f"{len(self.seen)} distinct results: {dict(self.ends)}"
        print(f"R4 on {simulation.location.name}: {self.points} crash points of {verb_case.name}, {kinds}")
        assert self.points == sum(crash_point.points for crash_point in crash_points) >= 1
        assert self.ends.total() == len(self.seen) >= 1
        if most is None:
            assert self.points == 2 * len(oracle.calls) >= 4
            assert self.ends["before"] >= 1

    def one(self, verb_case: VerbCase, oracle: Oracle, crash_point: CrashPoint) -> None:
        place = self.end(verb_case, oracle, crash_point)
        self.points += crash_point.points
        image = self.simulation.image(place)
        left = (verb_case.name, frozenset((path, data if LOG_FOLDER in path else b"") for path, (data, _) in image.items()))
        if left not in self.seen:
            self.seen.add(left)
            try:
                self.ends[self.check(verb_case, oracle, place)] += 1
            except BaseException as error:
                call = oracle.calls[crash_point.at]
                error.add_note(
                    f"{verb_case.name}: {'after' if crash_point.after else 'before'} call {crash_point.at}, {call.verb} {call.path}"
                )
                raise
        self.simulation.clear(place)

    def end(self, verb_case: VerbCase, oracle: Oracle, crash_point: CrashPoint) -> str:
        """Crashes the verb at this point. Returns the address of the table."""
        place, crash = self.simulation.restore(oracle.image), CrashInjector(crash_point.at, crash_point.after)
        with pytest.raises(Crash):
            verb_case.run(self.simulation.machine(crash, ids="cccc"), place)
        assert crash.has_crashed
        assert tuple(crash.calls) == oracle.calls[: crash_point.at + 1], "a run must make the same calls every time"
        return place

    def twice(self, verb_case: VerbCase) -> None:
        """Crashes at every point, and crashes the following attempt at each of its points too."""
        simulation = self.simulation
        oracle = Oracle.of(simulation, verb_case, make_base_table(simulation, verb_case.base))
        for crash_point in CrashPoint.all_of(oracle.calls):
            place = self.end(verb_case, oracle, crash_point)
            image = simulation.image(place)
            simulation.clear(place)
            for again in CrashPoint.all_of(self.attempt(verb_case, oracle, image, CrashInjector()).calls):
                crash = self.attempt(verb_case, oracle, image, CrashInjector(again.at, again.after))
                assert crash.has_crashed
                self.points += crash_point.points * again.points
            simulation.discard_machines()

    def attempt(self, verb_case: VerbCase, oracle: Oracle, image: Image, crash: CrashInjector) -> CrashInjector:
        """Runs the verb on what an earlier attempt left."""
        simulation = self.simulation
        place = simulation.restore(image)
        simulation.count_names_from(2_000_000)
        with suppress(Crash, *([verb_case.repeat_error] if verb_case.repeat_error else [])):
            verb_case.run(simulation.machine(crash, ids="dddd"), place)
        assert state_of(simulation, place) in (oracle.before, oracle.after, oracle.twice), f"{verb_case.name}: {crash}"
        simulation.clear(place)
        return crash

    def check(self, verb_case: VerbCase, oracle: Oracle, place: str) -> str:
        """Checks the state after a crash, and that the verb can be retried and the table used."""
        simulation = self.simulation
        found = state_of(simulation, place)
        assert found in (oracle.before, oracle.after), (found, oracle.before, oracle.after)
        end, then = ("before", oracle.after) if found == oracle.before else ("after", oracle.twice)
        if end == "after" and verb_case.repeat_error is it.TableNotFound:
            with suppress(it.TableNotFound):  # files of a table that no longer exists
                verb_case.run(simulation.machine(), place)
        elif end == "after":
            repeat(simulation, verb_case, place)
        elif found is not None or verb_case.repeat_error is not it.TableNotFound:
            verb_case.run(simulation.machine(), place)
        assert state_of(simulation, place) == then
        left, expected = continue_and_purge(simulation, place, then), oracle.left[end == "after"]
        assert left == expected, (left, expected)
        return end
