"""R4: a process that ends before or after any storage call of any verb leaves the table as it was, or as it was to become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

import indextables as it
from indextables.paths import LOG_FOLDER, is_our_split
from tests.support.deeds import DAY, DEEDS, NO_CHECK, Deed, create, make_base, repair, repaired, rows
from tests.support.laboratory import Call, Image, Laboratory, TableState, laboratory, state_of

__all__ = ["laboratory"]


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
class Oracle:
    """What a verb comes to where nothing happens: the table before it, after it, and after a second one."""

    image: Image
    calls: tuple[Call, ...]
    before: TableState | None
    after: TableState | None
    twice: TableState | None

    @classmethod
    def of(cls, laboratory: Laboratory, deed: Deed, image: Image) -> Oracle:
        place = laboratory.restore(image)
        before = state_of(laboratory, place)
        clean = Crashing()
        deed.run(laboratory.machine(clean), place)
        after = state_of(laboratory, place)
        repeat(laboratory, deed, place)
        return cls(image, tuple(clean.calls), before, after, state_of(laboratory, place))


def repeat(laboratory: Laboratory, deed: Deed, place: str) -> None:
    """By a new process, which nothing befalls."""
    if deed.over is None:
        deed.run(laboratory.machine(), place)
        return
    with pytest.raises(deed.over):
        deed.run(laboratory.machine(), place)


@dataclass
class Crashes:
    laboratory: Laboratory
    points: int = 0
    seen: set[Any] = field(default_factory=set)
    ends: Counter[str] = field(default_factory=Counter)

    def all_of(self, deed: Deed) -> None:
        lab = self.laboratory
        image = make_base(lab, deed.base)
        oracle = Oracle.of(lab, deed, image)
        assert oracle.calls, deed.name
        for at in range(len(oracle.calls)):
            for after in (False, True):
                self.one(deed, oracle, at, after)
        lab.forget_machines()

    def one(self, deed: Deed, oracle: Oracle, at: int, after: bool) -> None:
        lab = self.laboratory
        place = lab.restore(oracle.image)
        crash = Crashing(at, after)
        case = f"{deed.name}: {'after' if after else 'before'} call {at}, {oracle.calls[at].verb} {oracle.calls[at].path}"
        with pytest.raises(Crash):
            deed.run(lab.machine(crash, ids="cccc"), place)
        assert crash.is_over, case
        self.points += 1
        image = lab.image(place)
        left = (deed.name, frozenset((path, data if LOG_FOLDER in path else b"") for path, (data, _) in image.items()))
        if left not in self.seen:
            self.seen.add(left)
            try:
                self.ends[self.judge(deed, oracle, place)] += 1
            except BaseException as error:
                error.add_note(case)
                raise
        lab.clear(place)

    def twice(self, deed: Deed) -> None:
        """Every crash, and in the attempt that follows it every crash again: the remains of each are as good as those of one."""
        lab = self.laboratory
        oracle = Oracle.of(lab, deed, make_base(lab, deed.base))
        ends = (oracle.before, oracle.after, oracle.twice)
        for at in range(len(oracle.calls)):
            place = lab.restore(oracle.image)
            with pytest.raises(Crash):
                deed.run(lab.machine(Crashing(at, True), ids="cccc"), place)
            image = lab.image(place)
            for again in range(2 * len(oracle.calls) + 20):
                place = lab.restore(image)
                lab.count_names_from(2_000_000)
                crash = Crashing(again, True)
                with suppress(Crash, *([deed.over] if deed.over else [])):
                    deed.run(lab.machine(crash, ids="dddd"), place)
                self.points += 1
                found = state_of(lab, place)
                upgraded = deed.upgrades and found is not None and oracle.before is not None and found.rows == oracle.before.rows
                assert found in ends or upgraded, f"{deed.name}: crashes after calls {at} and {again}"
                lab.clear(place)
                if not crash.is_over:
                    break
            lab.forget_machines()

    def judge(self, deed: Deed, oracle: Oracle, place: str) -> str:
        """What was left, and that one can go on from there."""
        lab = self.laboratory
        found = state_of(lab, place)
        if found == oracle.before:
            end, then = "before", oracle.after
        elif found == oracle.after:
            end, then = "after", oracle.twice
        else:
            assert deed.upgrades, (found, oracle.before, oracle.after)
            assert found is not None
            assert oracle.before is not None
            assert (found.version, found.rows, found.files) == (oracle.before.version + 1, oracle.before.rows, oracle.before.files)
            end, then = "upgraded", oracle.after
        if end == "after" and deed.over is it.TableNotFound:
            with suppress(it.TableNotFound):  # what is left of a table that is none any more
                deed.run(lab.machine(), place)
        elif end == "after":
            repeat(lab, deed, place)
        elif found is not None or deed.over is not it.TableNotFound:
            deed.run(lab.machine(), place)
        assert state_of(lab, place) == then
        self.go_on(place, then)
        return end

    def go_on(self, place: str, state: TableState | None) -> None:
        """Another verb works, and a purge, when all is old, leaves nothing that is of no use."""
        lab = self.laboratory
        if state is None and not it.exists(place, lab.machine().options):
            create(lab.machine(), place)
        lab.machine().open(place).append(rows(900, "ab"))
        lab.ms += 60 * DAY
        machine = lab.machine()
        table = machine.open(place)
        table.checkpoint()
        lab.ms += 60 * DAY
        lab.machine().open(place, **NO_CHECK).purge(older_than="0s", log_retention="0s")
        found = state_of(lab, place)
        assert found is not None
        expected = [*(() if state is None else state.rows), *(row["id"] for row in rows(900, "ab"))]
        assert list(found.rows) == sorted(expected)
        live = set(lab.machine().open(place).files().column("path").to_pylist())
        assert {path for path in lab.image(place) if is_our_split(path)} == live
        lab.ms -= 120 * DAY


def test_r4_every_single_crash_point_of_every_verb(laboratory: Laboratory) -> None:
    crashes = Crashes(laboratory)
    for deed in DEEDS:
        crashes.all_of(deed)
    assert {deed.name for deed in DEEDS} == {name for name, _ in crashes.seen}
    print(f"R4: {crashes.points} crash points of {len(DEEDS)} operations, {len(crashes.seen)} different remains: {dict(crashes.ends)}")
    assert crashes.points > 500


def test_r4_a_repair_that_was_cut_off_leaves_no_log_that_looks_whole(laboratory: Laboratory) -> None:
    """Its destination is a log folder: put in place of the old one, it is no table, or the table."""
    image = make_base(laboratory, "lived json")
    whole = state_of(laboratory, laboratory.restore(image))
    assert whole is not None
    splits = {path: value for path, value in image.items() if is_our_split(path)}
    clean = Crashing()
    repair(laboratory.machine(clean), laboratory.restore(image))
    found: Counter[bool] = Counter()
    for at in range(len(clean.calls)):
        for after in (False, True):
            place, machine = laboratory.restore(image), laboratory.machine(Crashing(at, after))
            with pytest.raises(Crash):
                repair(machine, place)
            made = laboratory.image(repaired(machine, place))
            state = state_of(laboratory, laboratory.restore({**splits, **{f"{LOG_FOLDER}/{path}": file for path, file in made.items()}}))
            assert state is None or (state.rows, state.files) == (whole.rows, whole.files)
            assert laboratory.image(place) == image
            found[state is not None] += 1
    assert found[True] == 1, "only the very last call makes it a table"
    assert found[False] == 2 * len(clean.calls) - 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
def test_r4_pairs_of_crash_points(laboratory: Laboratory, deed: Deed) -> None:
    crashes = Crashes(laboratory)
    crashes.twice(deed)
    print(f"R4: {crashes.points} pairs of crash points of {deed.name}")
    assert crashes.points >= 5
