"""R4 in memory: what takes many runs. Every single crash point of every verb, on local disk and on S3: tests/contract/test_crashes.py."""

from __future__ import annotations

from collections import Counter

import pytest

from indextables.paths import LOG_FOLDER, is_our_split
from tests.support.crashing import Crash, Crashes, Crashing
from tests.support.deeds import DEEDS, Deed, make_base, repair, repaired
from tests.support.laboratory import Laboratory, laboratory, state_of

__all__ = ["laboratory"]


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
