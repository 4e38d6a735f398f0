"""The local cache of path checksums: a checkpoint of a few new files reads no old manifest, and the result is always correct."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

import indextables as it
from indextables.state.checkpoints.avro import file_loader, manifest_cache
from tests.support.avro_tables import adds, commit, file, start
from tests.support.seeds import random_seed

DIGEST = "cd" * 16
PATHS = [f"f{number}" for number in range(300)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "manifests"


def found(*paths: str) -> list[str] | None:
    return manifest_cache.possible_paths(DIGEST, len(PATHS), paths)


def save_checksums() -> None:
    manifest_cache.put_paths(DIGEST, pa.chunked_array([PATHS[:100], PATHS[100:]]))


def test_paths_of_the_manifest_are_found_and_others_are_not() -> None:
    assert found("f1") is None  # nothing was saved
    save_checksums()
    assert found("f0", "g0", "f299", "", "ä") == ["f0", "f299"]
    manifest_cache.put_paths("ef" * 16, pa.chunked_array([], pa.string()))
    assert manifest_cache.possible_paths("ef" * 16, 0, ["f0"]) == []


def test_a_damaged_file_is_deleted(folder: Path) -> None:
    save_checksums()
    (path,) = folder.glob("??/*.crcs")
    whole = path.read_bytes()
    cases = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(len(whole))]
    cases += [whole[:length] for length in range(0, len(whole), 7)]
    for damaged in cases:
        path.write_bytes(damaged)
        assert found("f1") is None
        assert not path.exists()
    assert len(cases) > 1000


def test_a_folder_that_cannot_be_read_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / ("x" * 300)))  # root may read every folder, but no name is that long
    save_checksums()
    assert found("f0") is None
    table = start(tmp_path / "t")
    commit(table, *(file(path, 1) for path in PATHS))
    assert it.open(table).checkpoint().status == "success"


def test_a_checkpoint_of_new_files_reads_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even for a commit that does not state that its paths are new, such as one of another program."""
    table = start(tmp_path / "t")
    commit(table, *(file(path, 1) for path in PATHS))
    it.open(table).checkpoint()
    commit(table, file("new", 1))
    with monkeypatch.context() as patch:
        patch.setattr(file_loader, "load_manifest", lambda *_: pytest.fail("a manifest was read"))
        report = it.open(table).checkpoint()
    assert (report.metrics["num_files"], report.metrics["manifests_reused"]) == (301, 1)
    it.open(table)._context.log.close()  # discards what was cached while the function was patched
    assert {add.path for add in adds(table)} == {*PATHS, "new"}


@pytest.mark.parametrize("known", ["known", "forgotten", "damaged"])
def test_the_files_are_the_same_with_and_without_cached_checksums(tmp_path: Path, folder: Path, known: str) -> None:
    """Paths that are removed, removed and added again, or replaced, and two paths with equal checksums; after every step."""
    twins = twin_paths()
    steps = [
        [file("f1", 1, numMergeOps=1)],
        [{"remove": {"path": "f2", "dataChange": True}}],
        [{"remove": {"path": "f3", "dataChange": True}}, file("new", 1)],
        [file("f2", 1, numMergeOps=2)],
        [file(twins[1], 1)],
        [{"remove": {"path": twins[0], "dataChange": True}}],
    ]
    plain, table = start(tmp_path / "plain"), start(tmp_path / "t")
    for made in (plain, table):
        commit(made, *(file(path, 1) for path in PATHS), file(twins[0], 1))
    it.open(table).checkpoint()
    for step in steps:
        for made in (plain, table):
            commit(made, *step)
        for path in folder.glob("??/*.crcs") if known != "known" else ():
            path.unlink() if known == "forgotten" else path.write_bytes(b"x" + path.read_bytes()[1:])
        expected = [(add.path, add.num_merge_ops) for add in adds(plain)]
        assert it.open(table).describe()["num_files"] == len(expected)
        assert [(add.path, add.num_merge_ops) for add in adds(table)] == expected
        it.open(table).checkpoint()
        assert [(add.path, add.num_merge_ops) for add in adds(table)] == expected


def twin_paths() -> tuple[str, str]:
    seen: dict[int, str] = {}
    draw = random.Random(random_seed(1))
    while len(seen) < 1_000_000:
        path = f"twin-{draw.getrandbits(64):x}"
        other = seen.setdefault(crc32(path.encode()), path)
        if other != path:
            return other, path
    raise AssertionError("no two paths with equal checksums")
