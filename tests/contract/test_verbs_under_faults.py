"""R5 on a real connection: every request of a verb, reads and listings included, may fail. R3 covers the writes alone.

A single fault is retried. A permanent one is reported as one of our errors and leaves the table unchanged, or as CommitUnknown, and then
nothing was cleaned up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

import indextables as it
from indextables.storage import open_store
from tests.contract.conftest import spec_of
from tests.contract.test_lost_answers import FOR_ALL_AGES, OPERATIONS, Bases, Operation, bases, state
from tests.support.fault_proxy import FaultProxy, Request
from tests.support.s3 import options

__all__ = ["bases"]

VERBS = ("append", "overwrite", "merge_splits", "checkpoint", "purge")
ONCE = ("500", "503", "reset", "apply_reset")  # the last is an answer that is lost
BEFORE = {"appended": (2, 6), "replaced": (2, 2)}


@dataclass
class Round:
    operation: Operation
    proxy: FaultProxy
    bases: Bases
    outcomes: Counter[str] = field(default_factory=Counter)

    def run(self, place: str, timeout: str) -> str:
        """Runs the verb; returns the outcome as its caller sees it."""
        settings = {**options(self.proxy.url, timeout), **FOR_ALL_AGES}
        try:
            report = self.operation.run(place, settings)
        except it.CommitUnknown:
            return "unknown"
        except it.IndexTablesError:
            return "refused"
        return "right" if getattr(report, "status", "success") == "success" else "partial"

    def clean(self) -> list[Request]:
        """The requests of a run without faults."""
        place = self.bases.copy(self.operation.base)
        self.proxy.clear()
        assert self.run(place, "20s") == "right"
        requests = list(self.proxy.log)
        self.proxy.clear()
        assert state(place, self.bases.server) == self.operation.after
        self.splits = self.count_splits(place)
        return requests

    def strike(self, fault: str, number: int) -> str:
        outcome = self.one(fault, number, 1, "20s")
        assert outcome is not None, (self.operation.name, fault, number)
        return outcome

    def strike_for_good(self, fault: str, number: int) -> str:
        """Every request fails from this one on. A busy machine may not get that far in time, and is given more."""
        outcomes = (self.one(fault, number, 10_000, timeout) for timeout in ("500ms", "3s", "20s"))
        return next(outcome for outcome in outcomes if outcome is not None)

    def one(self, fault: str, number: int, times: int, timeout: str) -> str | None:
        """The outcome; None if the fault hit no request."""
        place = self.bases.copy(self.operation.base)
        self.proxy.clear()
        self.proxy.rule(fault, skip=number, times=times)
        outcome = self.run(place, timeout)
        case = f"{self.operation.name}: {fault} at request {number}, {times} times, {timeout}: {outcome}"
        requests = list(self.proxy.log)
        self.proxy.clear()
        if outcome == "unknown":
            assert "DELETE" not in {request.method for request in requests}, case
        self.judge(place, outcome, case)
        if fault not in {request.action for request in requests}:
            return None
        self.outcomes[outcome] += 1
        return outcome

    def judge(self, place: str, outcome: str, case: str) -> None:
        before, after = BEFORE[self.operation.base], self.operation.after
        found = state(place, self.bases.server)
        assert found in {"right": [after], "refused": [before]}.get(outcome, [before, after]), (case, found)
        if outcome == "right":
            assert self.count_splits(place) == self.splits, case
        elif found == before:  # the next attempt succeeds
            assert self.run(place, "20s") == "right", case
            assert state(place, self.bases.server) == after, case

    def count_splits(self, place: str) -> int:
        store = open_store(spec_of(place, **self.bases.server.options))
        return sum(entry.path.endswith(".split") for entry in store.list(""))


def strike_all(name: str, proxy: FaultProxy, bases: Bases, *, all_faults: bool) -> None:
    (operation,) = [operation for operation in OPERATIONS if operation.name == name]
    struck = Round(operation, proxy, bases)
    requests = struck.clean()
    once = [(fault, number) for number in range(len(requests)) for fault in (ONCE if all_faults else [ONCE[number % len(ONCE)]])]
    small = [number for number, request in enumerate(requests) if request.method == "GET" and 64 < request.answered < 1024]
    once += [("slow", number) for number in small[: None if all_faults else 1]]
    for fault, number in once:
        assert struck.strike(fault, number) == "right", (name, fault, number)
    writes = [number for number, request in enumerate(requests) if request.method in ("PUT", "DELETE")]
    for number in writes:
        assert struck.strike_for_good("503", number) != "right", (name, number)
    print(f"R5 on a connection: {name}: {struck.outcomes.total()} cases at {len(requests)} requests: {dict(struck.outcomes)}")
    assert len(writes) == operation.writes
    assert {fault for fault, _ in once} == {*ONCE, "slow"}
    assert struck.outcomes.total() == len(once) + len(writes) >= (len(ONCE) if all_faults else 1) * len(requests) + 1 + operation.writes


@pytest.mark.parametrize("name", VERBS)
def test_r5_a_fault_at_every_request_on_a_real_connection(name: str, proxy: FaultProxy, bases: Bases) -> None:
    """A fault at each request, and a store that stays unreachable from each write on."""
    strike_all(name, proxy, bases, all_faults=False)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", VERBS)
def test_r5_every_fault_at_every_request_on_a_real_connection(name: str, proxy: FaultProxy, bases: Bases) -> None:
    strike_all(name, proxy, bases, all_faults=True)
