"""Checkpoint failures that other systems reported, which must not lose data here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import indextables as it
from indextables.errors import LogCorrupted
from indextables.log import names
from indextables.state.checkpoints.contents import Format
from indextables.table.opening import load_snapshot
from tests.support.checkpoints import OPTIONS, begin, commit, log_of, write_checkpoint
from tests.support.loading import read_all
from tests.support.logs import add, log_folder, paths
from tests.support.memory_store import MemoryStore
from tests.support.tables import ids, make, rows

POINTERS = {
    "gone": None,
    "empty": b"",
    "truncated": b'{"version":',
    "not an object": b"[]",
    "without a version": b'{"size":3}',
    "minimal": b'{"version":4}',  # LCP-04
    "stale": b'{"version":1,"size":1}',
    "negative": b'{"version":-1}',
    "beyond": b'{"version":99,"size":1}',
    "version is a string": b'{"version":"4"}',
    "of an avro state": json.dumps(  # LCP-05
        {
            "version": 42,
            "size": 15000,
            "sizeInBytes": 1234567,
            "numFiles": 15000,
            "createdTime": 1700000000000,
            "format": "avro-state",
            "stateDir": "state-v00000000000000000042",
        }
    ).encode(),
    "of missing parts": b'{"version":4,"size":9,"parts":7,"checkpointId":"0123456789ab","format":"json-multipart"}',
    "of an unknown format": b'{"version":4,"format":"hologram"}',
    "not text": bytes(range(128, 256)),
    "deep": b"[" * 100_000,
}


def six_versions(kind: Format) -> MemoryStore:
    """A table with six versions, of which the fourth has a checkpoint."""
    store = MemoryStore()
    begin(store)
    for number in range(1, 7):
        commit(store, log_of(store).listing().versions[-1] + 1, add(f"f{number}"), add(f"g{number}"))
        if number == 4:
            write_checkpoint(store, kind)
    return store


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", POINTERS)
def test_a_bad_pointer_is_ignored(kind: Format, name: str) -> None:
    """LCP-01 to LCP-05, delta-rs 2258, trino 22748: a crash between checkpoint and pointer, an empty or wrong pointer."""
    store = six_versions(kind)
    pointer = POINTERS[name]
    store.files.pop(names.pointer_path())
    if pointer is not None:
        store.files[names.pointer_path()] = pointer
    snapshot = read_all(log_of(store))
    base = 5 if kind is Format.JSON_PARTS else 4
    assert (snapshot.version, snapshot.checkpoint, len(snapshot.files)) == (base + 2, base, 12)
    write_checkpoint(store, kind)  # repairs the pointer
    assert json.loads(store.files[names.pointer_path()])["version"] == load_snapshot(log_of(store)).version


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_corrupt_checkpoint_does_not_stop_reads(kind: Format, tmp_path: Path) -> None:
    """Delta 5458, delta-kernel-rs 497: the log is complete, so nothing is lost, and the next checkpoint replaces the corrupt one."""
    options = {**OPTIONS[kind], "checkpoint.enabled": False}
    table = make(tmp_path / "t", 3, **options)
    table.checkpoint()
    version = it.open(tmp_path / "t").version
    listing = it.open(tmp_path / "t")._context.log.listing()
    for path in listing.checkpoint_files(version):
        (tmp_path / "t" / path).write_bytes(b"\x1f\x8bnot what was written")
    damaged = it.open(tmp_path / "t")
    assert (ids(damaged), damaged.version) == (list(range(30)), version)
    damaged.append(rows(30, 10))
    assert damaged.checkpoint().status == "success"
    for number in range(1, damaged.version + 1):
        (log_folder(tmp_path / "t") / f"{number:020d}.json").unlink()
    assert ids(it.open(tmp_path / "t")) == list(range(40))


@pytest.mark.parametrize("kind", OPTIONS)
def test_an_incomplete_checkpoint_is_ignored(kind: Format) -> None:
    """If any file of a checkpoint is missing, the log is read instead."""
    store = six_versions(kind)
    version = log_of(store).listing().bases[0]
    files = log_of(store).listing().checkpoint_files(version)
    assert len(files) == {Format.JSON: 1, Format.PARQUET: 2}.get(kind, len(files))
    for missing in files:
        other = MemoryStore()
        other.files = {path: data for path, data in store.files.items() if path != missing}
        snapshot = read_all(log_of(other))
        assert (snapshot.checkpoint, len(snapshot.files)) == (None, 12), missing


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_newest_checkpoint_is_never_deleted(kind: Format, tmp_path: Path) -> None:
    """Delta-rs 2174: the base of the newest version is kept at any age."""
    table = make(tmp_path / "t", 4, **OPTIONS[kind], **{"checkpoint.enabled": False})
    table.checkpoint()
    for _ in range(2):
        table.purge(older_than="1d", log_retention="0s")
        assert ids(it.open(tmp_path / "t")) == list(range(40))
    table.append(rows(40, 10))
    table.purge(older_than="1d", log_retention="0s")
    assert ids(it.open(tmp_path / "t")) == list(range(50))


@pytest.mark.parametrize("kind", OPTIONS)
def test_an_expired_log_without_a_valid_checkpoint_names_what_is_missing(kind: Format) -> None:
    """ERR-01: the error names the broken checkpoint and what to do; an older version is never returned."""
    store = six_versions(kind)
    version = log_of(store).listing().bases[0]
    for number in range(1, version + 1):
        store.delete(names.version_path(number))
    for path in log_of(store).listing().checkpoint_files(version):
        store.files[path] = store.files[path][:-3]
    with pytest.raises(LogCorrupted) as caught:
        load_snapshot(log_of(store))
    message = str(caught.value)
    assert "version 1 is missing" in message
    assert f"broken checkpoints: {version}" in message
    assert "restore it or a valid checkpoint, or build a new log from the remaining splits with `indextables repair`" in message


def test_the_first_checkpoint_of_a_table_hides_nothing(tmp_path: Path) -> None:
    """A table without checkpoints gets one of each format later."""
    table = make(tmp_path / "t", 3, **{"checkpoint.enabled": False})
    assert [path.name for path in log_folder(tmp_path / "t").iterdir() if "checkpoint" in path.name] == []
    for number, options in enumerate(OPTIONS.values()):
        it.open(tmp_path / "t").append(rows(30 + 10 * number, 10))
        it.open(tmp_path / "t", options=options).checkpoint()
    assert ids(it.open(tmp_path / "t")) == list(range(30 + 10 * len(OPTIONS)))
    assert len(paths(it.open(tmp_path / "t"))) == 2 * (3 + len(OPTIONS))
    assert len(ids(table)) == 30
