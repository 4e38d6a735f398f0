"""Servers and stores for the contract tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indextables.config import Config
from indextables.paths import TableRoot
from indextables.storage import Store, StoreSpec, open_store
from tests.support import clouds, non_atomic_store
from tests.support.fault_proxy import FaultProxy
from tests.support.s3 import Server, ministack, seaweedfs


@pytest.fixture(scope="session")
def mini(shared_environment: Path) -> Iterator[Server]:
    with ministack() as server:
        yield server


@pytest.fixture(scope="session")
def weed(shared_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with seaweedfs(tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture(scope="session")
def _proxy(mini: Server) -> Iterator[FaultProxy]:
    with FaultProxy((mini.host, mini.port)).running() as running:
        yield running


@pytest.fixture
def proxy(_proxy: FaultProxy) -> Iterator[FaultProxy]:
    _proxy.clear()
    yield _proxy
    _proxy.clear()
    _proxy.strip_condition = False


@pytest.fixture(scope="session")
def google(shared_environment: Path) -> Iterator[clouds.Cloud]:
    with clouds.google() as cloud, _surrounded_by(cloud):
        yield cloud


@pytest.fixture(scope="session")
def azure(shared_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[clouds.Cloud]:
    with clouds.azure(tmp_path_factory.mktemp("azure")) as cloud, _surrounded_by(cloud):
        yield cloud


@contextmanager
def _surrounded_by(cloud: clouds.Cloud) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.environment.items():
            patch.setenv(name, value)
        yield


CLOUDS = (*(["google"] if clouds.HAS_GOOGLE else []), *(["azure"] if clouds.AZURITE else []))
KINDS = ("local", "memory", "ministack", "fsspec", "seaweedfs", *CLOUDS)


@pytest.fixture(params=KINDS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSpec:
    """An empty location in a store of every kind."""
    match request.param:
        case "local":
            return spec_of(str(tmp_path / "t"))
        case "memory":
            return spec_of(f"memory://{tmp_path.name}/t")
        case "fsspec":
            non_atomic_store.register()
            return spec_of(f"plain:/{tmp_path}/t", **{"storage.singleWriter": "true"})
        case "google" | "azure":
            return spec_of(request.getfixturevalue(request.param).place())
        case kind:
            server: Server = request.getfixturevalue("mini" if kind == "ministack" else "weed")
            return spec_of(server.place(), **server.options)


@pytest.fixture
def store(spec: StoreSpec) -> Store:
    return open_store(spec)


def spec_of(place: str, **options: str) -> StoreSpec:
    return StoreSpec.of(TableRoot.parse(place), Config.of(options))
