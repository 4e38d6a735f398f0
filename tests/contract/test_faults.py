"""Faults on a real connection: lost answers, refusals, resets, truncated and slow bodies, silence (R3 and R5 for the log)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

import indextables as it
from indextables.errors import CommitUnknown, StorageError, StorageRefused
from indextables.storage import Store, open_store
from tests.contract.conftest import spec_of
from tests.support.fault_proxy import LOST, NOT_APPLIED, FaultProxy
from tests.support.s3 import Server, options
from tests.support.tables import SCHEMA, ids, rows

TIMEOUT = 1.5


def open_through(proxy: FaultProxy, mini: Server, seconds: float) -> Store:
    place = mini.place()
    open_store(spec_of(place, **options(proxy.url))).create("warm", b"up")  # the probe is done, with time for its race
    found = open_store(spec_of(place, **options(proxy.url, f"{seconds}s")))
    proxy.clear()
    return found


@pytest.fixture
def store(proxy: FaultProxy, mini: Server) -> Store:
    return open_through(proxy, mini, TIMEOUT)


@pytest.fixture
def patient_store(proxy: FaultProxy, mini: Server) -> Store:
    """For faults that are answered at once: only a busy machine takes longer, and that is no failure."""
    return open_through(proxy, mini, 30)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_create_with_faults_happens_once_or_reports_that_the_file_exists(patient_store: Store, proxy: FaultProxy, depth: int) -> None:
    """Every fault, alone and followed by every other: our own file is recognised, another writer's is kept."""
    cases = list(itertools.product((*LOST, *NOT_APPLIED), repeat=depth))
    for number, faults in enumerate(cases):
        for fault in faults:
            proxy.rule(fault, method="PUT", path=f"log/{depth}-{number}")
        assert patient_store.create(f"log/{depth}-{number}", f"ours {number}".encode()), faults
        assert patient_store.read(f"log/{depth}-{number}") == f"ours {number}".encode()
        proxy.rule(faults[0], method="PUT", path=f"log/{depth}-{number}")
        assert not patient_store.create(f"log/{depth}-{number}", b"theirs"), faults
        assert patient_store.read(f"log/{depth}-{number}") == f"ours {number}".encode()
    assert len(cases) == 9**depth


def test_a_create_whose_answer_hangs_is_recognised(store: Store, proxy: FaultProxy) -> None:
    proxy.rule("apply_hang", method="PUT")
    assert store.create("log/hung", b"ours")
    assert [r.method for r in proxy.log] == ["PUT", "GET"]


def test_an_unknown_outcome_is_reported(store: Store, proxy: FaultProxy, mini: Server) -> None:
    """The put was carried out, and the store no longer answers; nothing is deleted."""
    proxy.rule("apply_reset", method="PUT", path="log/lost")
    proxy.rule("503", path="log/lost", times=1000)
    with pytest.raises(CommitUnknown, match=r"'log/lost' may have been written or not.*nothing was cleaned up"):
        store.create("log/lost", b"ours")
    assert "DELETE" not in {r.method for r in proxy.log}
    proxy.clear()
    assert store.read("log/lost") == b"ours"


def test_a_refusal_after_a_lost_answer_is_unknown_too(store: Store, proxy: FaultProxy) -> None:
    proxy.rule("apply_reset", method="PUT", path="log/x")
    proxy.rule("403", path="log/x", times=1000)
    with pytest.raises(CommitUnknown):
        store.create("log/x", b"ours")


def test_a_refusal_is_reported_at_once(store: Store, proxy: FaultProxy) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.create("x", b""), lambda: store.replace("x", b""), lambda: store.read("x"), lambda: list(store.list("x")),
        lambda: store.delete("x"), lambda: store.read_range("x", 0, 1),
    ]  # fmt: skip
    for call in calls:
        proxy.clear()
        proxy.rule("403", times=10)
        with pytest.raises(StorageRefused, match=r"^'x' of s3://[^ ]+: the store refused with 403 AccessDenied$") as caught:
            call()
        assert len(proxy.log) == 1
        assert not caught.value.retryable
        assert caught.value.exit_code == 78


