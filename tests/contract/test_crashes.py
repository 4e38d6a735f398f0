"""R4 on local disk, where a process may also crash between the steps of one storage call, and on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_points import CrashTester
from tests.support.locations import DiskLocation, S3Location
from tests.support.s3 import Server
from tests.support.simulation import Simulation, simulate
from tests.support.verb_cases import VERB_CASES, VerbCase


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Simulation]:
    with simulate(monkeypatch, DiskLocation(tmp_path, intercept_file_system=True)) as made:
        yield made


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, mini: Server) -> Iterator[Simulation]:
    with simulate(monkeypatch, S3Location(mini)) as made:
        yield made


@pytest.mark.parametrize("verb_case", VERB_CASES, ids=lambda verb_case: verb_case.name)
def test_r4_every_single_crash_point_on_local_disk(disk: Simulation, verb_case: VerbCase) -> None:
    CrashTester(disk).all_of(verb_case)


@pytest.mark.parametrize("verb_case", VERB_CASES, ids=lambda verb_case: verb_case.name)
def test_r4_crash_points_on_s3(bucket: Simulation, verb_case: VerbCase) -> None:
    """Two random crash points of each verb; the slow test tries all."""
    CrashTester(bucket).all_of(verb_case, most=2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("verb_case", VERB_CASES, ids=lambda verb_case: verb_case.name)
def test_r4_every_single_crash_point_on_s3(bucket: Simulation, verb_case: VerbCase) -> None:
    CrashTester(bucket).all_of(verb_case)
