"""Ten ways in which Delta, Iceberg, Quickwit and upstream have lost data, tried on our tables; a listing checks each purge.

Their parts are tested one by one elsewhere: pure planning in tests/state/test_retention.py, every broken pointer and checkpoint in
tests/table/test_recovery.py, logs of other programs in test_purge_log.py, listings of more than a page of keys in
tests/contract/test_purge.py, lost answers at every write in tests/contract/test_lost_answers.py, and merges in separate processes in
tests/contract/test_merges.py.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

import indextables as it
from indextables.actions import Txn
from indextables.errors import ConfigError
from indextables.log import names
from indextables.operations import verbs
from indextables.operations.executor import in_threads
from indextables.operations.merge import run as merge_splits
from indextables.paths import LOG_FOLDER, is_our_split
from indextables.state.checkpoints.contents import Format
from indextables.table.context import TableContext
from tests.support import non_atomic_store
from tests.support.checkpoints import EVERY_FORMAT
from tests.support.fault_proxy import FaultProxy
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.s3 import Server, ministack, options
from tests.support.tables import SCHEMA, FakeTime, ids, rows

BY_HAND = {"checkpoint.enabled": "false", "transaction.compression.enabled": "false", "transaction.cache.enabled": "false"}
PLAIN = BY_HAND | {"state.format": "json"}
POINTER = names.pointer_path()
NOWHERE = "split-00000000-0000-4000-8000-00000000dead.split"

every_format = pytest.mark.parametrize("kind", EVERY_FORMAT)
both_places = pytest.mark.parametrize("where", ["local", "s3"])


@dataclass
class Place:
    """The address of a table, and a simulated clock that starts at the time of the store."""

    address: str
    settings: dict[str, str]
    time: FakeTime

    def create(self, more: dict[str, Any]) -> it.Table:
        return it.create(self.address, SCHEMA, partition_by=["date"], options={**self.settings, **more}, clock=self.time.clock())

    def open(self, version: int | None = None, **more: str) -> it.Table:
        return it.open(self.address, version, options={**self.settings, **BY_HAND, **more}, clock=self.time.clock())

    @property
    def store(self) -> Any:
        return TableContext.at(self.address, self.settings).store

    def listed(self) -> set[str]:
        return {entry.path for entry in self.store.list("")}

    def checkpoints(self) -> dict[int, set[str]]:
        """Files of checkpoints and states by version, without manifests that states share."""
        found: dict[int, set[str]] = {}
        for path in self.listed():
            match = re.search(r"(\d{20})(?:\.checkpoint|/)", path.removeprefix(LOG_FOLDER))
            if match:
                found.setdefault(int(match[1]), set()).add(path)
        return found

    def log_of(self, versions: Collection[int], checkpoints: Collection[int]) -> set[str]:
        """The expected files of the log folder, without shared manifests, if only these versions and checkpoints are retained."""
        held = self.checkpoints()
        return {POINTER, *map(names.version_path, versions), *(path for version in checkpoints for path in held[version])}

    def in_log(self) -> set[str]:
        return {path for path in self.listed() if path.startswith(f"{LOG_FOLDER}/") and "/manifests/" not in path}

    def splits(self) -> set[str]:
        return {path for path in self.listed() if not path.startswith(f"{LOG_FOLDER}/")}


def live(table: it.Table) -> set[str]:
    return set(table.files().column("path").to_pylist())


def now() -> FakeTime:
    return FakeTime(ms=time.time_ns() // 1_000_000)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ministack() as found:
        yield found


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "t"), {}, now())


def at(where: str, request: pytest.FixtureRequest) -> Place:
    if where == "local":
        found: Place = request.getfixturevalue("here")
        return found
    server: Server = request.getfixturevalue("server")
    return Place(server.place(), server.options, now())


@every_format
def test_splits_referenced_only_by_a_checkpoint_are_live(here: Place, kind: Format) -> None:
    """A purge that reads only version files deletes the splits of expired versions (indextables_spark 67).

    The splits of a checkpoint whose versions have expired are kept by repeated purges.
    """
    table = here.create({**BY_HAND, **EVERY_FORMAT[kind]})
    for start in (0, 10, 20):
        table.append(rows(start, 10))
    table.overwrite(rows(100, 4, days=1), "date = '2024-01-01'")
    table.checkpoint()
    expected, newest = ids(table), table.version
    here.time.pass_days(100)
    first = here.open().purge(log_retention="30d")
    assert (first.metrics["files_deleted"], first.metrics["versions_deleted"], first.warnings) == (3, newest - 1, [])
    for _ in range(2):
        fresh = here.open()
        assert (ids(fresh), here.splits()) == (expected, live(fresh))
        assert here.in_log() == here.log_of([0, newest], [newest])
        assert fresh.purge(log_retention="0s").status == "no_action"
        here.time.pass_days(100)


class AgelessFileSystem(non_atomic_store.PlainFileSystem):
    """Reports the year 1970 as the time of every file, as some stores do for prefixes."""

    protocol = "ageless"

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return super()._strip_protocol(str(path).replace("ageless:/", "plain:/", 1))

    def info(self, path: str, **arguments: Any) -> dict[str, Any]:
        return {**super().info(path, **arguments), "mtime": 0, "created": 0}


def test_files_of_unknown_age_are_not_old(here: Place, tmp_path: Path) -> None:
    """A folder that is dated 1970 on S3 made every state look expired (indextables_spark 113).

    If the store reports 1970 for a folder or for all files, needed and possibly young files are kept.
    """
    fsspec.register_implementation("ageless", AgelessFileSystem, clobber=True)
    silent = Place(f"ageless:/{tmp_path}/other", {"storage.singleWriter": "true"}, now())
    keep_one = {"state.format": "avro", "state.retention.versions": "1"}
    for place in (here, silent):
        table = place.create({**BY_HAND, **keep_one})
        for start in (0, 10, 20):
            table.overwrite(rows(start, 10))
            table.checkpoint()
        assert len(place.checkpoints()) == 3
    for version in here.checkpoints():
        os.utime(Path(here.address, LOG_FOLDER, f"state-v{version:020d}"), (0, 0))
    here.time.pass_days(2)
    silent.time.pass_days(1000)
    before = here.listed(), silent.listed()
    assert here.open(**keep_one).purge().status == "no_action", "their files are two days old"
    report = silent.open(**keep_one).purge("1d", "999999d")
    assert (report.status, report.warnings) == ("no_action", ["the store does not report the age of 4 splits: they are kept"])
    assert (here.listed(), silent.listed()) == before
    here.time.pass_days(1000)
    assert here.open(**keep_one).purge().metrics["states_deleted"] == 2, "files of known age are deleted"
    assert here.splits() == live(here.open())


KEEP_LITTLE = {"checkpoint.retention": "0", "state.retention.hours": "0", "state.retention.versions": "1"}
SPELLINGS = {"local": ["file:{}", "file://{}", "FILE:{}", "{}"], "s3": ["s3://{}", "s3a://{}", "s3n://{}", "S3A://{}"]}


def respell(place: Place, version: int, spelling: str) -> None:
    """Rewrites a commit with absolute paths in another spelling of the root."""
    path = names.version_path(version)
    lines = [json.loads(line) for line in place.store.read(path).splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = spelling.format(f"{place.address.removeprefix('s3://')}/{line['add']['path']}")
    place.store.replace(path, "\n".join(map(json.dumps, lines)).encode())


@both_places
def test_another_spelling_of_the_root_makes_no_orphans(where: str, request: pytest.FixtureRequest) -> None:
    """`hdfs:/p` and `hdfs://host/p` compared as texts make every file an orphan (Iceberg 4346).

    A path at another location stops purge before it deletes anything.
    """
    place = at(where, request)
    table = place.create(PLAIN)
    for version, spelling in enumerate(SPELLINGS[where], start=1):
        table.append(rows(version * 10, 10))
        respell(place, version, spelling)
    needed = place.splits()
    place.store.replace(f"splits/{NOWHERE}", b"dead")
    place.time.pass_days(100)
    found = place.open()
    assert (ids(found), live(found)) == (list(range(10, 50)), needed)
    assert found.purge().metrics["files_deleted"] == 1
    assert (place.splits(), ids(place.open())) == (needed, list(range(10, 50)))
    place.store.replace(f"splits/{NOWHERE}", b"dead")
    table.append(rows(90, 10))
    respell(place, len(SPELLINGS[where]) + 1, {"local": "hdfs://host{}", "s3": "s3://other-{}"}[where])
    place.time.pass_days(100)
    before = place.listed()
    with pytest.raises(it.UnsafePath):
        place.open(version=1).purge()
    assert place.listed() == before


@every_format
def test_the_newest_checkpoint_and_the_base_of_retained_versions_are_kept(here: Place, kind: Format) -> None:
    """A clean-up that deletes the newest checkpoint makes the table unreadable (delta-rs 2174).

    At any age: by clean-up after a checkpoint and by repeated purges.
    """
    settings = {**BY_HAND, **EVERY_FORMAT[kind], **KEEP_LITTLE}
    table = here.create(settings)
    for start in range(3):
        table.append(rows(start * 10, 10))
    table.checkpoint()
    base, old = here.open().version, here.listed()
    here.time.pass_days(900)
    for start in range(3, 6):
        table.append(rows(start * 10, 10))
    for path in here.listed() - old:  # clean-up uses the times of the files, not the simulated clock
        os.utime(Path(here.address, path), (here.time.ms / 1000,) * 2)
    cleaned = table.checkpoint()
    newest = base + 3
    assert (cleaned.metrics["versions_deleted"], cleaned.warnings) == (base - 1, ())
    for _ in range(3):
        here.open(**settings).purge(log_retention="30d")
        assert here.in_log() == here.log_of([0, *range(base, newest + 1)], [base, newest])
        assert [ids(here.open(version)) for version in range(base, newest + 1)] == [list(range(n)) for n in (30, 40, 50, 60)]
    here.time.pass_days(900)
    for _ in range(3):
        here.open(**settings).purge(log_retention="0s")
        assert here.in_log() == here.log_of([0, newest], [newest])
        assert (ids(here.open()), here.splits()) == (list(range(60)), live(here.open()))
    table.append(rows(60, 10))
    here.time.pass_days(900)
    assert here.open(**settings).purge(log_retention="0s").status == "no_action"
    assert ids(here.open()) == list(range(70))


class Killed(BaseException):
    """Simulates the end of the process."""


@every_format
def test_the_pointer_is_a_hint(here: Place, kind: Format) -> None:
    """A crash before the pointer is written, or an empty pointer, made tables unreadable (delta-rs 2258).

    A missing, empty, truncated or wrong pointer: the table is read from its checkpoint, although the version files are deleted.
    """
    settings = {**BY_HAND, **EVERY_FORMAT[kind]}
    table = here.create(settings)
    table.append(rows(0, 10))
    table.checkpoint()
    before = here.store.read(POINTER)
    table.append(rows(10, 10))
    with intercepting(here.address, _die_at_the_pointer, **here.settings), pytest.raises(Killed):
        here.open(**EVERY_FORMAT[kind]).checkpoint()
    assert here.store.read(POINTER) == before
    newest = here.open().version
    assert newest in here.checkpoints()
    for version in range(1, newest + 1):
        here.store.delete(names.version_path(version))
    lies = {"version": 99, "size": 1, "format": "avro-state", "stateDir": f"state-v{99:020d}"}
    for pointer in (before, b"", b'{"version":', json.dumps(lies).encode(), None):
        here.store.delete(POINTER) if pointer is None else here.store.replace(POINTER, pointer)
        assert (here.open().version, ids(here.open())) == (newest, list(range(20))), pointer
    table = here.open(**EVERY_FORMAT[kind])
    table.append(rows(20, 10))
    assert table.checkpoint().status == "success"
    assert json.loads(here.store.read(POINTER))["version"] == newest + 1
    assert ids(here.open()) == list(range(30))


def _die_at_the_pointer(call: Call, perform: Perform) -> Any:
    if (call.verb, call.path) == ("replace", POINTER):
        raise Killed
    return perform()


@every_format
def test_a_broken_checkpoint_does_no_harm_while_the_log_is_complete(here: Place, kind: Format) -> None:
    """A broken checkpoint stopped all reads (Delta 5458).

    Each file is damaged or deleted in turn: the rows are the same, and purge keeps all versions.
    """
    table = here.create({**BY_HAND, **EVERY_FORMAT[kind]})
    for start in range(4):
        table.append(rows(start * 10, 10))
    table.checkpoint()
    newest = here.open().version
    files = [path for path in here.listed() if path in here.checkpoints()[newest] or "/manifests/" in path]
    assert len(files) == {Format.JSON: 1, Format.PARQUET: 2, Format.AVRO: 4}.get(kind, len(files))
    assert kind is not Format.JSON_PARTS or len(files) >= 4
    here.time.pass_days(0.5)  # parts without a head are deleted when they are a day old
    for path in files:
        good = here.store.read(path)
        for bad in (b"\x00not what was written", good[: len(good) // 2], None):
            here.store.delete(path) if bad is None else here.store.replace(path, bad)
            before = here.listed()
            found = here.open()
            assert (found.version, ids(found)) == (newest, list(range(40))), (path, bad)
            assert found.purge("1d", "0s").metrics["versions_deleted"] == 0, (path, bad)
            assert here.listed() == before, (path, bad)
        here.store.replace(path, good)
    assert here.open().purge("1d", "0s").metrics["versions_deleted"] == newest - 1, "once repaired, it replaces the versions"
    assert ids(here.open()) == list(range(40))


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultProxy]:
    with FaultProxy((server.host, server.port)).running() as running:
        yield running


def test_a_commit_is_rebuilt_on_the_new_base_and_recognized_if_its_answer_is_lost(server: Server, proxy: FaultProxy) -> None:
    """A retry with old manifests drops another writer's files (iceberg-go 976).

    A concurrent commit of another writer is kept. A commit without an answer is neither withdrawn nor repeated.
    """
    place = Place(server.place(), options(proxy.url, "20s"), now())
    place.create(PLAIN).append(rows(0, 10, days=1))
    meanwhile: list[Callable[[], object]] = []

    def overtaken(call: Call, perform: Perform) -> Any:
        if call.commits and meanwhile:
            meanwhile.pop()()
        return perform()

    with intercepting(place.address, overtaken, **place.settings):
        table = place.open()
        meanwhile.append(lambda: (place.open().append(rows(100, 10, days=1)), place.open().merge_splits()))
        report = table.append(rows(10, 10, days=1))
    assert (report.base_version, report.version, meanwhile) == (3, 4, [])
    assert ids(table) == [*range(20), *range(100, 110)]
    assert table.checkpoint().base_version == 4, "the checkpoint contains the version that the writer has committed"
    assert ids(place.open()) == ids(table)

    proxy.clear()
    proxy.rule("apply_reset", method="PUT", path=f"{5:020d}\\.json")
    assert place.open().append(rows(20, 10, days=1)).version == 5
    assert [request.action for request in proxy.log if request.action != "pass"] == ["apply_reset"]
    assert proxy.verbs()["DELETE"] == 0
    fresh = place.open()
    assert (fresh.version, ids(fresh)) == (5, [*range(30), *range(100, 110)])
    assert place.in_log() == place.log_of(range(6), [4])
    merged = {action["remove"]["path"] for action in fresh.log.actions(3) if "remove" in action}
    assert (len(merged), place.splits()) == (2, live(fresh) | merged)

    meanwhile.append(lambda: place.open().append(rows(200, 10, days=1)))
    with intercepting(place.address, overtaken, **place.settings):
        assert place.open().overwrite(rows(300, 5, days=1)).version == 7
    assert ids(place.open()) == list(range(300, 305)), "an overwrite also replaces the rows of a concurrent commit"


@both_places
def test_no_commit_overwrites_another(where: str, request: pytest.FixtureRequest) -> None:
    """A commit was overwritten because its existence was checked elsewhere (Delta 1410).

    The content of the object shows who created it.
    """
    place = at(where, request)
    table = place.create(PLAIN)
    table.append(rows(0, 10))
    late = it.open(place.address, options={**place.settings, **PLAIN})
    place.open().append(rows(10, 10))
    before = {path: place.store.read(path) for path in place.in_log()}
    assert not late._context.log.write(2, [Txn(app_id="late", version=1)], compress=False), "version 2 is there"
    assert late.append(rows(20, 10)).version == 3
    assert {path: place.store.read(path) for path in before} == before
    assert ids(place.open()) == list(range(30))


def test_a_store_that_cannot_create_atomically_is_refused(server: Server, tmp_path: Path) -> None:
    """It is refused by its type or because the probe fails. A single writer may use it with an explicit option."""
    non_atomic_store.register()
    with FaultProxy((server.host, server.port)).running() as proxy:
        proxy.strip_condition = True
        for place in (Place(f"plain:/{tmp_path}/t", {}, now()), Place(server.place(), options(proxy.url), now())):
            with pytest.raises(ConfigError, match=r"storage\.singleWriter=true"):
                place.create(PLAIN)
            alone = Place(place.address, {**place.settings, "storage.singleWriter": "true"}, now())
            assert alone.listed() == set()
            alone.create(PLAIN).append(rows(0, 10))
            assert ids(alone.open()) == list(range(10))
            with pytest.raises(ConfigError, match=r"storage\.singleWriter=true"):
                place.open().append(rows(10, 10))


@dataclass
class Meanwhile:
    """An executor that merges and then runs a function before the merge is committed."""

    happen: Callable[[], object]
    workers: int = 2
    runs_locally: bool = True

    def __call__(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        done = in_threads(work, items)
        self.happen()
        return done


@pytest.mark.parametrize("other", ["merge", "overwrite"])
def test_only_one_of_two_commits_with_the_same_sources_succeeds(here: Place, other: str) -> None:
    """Two merges of one split doubled its rows (Quickwit 3627).

    A second merge or an overwrite during the merge: rows are neither duplicated nor restored, and the losing split is left to purge.
    """
    table = here.create(PLAIN)
    for start in (0, 10):
        table.append(rows(start, 10, days=1))
    overtake = {"merge": lambda: here.open().merge_splits(), "overwrite": lambda: here.open().overwrite(rows(100, 5, days=1))}[other]
    context = TableContext.at(here.address, PLAIN, here.time.clock())
    with pytest.raises(it.ConcurrentConflict, match="not referenced by any version; purge will delete"):
        merge_splits.merge_splits(verbs.MergeSplits(), context, context.snapshot(), executor=Meanwhile(overtake))
    fresh = here.open()
    assert (fresh.version, ids(fresh)) == (3, list(range(20) if other == "merge" else range(100, 105)))
    assert len(here.splits()) == 4, "two sources, the committed split and the losing one"
    here.time.pass_days(8)
    assert here.open().purge().metrics["files_deleted"] == 3
    assert (here.splits(), ids(here.open())) == (live(fresh), ids(fresh))


@every_format
def test_a_split_that_was_added_again_is_live(here: Place, kind: Format) -> None:
    """A file that was removed and added again was deleted (Iceberg 17304).

    Its old removal is in a retained or an expired version. A split that was not added again is deleted.
    """
    table = here.create({**BY_HAND, **EVERY_FORMAT[kind]})
    table.append(rows(0, 10, days=1))
    (again,) = [action for action in table.log.actions(table.version) if "add" in action]
    table.append(rows(10, 10, days=1))
    table.overwrite(rows(100, 5, days=1))
    table.log.commit([again])
    table.append(rows(200, 5, days=1))
    assert again["add"]["path"] in live(here.open())
    expected = [*range(10), *range(100, 105), *range(200, 205)]
    here.time.pass_days(100)
    assert here.open().purge(log_retention="999d").metrics["files_deleted"] == 1, "the split with rows 10 to 19"
    for _ in range(2):
        here.open(**{name: str(value) for name, value in EVERY_FORMAT[kind].items()}).checkpoint()
        here.time.pass_days(100)
        here.open().purge(log_retention="30d")
        newest = here.open()
        assert (ids(newest), here.splits()) == (expected, live(newest))
        assert all(map(is_our_split, here.splits()))
        assert here.in_log() == here.log_of([0, newest.version], [newest.version])
