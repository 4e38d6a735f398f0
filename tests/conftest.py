"""Settings and fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.s3 import CREDENTIALS
from tests.support.seeds import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]

# No deadline and no check for slow examples: on a busy machine they fail at random. `print_blob` prints how to repeat a failure.
settings.register_profile("indextables", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("indextables")


@pytest.fixture(scope="session", autouse=True)
def shared_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sets S3 credentials and a cache folder for this run. Child processes inherit both."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("INDEXTABLES_CACHE_DIR", str(cache))
        yield cache
