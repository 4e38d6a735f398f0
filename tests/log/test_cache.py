"""The cache of logs: what is cached, what is read again, and that no answer is stale (CCH-01 … 07, OPT-01, OPT-03, C-36)."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables import limits
from indextables.clock import Clock
from indextables.errors import StorageError, TableNotFound, VersionGap
from indextables.log import cache, names
from indextables.log.log import ReadSettings, TransactionLog
from indextables.table import opening
from indextables.table.context import TableContext
from indextables.table.loading import load
from indextables.table.opening import advance, load_snapshot
from tests.support.forked import in_forked_child
from tests.support.loading import read_all
from tests.support.memory_store import MemoryStore
from tests.support.tables import FakeTime, make, rows

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
RATES = {"protocolHitRate", "metadataHitRate", "versionHitRate", "filesHitRate", "versionsListHitRate"}


def put(store: MemoryStore, version: int, *actions: dict[str, Any]) -> None:
    store.files[names.version_path(version)] = "".join(json.dumps(action) + "\n" for action in actions).encode()


def create(store: MemoryStore, table_id: str = "x") -> None:
    store.files.clear()
    put(store, 0, {"metaData": {"id": table_id, "schemaString": SCHEMA, "partitionColumns": [], "configuration": {}}})


def append(store: MemoryStore, version: int, path: str) -> None:
    put(store, version, {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}})


def paths(log: TransactionLog, **arguments: Any) -> list[str]:
    found: list[str] = read_all(log, **arguments).files_table().column("path").to_pylist()
    return found


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    create(made)
    for version in range(1, 6):
        append(made, version, f"f{version}")
    return made


def test_reopening_reads_only_the_anchor(store: MemoryStore) -> None:
    assert paths(TransactionLog(store)) == ["f1", "f2", "f3", "f4", "f5"]
    store.reads.clear()
    again = TransactionLog(store)
    assert paths(again) == ["f1", "f2", "f3", "f4", "f5"]
    assert store.reads == [names.version_path(5)]
    append(store, 6, "f6")
    store.reads.clear()
    assert paths(again)[-1] == "f6"
    assert store.reads == [names.version_path(5), names.version_path(6)]


def test_hit_rates(store: MemoryStore) -> None:
    log = TransactionLog(store)
    load_snapshot(log)
    assert log.cache_stats() == dict.fromkeys(RATES, 0.0)
    load_snapshot(log)
    load_snapshot(log, max_staleness_ms=5000)
    stats = log.cache_stats()
    assert (stats["filesHitRate"], stats["protocolHitRate"], stats["metadataHitRate"]) == (2 / 3, 2 / 3, 2 / 3)
    assert stats["versionsListHitRate"] == 1 / 3
    load_snapshot(log, 3)
    assert log.cache_stats()["versionHitRate"] == 4 / 10  # 0 to 3 again, of 6 and 4
    assert TransactionLog(store, ReadSettings(cache_ms=0)).cache_stats() == {}


def test_stale_listings_are_used_only_on_request(store: MemoryStore) -> None:
    time = FakeTime()
    log = TransactionLog(store, clock=time.clock())
    load_snapshot(log)
    append(store, 6, "f6")
    store.lists = 0
    assert load_snapshot(log, max_staleness_ms=5000).version == 5
    assert store.lists == 0
    time.ms += 4999
    assert load_snapshot(log, max_staleness_ms=5000).version == 5
    assert load_snapshot(log).version == 6
    append(store, 7, "f7")
    time.ms += 5000
    assert load_snapshot(log, max_staleness_ms=5000).version == 7


def test_entries_expire(store: MemoryStore) -> None:
    time = FakeTime()
    log = TransactionLog(store, ReadSettings(cache_ms=1000), time.clock())
    load_snapshot(log)
    for moved, fresh in ((999, False), (1000, True), (-5000, True)):
        time.ms += moved
        store.reads.clear()
        load_snapshot(log)
        assert (len(store.reads) > 1) == fresh, "setting the clock back does not make entries fresh"
    append(store, 6, "f6")
    time.ms += 1000
    assert load_snapshot(log, max_staleness_ms=10**9).version == 6


def test_invalidated_entries_are_read_again(store: MemoryStore) -> None:
    log = TransactionLog(store)
    for kind, reread in (("versions", 7), ("protocol", 1), ("metadata", 1), (None, 7)):
        load_snapshot(log)
        log.invalidate_cache(kind)
        store.reads.clear()
        load_snapshot(log)
        # Without protocol or metadata the state is replayed, from versions that are still cached.
        assert len(store.reads) == reread, kind
    log.close()
    store.reads.clear()
    load_snapshot(TransactionLog(store))
    assert len(store.reads) == 7, "all versions, and a look at the pointer, which is not there"


@pytest.mark.parametrize("versions", [0, 3, 5, 8])
@pytest.mark.parametrize("use", ["new handle", "old handle", "old version"])
def test_a_recreated_table_is_detected(store: MemoryStore, versions: int, use: str) -> None:
    """Every file of the new table has the size and time of the old one: only the bytes differ."""
    log = TransactionLog(store)
    old = load_snapshot(log)
    create(store, "y")
    for version in range(1, versions + 1):
        append(store, version, f"g{version}")
    if use == "old handle":
        found = advance(log, old)
    else:
        found = load_snapshot(log if use == "new handle" else TransactionLog(store), versions if use == "old version" else None)
    assert found.metadata.id == "y"
    assert load(log, found).files.paths() == [f"g{version}" for version in range(1, versions + 1)]


def test_a_changed_file_invalidates_everything(store: MemoryStore) -> None:
    log = TransactionLog(store)
    load_snapshot(log)
    append(store, 2, "longer")
    assert "longer" in paths(log)


def test_recreated_tables_through_the_api(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2)
    shutil.rmtree(tmp_path / "t")
    again = make(tmp_path / "t", appends=2, each=3)
    assert it.open(tmp_path / "t").count() == again.count() == 6
    assert table.refresh().metadata.id == again.metadata.id
    assert table.count() == 6


def test_own_commits_are_visible_to_every_handle_at_once(tmp_path: Path) -> None:
    first = make(tmp_path / "t", appends=1)
    second = it.open(tmp_path / "t")
    first.append(rows(100, 5))
    assert it.open(tmp_path / "t", max_staleness=60).version == first.version == 2
    assert second.version == 1
    assert second.refresh(max_staleness=60).version == 2
    with pytest.raises(it.InvalidArgument, match="max_staleness -1"):
        second.refresh(max_staleness=-1)


def test_the_public_log_interface(tmp_path: Path) -> None:
    """The methods of `table.log` (CCH-05, CCH-06)."""
    table = make(tmp_path / "t", appends=2)
    log = it.open(tmp_path / "t").log
    assert set(log.cache_stats()) == RATES
    assert log.cache_stats()["filesHitRate"] > 0
    with pytest.raises(it.InvalidArgument, match="cache kind 'nosuch'"):
        log.invalidate_cache("nosuch")
    held = cache.cache_of(table._context.store.spec)
    for kind, left in (("protocol", True), ("metadata", True), ("versions", False), (None, False)):
        it.open(tmp_path / "t")
        assert held.weight > 0
        log.invalidate_cache(kind)
        assert (held.weight > 0) == left, kind
    log.close()
    assert set(log.cache_stats().values()) == {0.0}
    assert (it.open(tmp_path / "t").count(), table.refresh().version) == (20, 2)
    assert it.open(tmp_path / "t", options={"transaction.cache.enabled": "false"}).log.cache_stats() == {}


@pytest.mark.parametrize("cache_ms", [0, 300_000])
def test_a_refresh_lists_only_new_versions(store: MemoryStore, cache_ms: int) -> None:
    """Whatever the length of the log; the combined listing equals a listing of everything."""
    most = opening.MAX_RECHECKED
    for version in range(6, most + 6):
        append(store, version, f"f{version}")
    end = most + 6
    reading = ReadSettings(cache_ms=cache_ms)
    log = TransactionLog(store, reading)
    snapshot = load_snapshot(log)
    for version in range(end, end + 3):
        append(store, version, f"f{version}")
        store.shown.clear()
        snapshot = advance(log, snapshot)
        assert store.shown == [names.version_path(each) for each in range(version - most, version + 1)]
    store.files[names.pointer_path()] = b"{}"
    snapshot = advance(log, snapshot)
    assert snapshot.version == end + 2
    if cache_ms:
        held = cache.cache_of(store.spec).last_listing
        assert held == log.uncached_listing()
        assert held is not None
        assert (len(held.versions), held.has_pointer) == (end + 3, True)
    store.delete(names.version_path(end + 2))
    assert advance(log, snapshot).version == end + 1
    create(store, "y")
    assert advance(log, snapshot).metadata.id == "y"


@pytest.mark.parametrize("cache_ms", [0, 300_000])
@pytest.mark.parametrize("lost", [0, 2, 4])
def test_an_open_handle_detects_a_missing_version(store: MemoryStore, cache_ms: int, lost: int) -> None:
    """C-27: it still has the version's contents, but does not advance to anything that a new reader could not see."""
    log = TransactionLog(store, ReadSettings(cache_ms=cache_ms))
    snapshot = load_snapshot(log)
    kept = store.files[names.version_path(lost)]
    store.delete(names.version_path(lost))
    if lost == 0:
        with pytest.raises(TableNotFound, match="version 0 is missing"):
            advance(log, snapshot)
    else:
        behind = advance(log, snapshot)
        assert (behind.version, behind.gap_at) == (lost - 1, lost)
        with pytest.raises(VersionGap, match=f"version {lost} is missing"):
            behind.require_no_gap()
    store.files[names.version_path(lost)] = kept
    assert advance(log, snapshot).version == snapshot.version


