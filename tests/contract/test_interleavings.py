"""R6 on local disk and on a real S3 server; tests/faults/test_interleavings.py does the same in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.concurrent_verbs import PAIRS, base_tables_for, explore
from tests.support.locations import DiskLocation, S3Location
from tests.support.s3 import Server
from tests.support.simulation import Simulation, simulate

OF_COMMITS = [names for names in PAIRS if base_tables_for(names) == ["appended"]]  # which have few orders
OF_LOGS = [names for names in PAIRS if names not in OF_COMMITS]


@pytest.fixture(params=["disk", "s3"])
def simulation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Simulation]:
    location = DiskLocation(tmp_path) if request.param == "disk" else S3Location(_server(request))
    with simulate(monkeypatch, location) as made:
        yield made


def _server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue("mini")
    return server


def test_r6_number_of_pairs() -> None:
    assert len(OF_COMMITS) >= 10
    assert len(OF_LOGS) >= 7


@pytest.mark.parametrize("names", OF_COMMITS, ids=" and ".join)
def test_r6_every_interleaving_of_two_commits(simulation: Simulation, names: tuple[str, ...]) -> None:
    explore(simulation, names, most=40, sampled=10)


@pytest.mark.parametrize("names", OF_LOGS, ids=" and ".join)
def test_r6_interleavings_with_cleanup(simulation: Simulation, names: tuple[str, ...]) -> None:
    """The first orders and some random ones: there are hundreds."""
    explore(simulation, names, most=3, sampled=3)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("names", OF_LOGS, ids=" and ".join)
def test_r6_most_interleavings_with_cleanup(simulation: Simulation, names: tuple[str, ...]) -> None:
    explore(simulation, names, most=200, sampled=50)
