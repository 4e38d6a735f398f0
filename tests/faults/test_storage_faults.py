"""R5: any fault at any request of any verb is retried within bounds with the right result, or raises one of our errors.

Faults strike the requests to an object store, below the store interface, so retries, read-back and deadlines are the real ones. Clocks are
simulated, so that waiting takes no time. On real connections: tests/contract/test_verbs_under_faults.py.
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
from tests.support.faulty_backend import STALE, Fault, FaultPlan, FaultyBackend, faults_of, use_simulated_time
from tests.support.intercepted_store import Call, Interceptor
from tests.support.locations import Image, MemoryLocation
from tests.support.seeds import random_seed
from tests.support.simulation import Simulation, TableState, simulate, state_of
from tests.support.verb_cases import VERB_CASES, VerbCase, make_base_table

Ends = tuple[TableState | None, TableState | None]  # before and after the verb
Then = tuple[int, Callable[[Call], Fault]] | None
LONGEST = 420.0  # seconds; a request waits 30 s for a store that does not answer, and no verb sends many requests after that
SHORT_LIST = (
    "create json", "append", "append with txn", "overwrite", "replaceWhere", "merge_splits", "drop_partitions", "commit",
    "record_skipped_file", "upgrade_protocol", "checkpoint json", "checkpoint parquet", "checkpoint avro", "purge json", "purge avro",
    "truncate_history json", "repair", "drop appended", "append to avro, checkpoint and clean-up",
)  # fmt: skip


class FaultyLocation(MemoryLocation):
    """Tables in memory behind requests that can fail."""

    plan = FaultPlan()

    def store(self, spec: StoreSpec, intercept: Interceptor) -> Store:
        return RemoteStore(spec, FaultyBackend(MemoryStore(spec), self.plan))


@dataclass
class FaultTester:
    simulation: Simulation
    location: FaultyLocation
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: set[tuple[str, str]] = field(default_factory=set)

    def clean(self, verb_case: VerbCase, image: Image) -> tuple[FaultPlan, Ends]:
        self.location.plan = FaultPlan()
        place = self.simulation.restore(image)
        before = state_of(self.simulation, place)
        self.location.plan = FaultPlan()
        verb_case.run(self.simulation.machine(ids="cccc"), place)
        clean, self.location.plan = self.location.plan, FaultPlan()
        return clean, (before, state_of(self.simulation, place))

    def one(self, verb_case: VerbCase, image: Image, at: int, fault: Fault, permanent: bool, ends: Ends, then: Then = None) -> None:
        simulation = self.simulation
        place = simulation.restore(image)
        plan = self.location.plan = FaultPlan(fault, at, permanent, then)
        try:
            verb_case.run(simulation.machine(ids="cccc"), place)
            outcome = "right"
        except it.CommitUnknown:
            outcome = "unknown"
        except it.IndexTablesError:
            outcome = "refused"
        call = plan.requests[at]
        more = f"{', permanent' if permanent else ''}{f', another at {then[0]}' if then else ''}"
        case = f"{verb_case.name}: {fault} at request {at}, {call.verb} {call.path}{more}: {outcome}"
        assert plan.struck >= 1, case
        assert plan.now - 1000 < LONGEST, case
        self.location.plan = FaultPlan()
        self.check(verb_case, place, outcome, ends, case)
        self.cases += 1
        self.outcomes[outcome] += 1
        self.kinds.add((fault.name, call.verb))
        simulation.clear(place)
        if self.cases % 50 == 0:
            simulation.discard_machines()

    def check(self, verb_case: VerbCase, place: str, outcome: str, ends: Ends, case: str) -> None:
        before, after = ends
        found = state_of(self.simulation, place)
        allowed = {"right": [after], "refused": [before], "unknown": [before, after]}[outcome]
        if verb_case.name.startswith("drop "):  # an interrupted drop is repeated; until then the table is either complete or gone
            allowed = [before, after]
        if verb_case.upgrades and found is not None and before is not None and found.version == before.version + 1:
            assert (found.rows, found.files) == (before.rows, before.files), case
            return
        if verb_case.name.startswith("merge_splits") and outcome == "right" and found is not None and after is not None:
            assert (found.rows, found.version <= after.version) == (after.rows, True), case  # splits that cannot be merged stay (SKP-07)
            return
        assert found in allowed, (case, found, before, after)


@pytest.fixture
def tester(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[FaultTester]:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path))
    location = FaultyLocation()
    with simulate(monkeypatch, location) as simulation:
        use_simulated_time(lambda: location.plan, monkeypatch)
        yield FaultTester(simulation, location)


def inject_all_faults(name: str, tester: FaultTester) -> None:
    """Each fault at each request of a verb, once. Every fifth fault is permanent."""
    (verb_case,) = [verb_case for verb_case in VERB_CASES if verb_case.name == name]
    image = make_base_table(tester.simulation, verb_case.base)
    clean, ends = tester.clean(verb_case, image)
    for at, call in enumerate(clean.requests):
        for fault in faults_of(call):
            tester.one(verb_case, image, at, fault, fault is not STALE and tester.cases % 5 == 4, ends)
    print(f"R5: {name}: {tester.cases} cases of {len(tester.kinds)} kinds at {len(clean.requests)} requests: {dict(tester.outcomes)}")
    assert tester.cases == sum(len(faults_of(call)) for call in clean.requests) >= 15


@pytest.mark.parametrize("name", SHORT_LIST)
def test_r5_every_fault_at_every_request(tester: FaultTester, name: str) -> None:
    inject_all_faults(name, tester)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_r5_every_fault_at_every_request_of_all_verbs(tester: FaultTester) -> None:
    """Each fault strikes once, and permanently."""
    for verb_case in VERB_CASES:
        image = make_base_table(tester.simulation, verb_case.base)
        clean, ends = tester.clean(verb_case, image)
        for at, call in enumerate(clean.requests):
            for fault in faults_of(call):
                for permanent in (False, True) if fault is not STALE else (False,):
                    tester.one(verb_case, image, at, fault, permanent, ends)
    print(f"R5: {tester.cases} cases, {len(tester.kinds)} kinds: {dict(tester.outcomes)}")
    assert tester.cases > 10_000


PAIRS = 50  # for each verb


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_r5_two_faults_at_random(tester: FaultTester) -> None:
    """The second fault strikes up to six requests after the first, often a retry or the read-back."""
    seed = random_seed()
    chance = random.Random(seed)

    def any_of(call: Call) -> Fault:
        return chance.choice([fault for fault in faults_of(call) if fault is not STALE])

    for verb_case in VERB_CASES:
        image = make_base_table(tester.simulation, verb_case.base)
        clean, ends = tester.clean(verb_case, image)
        for _ in range(PAIRS):
            at = chance.randrange(len(clean.requests))
            tester.one(verb_case, image, at, any_of(clean.requests[at]), False, ends, (at + chance.randint(1, 6), any_of))
    print(f"R5: {tester.cases} pairs of faults, {len(tester.kinds)} kinds: {dict(tester.outcomes)}")
    assert tester.cases == PAIRS * len(VERB_CASES)
