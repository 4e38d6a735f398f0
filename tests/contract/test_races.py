"""R1: sixteen processes race for keys, and exactly one wins each. Also the probe that tests whether a server guarantees that."""

from __future__ import annotations

import multiprocessing
import multiprocessing.pool
from functools import partial
from pathlib import Path

import pytest

from indextables.errors import ConfigError
from indextables.storage import StoreSpec, open_store
from indextables.storage.probe import probe
from indextables.storage.remote import RemoteStore
from tests.contract.conftest import CLOUDS, spec_of
from tests.support.fault_proxy import FaultProxy
from tests.support.racing import WRITERS, content, create_one, key_path, race_of_processes, race_of_threads
from tests.support.s3 import Server, options
from tests.support.seeds import random_seed
from tests.support.tables import SCHEMA

# The conflicts of SeaweedFS take a lock that is polled once a second: fewer keys, several at a time.
RACES = [("local", 500, 1), ("memory", 500, 1), ("mini", 500, 1), ("weed", 20, 5)]
RACES += [(cloud, {"google": 500, "azure": 100}[cloud], 1) for cloud in CLOUDS]


def hold_race(spec: StoreSpec, keys: int, lanes: int = 1) -> None:
    """Races sixteen processes for `keys` keys: exactly one wins each, its bytes are stored, and no other files exist."""
    seed = random_seed()
    store = open_store(spec)
    if spec.root.scheme == "memory":
        wins = race_of_threads(partial(open_store, spec), keys, seed)
    else:
        store.create("probed", b"")  # once, not by every process
        wins = race_of_processes(spec, keys, seed, lanes)
    winners = {key: writer for writer, won in enumerate(wins) for key in won}
    print(f"R1: {keys} keys of {spec.root.scheme}, {WRITERS} writers, {sum(map(bool, wins))} of them won some, seed {seed}")
    assert len(wins) == WRITERS
    assert sorted(key for won in wins for key in won) == list(range(keys)), f"seed {seed}"
    assert list(store.read_many([key_path(key) for key in range(keys)])) == [content(winners[key], key) for key in range(keys)]
    assert [entry.path for entry in store.list("log")] == [key_path(key) for key in range(keys)]


def place_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> StoreSpec:
    match kind:
        case "local":
            return spec_of(str(tmp_path / "t"))
        case "memory":
            return spec_of(f"memory://{tmp_path.name}/race")
        case "google" | "azure":
            return spec_of(request.getfixturevalue(kind).place())
        case _:
            server: Server = request.getfixturevalue(kind)
            return spec_of(server.place(), **{**server.options, "storage.timeout": "120s"})


@pytest.mark.parametrize(("kind", "keys", "lanes"), RACES)
def test_one_of_sixteen_wins_each_key(kind: str, keys: int, lanes: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    hold_race(place_of(kind, request, tmp_path), keys, lanes)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "keys", "lanes"), [(kind, 10 * keys, lanes) for kind, keys, lanes in RACES])
def test_one_of_sixteen_wins_each_key_many_rounds(kind: str, keys: int, lanes: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    hold_race(place_of(kind, request, tmp_path), keys, lanes)


def test_more_keys_than_a_page(mini: Server) -> None:
    store = open_store(spec_of(mini.place(), **mini.options))
    assert isinstance(store, RemoteStore)
    names = [f"log/{number:020d}.json" for number in range(1203)]
    with multiprocessing.pool.ThreadPool(16) as pool:
        pool.map(lambda name: store.backend.put(name, b"x", 30, if_absent=False), names)
    assert [entry.path for entry in store.list("log")] == names
    assert [entry.path for entry in store.list("log", after=names[1199])] == names[1200:]
    assert [entry.path for entry in store.list("log", after=names[99])] == names[100:]


def test_the_probe_deletes_its_files(mini: Server) -> None:
    store = open_store(spec_of(mini.place(), **mini.options))
    assert isinstance(store, RemoteStore)
    assert probe(store)
    assert list(store.list("")) == []


def test_a_server_that_ignores_the_condition_is_refused(proxy: FaultProxy, mini: Server, shared_environment: Path) -> None:
    """Negative control: the same server without the header. Nothing is written, and the result is not remembered."""
    import indextables as it

    place = mini.place()
    proxy.strip_condition = True
    settings = options(proxy.url.replace("127.0.0.1", "localhost"))  # an endpoint that was not proved before
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"ignores If-None-Match.*storage\.singleWriter=true"):
            it.create(place, SCHEMA, options=settings)
    assert list(open_store(spec_of(place, **mini.options)).list("")) == []
    table = it.create(place, SCHEMA, options={**settings, "storage.singleWriter": "true"})
    assert table.version == 0
    with pytest.raises(it.TableExists):
        it.create(place, SCHEMA, options={**settings, "storage.singleWriter": "true"})
    assert [finding.code for finding in it.open(place, options=settings).doctor()] == ["store-not-atomic"]
    proxy.strip_condition = False
    assert it.open(place, options=settings).doctor() == []


def test_the_next_process_trusts_a_probed_store(proxy: FaultProxy, mini: Server, shared_environment: Path) -> None:
    settings = options(proxy.url)
    open_store(spec_of(mini.place(), **settings)).create("x", b"1")
    assert len(list((shared_environment / "stores").glob("*.json"))) >= 1
    proxy.clear()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(create_one, (spec_of(mini.place(), **settings),))
    assert [request.method for request in proxy.log] == ["PUT"]