@pytest.mark.parametrize("fault", ["503", "500", "429", "reset", "truncate", "slow", "apply_close"])
def test_reads_survive_a_burst_of_faults(proxy: FaultProxy, mini: Server, fault: str) -> None:
    store = open_through(proxy, mini, 3 if fault == "slow" else 30)  # a slow answer takes a third of the time
    data = bytes(range(256)) * 8
    store.replace("log/data", data)
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: store.read("log/data"), data),
        (lambda: store.read_range("log/data", 100, 900), data[100:900]),
        (lambda: list(store.read_many(["log/data"] * 3)), [data] * 3),
        (lambda: [e.path for e in store.list("log")], ["log/data"]),
    ]
    for call, expected in calls:
        proxy.clear()
        proxy.rule(fault, times=2 if fault != "slow" else 1)
        assert call() == expected
        assert sum(r.action == fault for r in proxy.log) >= 1


@pytest.mark.parametrize("silence", ["hang", "503", "slow"])
def test_a_silent_store_times_out(store: Store, proxy: FaultProxy, silence: str) -> None:
    store.replace("log/data", b"x" * 4096)
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: store.read("log/data"),
        "list": lambda: list(store.list("log")),
        "replace": lambda: store.replace("log/other", b"1" * 10),
        "delete": lambda: store.delete("log/data"),
        "create": lambda: store.create("log/new", b"1"),
    }
    for name, call in calls.items():
        if silence == "slow" and name != "read":
            continue
        proxy.clear()
        proxy.rule(silence, times=1000)
        began = time.monotonic()
        with pytest.raises(CommitUnknown if name == "create" else StorageError, match=r"^'log.*(did not answer in time|answered 503)"):
            call()
        assert time.monotonic() - began < TIMEOUT + 1


def test_an_unreachable_server(mini: Server) -> None:
    """Nothing was sent, so a create is a plain failure and retryable."""
    store = open_store(spec_of(mini.place(), **options("http://127.0.0.1:9", "1s")))
    with pytest.raises(StorageError):
        store.read("warm")  # what reading botocore takes is not counted
    for call in (lambda: store.create("x", b""), lambda: store.read("x"), lambda: list(store.list(""))):
        began = time.monotonic()
        with pytest.raises(StorageError, match="the store could not be reached; gave up after 1 s") as caught:
            call()
        assert time.monotonic() - began < 2.5
        assert caught.value.retryable
        assert caught.value.exit_code == 75


def test_a_missing_bucket_is_named(mini: Server) -> None:
    store = open_store(spec_of("s3://no-such-bucket/t", **mini.options))
    with pytest.raises(StorageRefused, match=r"^'x' of s3://no-such-bucket/t: there is no such bucket$"):
        store.read("x")
    with pytest.raises(StorageRefused, match=r" of s3://no-such-bucket/t: there is no such bucket$"):
        store.create("x", b"")


def test_an_unknown_commit_keeps_its_splits(proxy: FaultProxy, mini: Server) -> None:
    place = mini.place()
    table = it.create(place, SCHEMA, options=options(proxy.url, "1s"))
    proxy.clear()
    proxy.rule("apply_reset", method="PUT", path=f"_transaction_log/{1:020d}")
    proxy.rule("503", path=f"_transaction_log/{1:020d}", times=1000)
    with pytest.raises(CommitUnknown):
        table.append(rows(0, 5))
    assert "DELETE" not in {r.method for r in proxy.log}
    proxy.clear()
    assert ids(it.open(place, options=mini.options)) == [0, 1, 2, 3, 4]


def test_a_store_that_fails_right_after_a_commit_makes_it_unknown(proxy: FaultProxy, mini: Server) -> None:
    """The version exists. A retryable error would duplicate the rows."""
    place = mini.place()
    table = it.create(place, SCHEMA, options=options(proxy.url, "1s"))
    proxy.clear()
    proxy.rule("503", method="GET", path=rf"list-type=2.*start-after=[^&]*{1:020d}", times=1000)
    with pytest.raises(CommitUnknown, match="version 1 was written, but whether it is part of the table is unknown") as caught:
        table.append(rows(0, 5))
    assert not caught.value.retryable
    assert "DELETE" not in {r.method for r in proxy.log}
    proxy.clear()
    assert ids(it.open(place, options=mini.options)) == [0, 1, 2, 3, 4]


def test_idle_connections_are_not_reused(store: Store, proxy: FaultProxy) -> None:
    """The server closes idle connections after 5 s, and a gateway hides that: sixteen of them would fail one request each."""
    names = [f"log/{number}" for number in range(16)]
    for name in names:
        store.create(name, b"x")
    store.read_many(names)
    time.sleep(5.5)
    proxy.clear()
    assert store.read(names[0]) == b"x"
    assert [request.action for request in proxy.log] == ["pass"]  # one request, and no other after it
