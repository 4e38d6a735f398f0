"""The local cache of decoded manifests: verified, bounded, and optional; damaged files are deleted."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import indextables as it
from indextables import limits
from indextables.actions import Add
from indextables.actions.columns import encode
from indextables.state.checkpoints.avro import manifest_cache
from tests.support.avro_tables import adds, commit, file, start

ROWS = encode([Add(path=f"f{n}", partition_values={"p": str(n)}, size=n, modification_time=n, data_change=True) for n in range(500)])
DIGEST = "ab" * 16


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "manifests"


def test_cached_rows_are_returned() -> None:
    assert manifest_cache.get(DIGEST) is None
    assert manifest_cache.put(DIGEST, ROWS).equals(ROWS)
    found = manifest_cache.get(DIGEST)
    assert found is not None
    assert found.equals(ROWS)


def test_a_damaged_file_is_deleted(folder: Path) -> None:
    """Bit flips in every page and truncation are detected."""
    manifest_cache.put(DIGEST, ROWS)
    (path,) = folder.glob("??/*.arrow")
    whole = path.read_bytes()
    cases = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(0, len(whole), 97)]
    cases += [whole[:length] for length in range(0, len(whole), 997)] + [whole[4096:8192] + whole[:4096] + whole[8192:]]
    for damaged in cases:
        path.write_bytes(damaged)
        assert manifest_cache.get(DIGEST) is None
        assert not path.exists()
    assert len(cases) > 500


def test_a_file_whose_time_cannot_be_set_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that another user owns, or a read-only one. A test may run as root, for whom every file is writable."""

    def refused(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    manifest_cache.put(DIGEST, ROWS)
    manifest_cache.put_paths(DIGEST, ROWS.column("path"))
    before = sorted(folder.glob("??/*"))
    monkeypatch.setattr(os, "utime", refused)
    found = manifest_cache.get(DIGEST)
    assert found is not None
    assert found.equals(ROWS)
    assert manifest_cache.possible_paths(DIGEST, len(ROWS), ["f7"]) == ["f7"]
    assert sorted(folder.glob("??/*")) == before


def test_a_damaged_cache_file_does_not_change_the_result(tmp_path: Path, folder: Path) -> None:
    table = start(tmp_path / "t")
    commit(table, *(file(f"f{n}", n) for n in range(100)))
    it.open(table).checkpoint()
    expected = adds(table)
    (path,) = folder.glob("??/*.arrow")
    path.write_bytes(path.read_bytes()[:-100] + bytes(100))
    it.open(table)._context.log.close()
    assert adds(table) == expected
    assert path.exists()  # created again


def test_a_folder_that_cannot_be_written_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blocked").write_text("a file")
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "blocked"))
    assert manifest_cache.put(DIGEST, ROWS) is ROWS
    assert manifest_cache.get(DIGEST) is None


def test_the_least_recently_used_files_are_evicted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest_cache.put(DIGEST, ROWS)
    (first,) = folder.glob("??/*.arrow")
    monkeypatch.setattr(limits, "MANIFEST_CACHE_BYTES", 2 * first.stat().st_size)
    os.utime(first, (1, 1))
    for number in range(2):
        manifest_cache.put(f"{number:032x}", ROWS)
    assert not first.exists()
    assert len(list(folder.glob("??/*.arrow"))) == 2


def test_concurrent_reads_and_writes() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: manifest_cache.put(DIGEST, ROWS) if n % 2 else manifest_cache.get(DIGEST), range(40)))
    assert all(rows is None or rows.equals(ROWS) for rows in found)
    assert sum(rows is not None for rows in found) >= 20
