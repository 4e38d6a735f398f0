"""R4 in memory, for tests that need many runs. Single crash points on local disk and on S3: tests/contract/test_crashes.py."""

from __future__ import annotations

from collections import Counter

import pytest

from indextables.paths import LOG_FOLDER, is_our_split
from tests.support.crash_points import Crash, CrashInjector, CrashTester
from tests.support.simulation import Simulation, simulation, state_of
from tests.support.verb_cases import VERB_CASES, VerbCase, make_base_table, repair, repair_target

__all__ = ["simulation"]


def test_r4_an_interrupted_repair_leaves_no_log_that_can_be_opened(simulation: Simulation) -> None:
    """The target used as the log folder is no table, or the complete table."""
    image = make_base_table(simulation, "aged json")
    whole = state_of(simulation, simulation.restore(image))
    assert whole is not None
    splits = {path: value for path, value in image.items() if is_our_split(path)}
    clean = CrashInjector()
    repair(simulation.machine(clean), simulation.restore(image))
    found: Counter[bool] = Counter()
    for at in range(len(clean.calls)):
        for after in (False, True):
            place, machine = simulation.restore(image), simulation.machine(CrashInjector(at, after))
            with pytest.raises(Crash):
                repair(machine, place)
            made = simulation.image(repair_target(machine, place))
            state = state_of(simulation, simulation.restore({**splits, **{f"{LOG_FOLDER}/{path}": file for path, file in made.items()}}))
            assert state is None or (state.rows, state.files) == (whole.rows, whole.files)
            assert simulation.image(place) == image
            found[state is not None] += 1
    assert found[True] == 1, "only the last call completes the log"
    assert found[False] == 2 * len(clean.calls) - 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("verb_case", VERB_CASES, ids=lambda verb_case: verb_case.name)
def test_r4_pairs_of_crash_points(simulation: Simulation, verb_case: VerbCase) -> None:
    tester = CrashTester(simulation)
    tester.twice(verb_case)
    print(f"R4: {tester.points} pairs of crash points of {verb_case.name}")
    assert tester.points >= 5
