"""R4: a process that ends before or after any storage call of any verb leaves the table as it was, or as it was to become.

What it leaves is the same before a call and after the one before it, and wherever it only reads: so a process ends once for each call that
changes something, and once before all of them, and these are all its crash points.
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
from tests.support.deeds import DAY, NO_CHECK, Deed, create, make_base, rows
from tests.support.grounds import Image
from tests.support.laboratory import Laboratory, TableState, ids_of, state_of
from tests.support.seam import Call

_STATE = re.compile(rf"{LOG_FOLDER}/state-v([0-9]{{20}})/_manifest\.[a-z]+")
_MANIFEST = re.compile(rf"{LOG_FOLDER}/manifests/[^/]+")
Shape = tuple[TableState | None, Counter[str]]  # what a table holds, and the names of all its files but for what is random in them


class Crash(BaseException):
    """The end of a process: nothing may catch it, and nothing reaches the store after it."""


@dataclass
class Crashing:
    """Ends its machine right before or right after call number `at`."""

    at: int | None = None
    after: bool = False
    calls: list[Call] = field(default_factory=list)
    is_over: bool = False

    def __call__(self, call: Call, perform: Callable[[], Any]) -> Any:
        if self.is_over:
            raise Crash
        self.calls.append(call)
        if len(self.calls) - 1 != self.at:
            return perform()
        self.is_over = True
        if self.after:
            with suppress(FileNotFoundError):
                perform()
        raise Crash


@dataclass(frozen=True)
class Moment:
    """Right before or right after a call; `points` crash points are this one moment."""

    at: int
    after: bool
    points: int

    @classmethod
    def all_of(cls, calls: tuple[Call, ...]) -> list[Moment]:
        changes = [number for number, call in enumerate(calls) if call.changes]
        edges = [-1, *changes, len(calls)]
        first = 2 * (changes[0] if changes else len(calls)) + 1
        return [
            cls(0, False, first if changes else first - 1),
            *(cls(here, True, 2 * (after - here) - (after == len(calls))) for here, after in zip(changes, edges[2:], strict=True)),
        ]


@dataclass(frozen=True)
class Oracle:
    """What a verb comes to where nothing happens: the table before it, after it, and after a second one."""

    image: Image
    calls: tuple[Call, ...]
    before: TableState | None
    after: TableState | None
    twice: TableState | None
    left: dict[bool, Shape]  # when all is old and purged: after one, and after two

    @classmethod
    def of(cls, laboratory: Laboratory, deed: Deed, image: Image) -> Oracle:
        left = {}
        with laboratory.in_memory():
            for again in (False, True):
                place = laboratory.restore(image)
                before = state_of(laboratory, place)
                deed.run(laboratory.machine(), place)
                after = twice = state_of(laboratory, place)
                if again:
                    repeat(laboratory, deed, place)
                    twice = state_of(laboratory, place)
                left[again] = go_on(laboratory, place, twice)
                laboratory.clear(place)
        place, clean = laboratory.restore(image), Crashing()
        deed.run(laboratory.machine(clean, ids="cccc"), place)
        assert state_of(laboratory, place) == after
        laboratory.clear(place)
        return cls(image, tuple(clean.calls), before, after, twice, left)


def repeat(laboratory: Laboratory, deed: Deed, place: str) -> None:
    """By a new process, which nothing befalls."""
    if deed.over is None:
        deed.run(laboratory.machine(), place)
        return
    with pytest.raises(deed.over):
        deed.run(laboratory.machine(), place)


def go_on(laboratory: Laboratory, place: str, state: TableState | None) -> Shape:
    """Another verb works, and a purge, when all is old, leaves nothing that is of no use: all that lies there then."""
    lab, now = laboratory, laboratory.ms
    if state is None and not it.exists(place, lab.machine().options):
        create(lab.machine(), place)
    for start in (900, 950):  # twice, since the last checkpoint but one is kept as well
        table = lab.machine().open(place)
        table.append(rows(start, "ab"))
        table.checkpoint()
        lab.ms += 60 * DAY
    lab.machine().open(place, **NO_CHECK).purge(older_than="0s", log_retention="0s")
    found = state_of(lab, place)
    assert found is not None
    expected = [*(() if state is None else state.rows), *(row["id"] for start in (900, 950) for row in rows(start, "ab"))]
    assert list(found.rows) == sorted(expected)
    image = lab.image(place)
    live = set(lab.machine().open(place).files().column("path").to_pylist())
    assert {path for path in image if is_our_split(path)} == live
    manifests = {path for path in image if _MANIFEST.fullmatch(path)}
    assert manifests == _named(lab, place, image)  # how many there are depends on how often a state was made of another
    lab.ms = now
    return found, Counter(_plain(path, data) for path, (data, _) in image.items() if path not in manifests)


def _named(laboratory: Laboratory, place: str, image: Image) -> set[str]:
    """The manifests of all states that are there."""
    store = laboratory.machine().spec(place).open()
    states = [int(found[1]) for path in image if (found := _STATE.fullmatch(path))]
    return {manifest_path(info.path, version) for version in states for info in read_state_manifest(store, version).manifests}


def _plain(path: str, data: bytes) -> str:
    if is_our_split(path):
        return f"{path.rpartition('/')[0]} {ids_of(data)}"
    return re.sub(r"[0-9a-f]{32,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "*", path)


@dataclass
class Crashes:
    laboratory: Laboratory
    points: int = 0
    seen: set[Any] = field(default_factory=set)
    ends: Counter[str] = field(default_factory=Counter)

    def all_of(self, deed: Deed, most: int | None = None) -> None:
        """`most`: so many of its moments, which the verb's name decides upon."""
        lab = self.laboratory
        oracle = Oracle.of(lab, deed, make_base(lab, deed.base))
        assert oracle.calls, deed.name
        moments = Moment.all_of(oracle.calls)
        if most is not None:
            moments = random.Random(deed.name).sample(moments, min(most, len(moments)))
        for moment in moments:
            self.one(deed, oracle, moment)
        lab.forget_machines()
        kinds = f"{len(self.seen)} different remains: {dict(self.ends)}"
        print(f"R4 on {lab.ground.name}: {self.points} crash points of {deed.name}, {kinds}")
        assert self.points == sum(moment.points for moment in moments) >= 1
        assert self.ends.total() == len(self.seen) >= 1
        if most is None:
            assert self.points == 2 * len(oracle.calls) >= 4
            assert self.ends["before"] >= 1

    def one(self, deed: Deed, oracle: Oracle, moment: Moment) -> None:
        place = self.end(deed, oracle, moment)
        self.points += moment.points
        image = self.laboratory.image(place)
        left = (deed.name, frozenset((path, data if LOG_FOLDER in path else b"") for path, (data, _) in image.items()))
        if left not in self.seen:
            self.seen.add(left)
            try:
                self.ends[self.judge(deed, oracle, place)] += 1
            except BaseException as error:
                call = oracle.calls[moment.at]
                error.add_note(f"{deed.name}: {'after' if moment.after else 'before'} call {moment.at}, {call.verb} {call.path}")
                raise
        self.laboratory.clear(place)

    def end(self, deed: Deed, oracle: Oracle, moment: Moment) -> str:
        """Where a process lay when it ended."""
        place, crash = self.laboratory.restore(oracle.image), Crashing(moment.at, moment.after)
        with pytest.raises(Crash):
            deed.run(self.laboratory.machine(crash, ids="cccc"), place)
        assert crash.is_over
        assert tuple(crash.calls) == oracle.calls[: moment.at + 1], "it does the same every time"
        return place

    def twice(self, deed: Deed) -> None:
        """Every crash, and in the attempt that follows it every crash again: the remains of each are as good as those of one."""
        lab = self.laboratory
        oracle = Oracle.of(lab, deed, make_base(lab, deed.base))
        for moment in Moment.all_of(oracle.calls):
            place = self.end(deed, oracle, moment)
            image = lab.image(place)
            lab.clear(place)
            for again in Moment.all_of(self.attempt(deed, oracle, image, Crashing()).calls):
                crash = self.attempt(deed, oracle, image, Crashing(again.at, again.after))
                assert crash.is_over
                self.points += moment.points * again.points
            lab.forget_machines()

    def attempt(self, deed: Deed, oracle: Oracle, image: Image, crash: Crashing) -> Crashing:
        """On what another one left."""
        lab = self.laboratory
        place = lab.restore(image)
        lab.count_names_from(2_000_000)
        with suppress(Crash, *([deed.over] if deed.over else [])):
            deed.run(lab.machine(crash, ids="dddd"), place)
        assert state_of(lab, place) in (oracle.before, oracle.after, oracle.twice), f"{deed.name}: {crash}"
        lab.clear(place)
        return crash

    def judge(self, deed: Deed, oracle: Oracle, place: str) -> str:
        """What was left, and that one can go on from there."""
        lab = self.laboratory
        found = state_of(lab, place)
        assert found in (oracle.before, oracle.after), (found, oracle.before, oracle.after)
        end, then = ("before", oracle.after) if found == oracle.before else ("after", oracle.twice)
        if end == "after" and deed.over is it.TableNotFound:
            with suppress(it.TableNotFound):  # what is left of a table that is none any more
                deed.run(lab.machine(), place)
        elif end == "after":
            repeat(lab, deed, place)
        elif found is not None or deed.over is not it.TableNotFound:
            deed.run(lab.machine(), place)
        assert state_of(lab, place) == then
        left, expected = go_on(lab, place, then), oracle.left[end == "after"]
        assert left == expected, (left, expected)
        return end
