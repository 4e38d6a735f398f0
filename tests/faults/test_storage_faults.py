"""R5: what a store may do to any request of any verb: it is retried within bounds and right, or told as one of our errors.

The requests are those of an object store, one level below the store's seam, so that the retries, the reading back and the deadlines are
the real ones; clocks are not, so that waiting takes no time. On a real connection: tests/contract/test_verbs_under_faults.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

import indextables as it
from indextables.storage import Store, StoreSpec
from indextables.storage.memory import MemoryStore
from indextables.storage.remote import RemoteStore
from tests.support.deeds import DEEDS, Deed, make_base
from tests.support.faulty_backend import STALE, Fault, FaultyBackend, Weather, faults_of, let_time_pass
from tests.support.grounds import Image, Memory
from tests.support.laboratory import Laboratory, TableState, laboratory_of, state_of
from tests.support.seam import Around, Call

Ends = tuple[TableState | None, TableState | None]  # before it and after it
Then = tuple[int, Callable[[Call], Fault]] | None
LONGEST = 420.0  # seconds: a store that is away is waited for 30 s by a request, and no verb sends many more after that
SHORT_ROUND = (
    "create json", "append", "append with txn", "overwrite", "replaceWhere", "merge_splits", "drop_partitions", "commit",
    "record_skipped_file", "upgrade_protocol", "checkpoint json", "checkpoint parquet", "checkpoint avro", "purge json", "purge avro",
    "truncate_history json", "repair", "drop appended", "append to avro, checkpoint and clean-up",
)  # fmt: skip


class Stormy(Memory):
    """Tables in memory behind requests that may fail."""

    weather = Weather()

    def store(self, spec: StoreSpec, around: Around) -> Store:
        return RemoteStore(spec, FaultyBackend(MemoryStore(spec), self.weather))


@dataclass
class Storms:
    laboratory: Laboratory
    ground: Stormy
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: set[tuple[str, str]] = field(default_factory=set)

    def clean(self, deed: Deed, image: Image) -> tuple[Weather, Ends]:
        self.ground.weather = Weather()
        place = self.laboratory.restore(image)
        before = state_of(self.laboratory, place)
        self.ground.weather = Weather()
        deed.run(self.laboratory.machine(ids="cccc"), place)
        clean, self.ground.weather = self.ground.weather, Weather()
        return clean, (before, state_of(self.laboratory, place))

    def one(self, deed: Deed, image: Image, at: int, fault: Fault, stays: bool, ends: Ends, then: Then = None) -> None:
        lab = self.laboratory
        place = lab.restore(image)
        weather = self.ground.weather = Weather(fault, at, stays, then)
        try:
            deed.run(lab.machine(ids="cccc"), place)
            outcome = "right"
        except it.CommitUnknown:
            outcome = "unknown"
        except it.IndexTablesError:
            outcome = "refused"
        call = weather.requests[at]
        more = f"{', for good' if stays else ''}{f', another at {then[0]}' if then else ''}"
        case = f"{deed.name}: {fault} at request {at}, {call.verb} {call.path}{more}: {outcome}"
        assert weather.struck >= 1, case
        assert weather.now - 1000 < LONGEST, case
        self.ground.weather = Weather()
        self.judge(deed, place, outcome, ends, case)
        self.cases += 1
        self.outcomes[outcome] += 1
        self.kinds.add((fault.name, call.verb))
        lab.clear(place)
        if self.cases % 50 == 0:
            lab.forget_machines()

    def judge(self, deed: Deed, place: str, outcome: str, ends: Ends, case: str) -> None:
        before, after = ends
        found = state_of(self.laboratory, place)
        allowed = {"right": [after], "refused": [before], "unknown": [before, after]}[outcome]
        if deed.name.startswith("drop "):  # it is repeated; until then nothing of the table is shown, or all
            allowed = [before, after]
        if deed.upgrades and found is not None and before is not None and found.version == before.version + 1:
            assert (found.rows, found.files) == (before.rows, before.files), case
            return
        if deed.name.startswith("merge_splits") and outcome == "right" and found is not None and after is not None:
            assert (found.rows, found.version <= after.version) == (after.rows, True), case  # what cannot be merged stays (SKP-07)
            return
        assert found in allowed, (case, found, before, after)


@pytest.fixture
def storms(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[Storms]:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path))
    ground = Stormy()
    with laboratory_of(monkeypatch, ground) as laboratory:
        let_time_pass(lambda: ground.weather, monkeypatch)
        yield Storms(laboratory, ground)


def storm(name: str, storms: Storms) -> None:
    """Each fault at each request of a verb, once; every fifth case has it stay."""
    (deed,) = [deed for deed in DEEDS if deed.name == name]
    image = make_base(storms.laboratory, deed.base)
    clean, ends = storms.clean(deed, image)
    for at, call in enumerate(clean.requests):
        for fault in faults_of(call):
            storms.one(deed, image, at, fault, fault is not STALE and storms.cases % 5 == 4, ends)
    print(f"R5: {name}: {storms.cases} cases of {len(storms.kinds)} kinds at {len(clean.requests)} requests: {dict(storms.outcomes)}")
    assert storms.cases == sum(len(faults_of(call)) for call in clean.requests) >= 15


@pytest.mark.parametrize("name", SHORT_ROUND)
def test_r5_every_fault_at_every_request(storms: Storms, name: str) -> None:
    storm(name, storms)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_r5_for_long(storms: Storms) -> None:
    """All verbs, all faults, once and for good."""
    for deed in DEEDS:
        image = make_base(storms.laboratory, deed.base)
        clean, ends = storms.clean(deed, image)
        for at, call in enumerate(clean.requests):
            for fault in faults_of(call):
                for stays in (False, True) if fault is not STALE else (False,):
                    storms.one(deed, image, at, fault, stays, ends)
    print(f"R5: {storms.cases} cases, {len(storms.kinds)} kinds: {dict(storms.outcomes)}")
    assert storms.cases > 10_000


PAIRS = 50  # of each verb


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_r5_two_faults_at_random(storms: Storms) -> None:
    """One, and another up to six requests later, which often strikes a second attempt or the reading back."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    def any_of(call: Call) -> Fault:
        return chance.choice([fault for fault in faults_of(call) if fault is not STALE])

    for deed in DEEDS:
        image = make_base(storms.laboratory, deed.base)
        clean, ends = storms.clean(deed, image)
        for _ in range(PAIRS):
            at = chance.randrange(len(clean.requests))
            storms.one(deed, image, at, any_of(clean.requests[at]), False, ends, (at + chance.randint(1, 6), any_of))
    print(f"R5: {storms.cases} pairs of faults, {len(storms.kinds)} kinds: {dict(storms.outcomes)}")
    assert storms.cases == PAIRS * len(DEEDS)
