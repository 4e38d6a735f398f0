"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.s3 import CREDENTIALS

# The machine may be busy: how long an example takes, or is drawn, says nothing. A failure can be repeated from the blob it prints.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Credentials as users give them, and a cache folder of this run's own; child processes inherit both."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("INDEXTABLES_CACHE_DIR", str(cache))
        yield cache
