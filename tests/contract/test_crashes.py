"""R4 where tables lie: on local disk, where a process may also end between the steps of a single storage call, and on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crashing import Crashes
from tests.support.deeds import DEEDS, Deed
from tests.support.grounds import Bucket, Disk
from tests.support.laboratory import Laboratory, laboratory_of
from tests.support.s3 import Server


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Laboratory]:
    with laboratory_of(monkeypatch, Disk(tmp_path, in_steps=True)) as made:
        yield made


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, mini: Server) -> Iterator[Laboratory]:
    with laboratory_of(monkeypatch, Bucket(mini)) as made:
        yield made


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
def test_r4_every_single_crash_point_on_local_disk(disk: Laboratory, deed: Deed) -> None:
    Crashes(disk).all_of(deed)


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
def test_r4_crash_points_on_s3(bucket: Laboratory, deed: Deed) -> None:
    """Two of the moments between its changes, and all crash points at which a process leaves that."""
    Crashes(bucket).all_of(deed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
def test_r4_every_single_crash_point_on_s3(bucket: Laboratory, deed: Deed) -> None:
    Crashes(bucket).all_of(deed)
