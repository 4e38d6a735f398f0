"""Purge, repair and drop on a real S3 server: the same as on local disk, and beyond the thousand keys of one page."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import indextables as it
from indextables.storage import open_store
from tests.contract.conftest import spec_of
from tests.operations.expire.test_purge_model import SEED, STEPS, history_of
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.modeled_table import RemoteModeledTable
from tests.support.s3 import Server
from tests.support.seeds import random_seed
from tests.support.tables import SCHEMA, FakeTime, ids, rows

HISTORIES = 8


def keys(server: Server, place: str) -> set[str]:
    return {entry.path for entry in open_store(spec_of(place, **server.options)).list("")}


def test_r10_on_s3(mini: Server, tmp_path: Path) -> None:
    """The listing is compared with the model after every purge; times come from the test, everything else from the server."""
    seed = random_seed(SEED)
    deleted = read = 0
    for number in range(HISTORIES):
        place, rng = mini.place(), random.Random(seed - number)
        table = RemoteModeledTable(tmp_path / str(number) / "t", rng, store=open_store(spec_of(place, **mini.options)))

        def with_times_of_the_model(call: Call, perform: Perform, table: RemoteModeledTable = table) -> Any:
            return list(map(table.listed_as, perform())) if call.verb == "list" else perform()

        with intercepting(place, with_times_of_the_model, **mini.options):
            gone, again = history_of(table, rng, seed - number, place, mini.options)
        deleted, read = deleted + gone, read + again
    print(f"{HISTORIES} histories of {STEPS} steps on S3, seeds {seed} and below: {deleted} files went, {read} versions were read again")
    assert deleted > 10 * HISTORIES
    assert read > 4 * HISTORIES


def test_more_dead_splits_than_a_page_of_keys(mini: Server) -> None:
    """A listing that stops at 1,000 keys would miss the rest, or delete live splits."""
    place, time = mini.place(), FakeTime()
    table = it.create(place, SCHEMA, options=mini.options, clock=time.clock())
    table.append(rows(0, 5))
    live = set(table.files().column("path").to_pylist())
    store = open_store(spec_of(place, **mini.options))
    orphans = [f"splits/split-00000000-0000-4000-8000-{number:012x}.split" for number in range(1_100)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda path: store.replace(path, b"x"), [*orphans, "splits/zz-not-ours.split"]))
    time.ms = max(entry.modified_ms for entry in store.list("")) + 8 * 86_400_000
    report = table.purge()
    assert (report.status, report.metrics["files_deleted"], report.warnings) == ("success", 1_100, [])
    left = {path for path in keys(mini, place) if not path.startswith("_transaction_log/")}
    assert left == live | {"splits/zz-not-ours.split"}
    assert ids(it.open(place, options=mini.options)) == list(range(5))
    assert table.purge().status == "no_action"


def test_repair_drop_partitions_and_drop_on_s3(mini: Server) -> None:
    place, new = mini.place(), mini.place()
    table = it.create(place, SCHEMA, partition_by=["date"], options=mini.options)
    for start in (0, 10):
        table.append(rows(start, 10))
    store = open_store(spec_of(place, **mini.options))
    lost = table.files().column("path")[0].as_py()
    store.delete(lost)
    before = keys(mini, place)
    report = it.repair(place, new, mini.options)
    assert (report.status, report.metrics["valid_splits"], report.metrics["missing_splits"]) == ("partial", 3, 1)
    assert lost in report.warnings[0]
    assert keys(mini, place) == before, "the source is only read"
    log = open_store(spec_of(new, **mini.options))
    for entry in list(store.list("_transaction_log")):
        store.delete(entry.path)
    for entry in log.list(""):
        store.replace(f"_transaction_log/{entry.path}", log.read(entry.path))
    mended = it.open(place, options=mini.options)
    assert mended.count() == 15
    mended.append(rows(100, 2))
    named = mended.files("date = '2024-01-02'").num_rows
    assert mended.drop_partitions("date = '2024-01-02'").metrics["files_removed"] == named == 3
    assert ids(mended, "date = '2024-01-02'") == []
    store.replace("notes.txt", b"mine")
    assert it.drop(place, confirm=True, options=mini.options).status == "success"
    assert keys(mini, place) == {"notes.txt"}