def test_versions_are_cached_only_with_an_anchor(store: MemoryStore) -> None:
    """C-36: a table that was recreated at once has files of the same size and time; only versions were cached, no state."""
    store.files[names.checkpoint_path(3)] = b"broken"
    assert load_snapshot(TransactionLog(store)).warnings
    create(store, "z")
    assert load_snapshot(TransactionLog(store)).metadata.id == "z"
    assert load_snapshot(TransactionLog(store), 0).metadata.id == "z"
    create(store, "y")
    assert load_snapshot(TransactionLog(store), 0).metadata.id == "y"


def test_caching_can_be_disabled(tmp_path: Path) -> None:
    make(tmp_path / "t")
    on = TableContext.at(tmp_path / "t").log
    assert (on.reading.parallelism, on.reading.timeout_seconds, on.reading.cache_ms) == (4, 30, 300_000)
    plain = TableContext.at(tmp_path / "t", {"transaction.useOptimized": "false"}).log
    assert (plain.reading.parallelism, plain.cache_stats()) == (1, {})
    off = TableContext.at(tmp_path / "t", {"transaction.cache.enabled": "false", "checkpoint.parallelism": "8"}).log
    assert (off.reading.parallelism, off.cache_stats()) == (8, {})
    short = TableContext.at(tmp_path / "t", {"transaction.cache.expirationSeconds": "2"}).log
    assert short.reading.cache_ms == 2000


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CACHED_VERSIONS", 4)
    monkeypatch.setattr(limits, "CACHED_TABLES", 3)
    monkeypatch.setattr(limits, "CACHED_STATE_BYTES", 4000)  # two tables of one file each
    stores = []
    for _ in range(5):
        store = MemoryStore()
        create(store)
        append(store, 1, "f")
        load_snapshot(TransactionLog(store))
        stores.append(store)
    assert [spec for spec, _ in cache._TABLES.items()] == [store.spec for store in stores[2:]]
    assert [held.weight > 0 for held in cache._TABLES.values()] == [False, True, True]
    for version in range(2, 9):
        append(stores[4], version, f"f{version}")
    load_snapshot(TransactionLog(stores[4]))
    assert list(cache.cache_of(stores[4].spec)._versions) == [5, 6, 7, 8]
    monkeypatch.setattr(limits, "CACHED_ACTIONS", 2)
    load_snapshot(TransactionLog(stores[4]), 7)
    assert len(cache.cache_of(stores[4].spec)._versions) <= 4


