"""R6 in memory, where most interleavings can be run. On local disk and S3: tests/contract/test_interleavings.py."""

from __future__ import annotations

import itertools

import pytest

import indextables as it
from tests.support.concurrent_verbs import PAIRS, ConcurrentVerbs, base_tables_for, explore
from tests.support.interleaving import at_random
from tests.support.seeds import random_seed
from tests.support.simulation import Simulation, simulation
from tests.support.verb_cases import VERBS, make_base_table

__all__ = ["simulation"]

ALL = list(itertools.combinations_with_replacement(VERBS, 2))
OTHERS = [names for names in ALL if {*names} not in [{*pair} for pair in PAIRS]]


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_r6_every_interleaving_of_two(simulation: Simulation, names: tuple[str, ...]) -> None:
    """If there are more than `most` distinct interleavings: the first ones and a random sample. The slow test runs many more."""
    explore(simulation, names, most=40, sampled=10)


@pytest.mark.parametrize("names", OTHERS, ids=" and ".join)
def test_r6_some_interleavings_of_every_other_pair(simulation: Simulation, names: tuple[str, ...]) -> None:
    assert len(OTHERS) + len(PAIRS) == len(ALL) == 78
    explore(simulation, names, most=6, sampled=3)


def test_a_handle_whose_state_was_truncated_says_that_its_version_has_expired(simulation: Simulation) -> None:
    """The log is not damaged: the files of the handle's version were deleted before it loaded them."""
    place = simulation.restore(make_base_table(simulation, "aged avro"))
    with simulation.in_memory():
        stale, other = (simulation.machine().open(place) for _ in range(2))
        VERBS["overwrite"](other)
        VERBS["truncate_history"](other)
        with pytest.raises(it.VersionNotFound, match=f"version {stale.version} of .* has expired"):
            stale.files()
        assert stale.refresh().count() == other.count()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("names", ALL, ids=" and ".join)
def test_r6_every_pair_of_verbs(simulation: Simulation, names: tuple[str, ...]) -> None:
    explore(simulation, names, most=3000, sampled=300)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_r6_three_concurrent_verbs(simulation: Simulation) -> None:
    first = random_seed(0)
    seeds = itertools.count(first)
    images = {base: make_base_table(simulation, base) for base in ("appended", "aged json", "aged avro")}
    for names in itertools.combinations(VERBS, 3):
        for base in base_tables_for(names):
            concurrent = ConcurrentVerbs(simulation, images[base], names)
            for _ in range(20):
                assert concurrent.run(at_random(next(seeds))), names
    assert next(seeds) - first > 3000
