"""R1: 16 writers in 4 processes race for keys; exactly one wins each. And the probe that finds out whether a server can do that."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from indextables import limits
from indextables.errors import ConfigError
from indextables.storage import StoreSpec
from indextables.storage.probe import probe
from indextables.storage.remote import RemoteStore
from tests.contract.conftest import spec_of
from tests.support.fault_proxy import FaultProxy
from tests.support.racing import PROCESSES, WRITERS, create_one, race
from tests.support.s3 import Server, options
from tests.support.tables import SCHEMA


def hold_race(spec: StoreSpec, keys: int) -> None:
    if not spec.root.is_local:
        spec.open().create("probed", b"")  # once, not by every process
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        wins = [won for part in pool.starmap(race, [(spec, keys, n) for n in range(PROCESSES)], chunksize=1) for won in part]
    assert len(wins) == WRITERS
    assert sorted(key for won in wins for key in won) == list(range(keys))
    winners = {key: writer for writer, won in enumerate(wins) for key in won}
    contents = spec.open().read_many([f"log/{key:06d}" for key in range(keys)])
    assert list(contents) == [f"writer {winners[key]}".encode() for key in range(keys)]
    assert [entry.path for entry in spec.open().list("log")] == [f"log/{key:06d}" for key in range(keys)]


def test_local(tmp_path: Path) -> None:
    hold_race(spec_of(str(tmp_path / "t")), 500)


def test_ministack(mini: Server) -> None:
    hold_race(spec_of(mini.place(), **mini.options), 30)


def test_seaweedfs(weed: Server) -> None:
    """Its conflicts take a lock that is polled once a second."""
    hold_race(spec_of(weed.place(), **{**weed.options, "storage.timeout": "120s"}), 4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_longer_races(mini: Server, weed: Server) -> None:
    hold_race(spec_of(mini.place(), **mini.options), 500)
    hold_race(spec_of(weed.place(), **{**weed.options, "storage.timeout": "120s"}), 20)


def test_more_keys_than_a_page(mini: Server) -> None:
    store = spec_of(mini.place(), **mini.options).open()
    assert isinstance(store, RemoteStore)
    names = [f"log/{number:020d}.json" for number in range(1203)]
    with multiprocessing.pool.ThreadPool(16) as pool:
        pool.map(lambda name: store.backend.put(name, b"x", 30, if_absent=False), names)
    assert [entry.path for entry in store.list("log")] == names
    assert [entry.path for entry in store.list("log", after=names[1199])] == names[1200:]
    assert [entry.path for entry in store.list("log", after=names[99])] == names[100:]


def test_the_probe_leaves_nothing(mini: Server) -> None:
    store = spec_of(mini.place(), **mini.options).open()
    assert isinstance(store, RemoteStore)
    finding = probe(store)
    assert finding.is_atomic
    assert finding.winners == (1,) * limits.PROBE_ROUNDS
    assert list(store.list("")) == []


def test_a_server_that_ignores_the_condition_is_refused(proxy: FaultProxy, mini: Server, surroundings: Path) -> None:
    """The negative control: the same server without the header. Nothing is written, and nothing is believed the next time."""
    import indextables as it

    place = mini.place()
    proxy.strip_condition = True
    settings = options(proxy.url.replace("127.0.0.1", "localhost"))  # an endpoint that was not proved before
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"ignores If-None-Match.*storage\.singleWriter=true"):
            it.create(place, SCHEMA, options=settings)
    assert list(spec_of(place, **mini.options).open().list("")) == []
    table = it.create(place, SCHEMA, options={**settings, "storage.singleWriter": "true"})
    assert table.version == 0
    with pytest.raises(it.TableExists):
        it.create(place, SCHEMA, options={**settings, "storage.singleWriter": "true"})


def test_a_proved_store_is_believed_by_the_next_process(proxy: FaultProxy, mini: Server, surroundings: Path) -> None:
    settings = options(proxy.url)
    spec_of(mini.place(), **settings).open().create("x", b"1")
    assert len(list((surroundings / "stores").glob("*.json"))) >= 1
    proxy.clear()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(create_one, (spec_of(mini.place(), **settings),))
    assert [request.method for request in proxy.log] == ["PUT"]


@pytest.mark.parametrize("place", ["plain://tmp/x", "hdfs://host/t", "sftp://host/t", "ftp://host/t", "http://host/t"])
def test_other_kinds_are_refused_unless_there_is_one_writer(place: str) -> None:
    from tests.support import plain_store

    plain_store.register()
    with pytest.raises(ConfigError, match=r"single|install|cannot create files atomically"):
        spec_of(place).open()


@pytest.mark.parametrize(("place", "words"), [("nosuch://x/t", "not a store that fsspec knows"), ("smb://h/t", "install")])
def test_unknown_schemes_and_missing_packages_are_named(place: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        spec_of(place).open()