def test_reading_a_version_times_out(store: MemoryStore) -> None:
    release = threading.Event()
    read = store.read

    def slow(path: str) -> bytes:
        if path == names.version_path(3):
            release.wait(10)
        return read(path)

    store.read = slow  # type: ignore[method-assign]
    with pytest.raises(StorageError, match=r"version 3 of .* did not arrive within 0.2 seconds"):
        load_snapshot(TransactionLog(store, ReadSettings(timeout_seconds=0.2, cache_ms=0)))
    release.set()


def test_threads_share_the_cache(store: MemoryStore) -> None:
    wrong: list[object] = []

    def look() -> None:
        for _ in range(30):
            found = paths(TransactionLog(store))
            wrong.extend([] if found == [f"f{n}" for n in range(1, len(found) + 1)] else [found])

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for version in range(6, 20):
        append(store, version, f"f{version}")
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(paths(TransactionLog(store))) == 19


def _child(path: str) -> int:
    return it.open(path).version


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_anew(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=2)
    held = cache._TABLES
    with held._lock, held._making:
        assert in_forked_child(_child, str(tmp_path / "t")) == 2


def test_the_caller_sets_the_clock(tmp_path: Path) -> None:
    time = FakeTime()
    context = TableContext.at(make(tmp_path / "t").path, None, time.clock())
    assert isinstance(context.log.clock, Clock)
    assert context.log.clock.now_ms() == time.ms
