"""File entries in manifests are loaded on demand, and only once for all versions that share a state."""

from __future__ import annotations

import gc
import pickle
import shutil
import weakref
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.errors import LogCorrupted
from indextables.state.checkpoints.avro.file_loader import FileLoader, ManifestDamaged, held_bytes, is_loaded
from indextables.table.opening import advance, load_snapshot
from tests.support.avro_tables import commit, file, log_folder, start
from tests.support.intercepted_store import Call, Perform, intercepting


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    path = start(tmp_path / "t")
    commit(path, *(file(f"f{n}", n) for n in range(10)))
    it.open(path).checkpoint()
    commit(path, {"remove": {"path": "f3"}}, file("g", 3))
    return path


def test_a_snapshot_has_no_reference_to_its_store(table: Path) -> None:
    """A snapshot can be pickled; a closure or lock could not, and a store would show in the bytes."""
    calls: list[Call] = []

    def watched(call: Call, perform: Perform) -> Any:
        calls.append(call)
        return perform()

    with intercepting(table, watched):
        snapshot = it.open(table)._snapshot
        calls.clear()
        data = pickle.dumps(snapshot)
        assert b"indextables.storage" not in data
        again = pickle.loads(data)
        assert again.layers.gone == snapshot.layers.gone == {"f3", "g"}
        assert again.layers.newer.paths() == ["g"]
        with pytest.raises(AssertionError, match="must be loaded first"):
            _ = again.layers.complete
    assert calls == []


def test_entries_are_loaded_once_for_all_versions_on_a_state(table: Path, tmp_path: Path) -> None:
    opened = it.open(table)
    context, snapshot = opened._context, opened._snapshot
    assert snapshot.layers.base is not None
    (manifest,) = snapshot.layers.base.manifests
    assert not is_loaded(manifest)
    before = held_bytes(snapshot.layers)
    assert sorted(context.load(snapshot).files.paths()) == sorted([*(f"f{n}" for n in range(10) if n != 3), "g"])
    assert is_loaded(manifest)
    assert held_bytes(snapshot.layers) > before
    shutil.rmtree(log_folder(table) / "manifests")  # from here on no manifest can be read
    shutil.rmtree(tmp_path / "cache")
    commit(table, file("h", 4))
    later = advance(context.log, snapshot)
    assert later.layers.base is snapshot.layers.base
    assert context.totals(later).num_files == len(context.load(later).files) == 11
    assert context.load(later) is context.load(later)


def test_entries_are_freed_with_the_last_snapshot_on_their_state(table: Path) -> None:
    log = it.open(table)._context.log
    snapshot = load_snapshot(log, 1)
    assert snapshot.layers.base is not None
    segment = weakref.ref(FileLoader(log).segments(snapshot.layers.base.manifests)[0])
    assert segment() is not None
    del snapshot
    gc.collect()
    assert segment() is None


def test_a_damaged_manifest_raises_and_never_loses_files(table: Path, tmp_path: Path) -> None:
    (manifest,) = (log_folder(table) / "manifests").glob("*.avro")
    snapshot = it.open(table)._snapshot
    manifest.write_bytes(manifest.read_bytes()[:-1] + b"\0")
    for path in (tmp_path / "cache").rglob("*.arrow"):
        path.unlink()
    context = it.open(table)._context
    with pytest.raises(ManifestDamaged, match="does not match the digest"):
        FileLoader(context.log).load(snapshot.layers)
    assert len(context.load(snapshot).files) == 10  # read from the version files
    (log_folder(table) / f"{1:020d}.json").unlink()
    fresh = it.open(table, options={"transaction.cache.enabled": "false"})
    with pytest.raises(LogCorrupted, match=r"the log of .* is incomplete: .* is missing"):
        fresh._context.load(fresh._snapshot)
