"""The cache of remote splits: complete files only, bounded, least recently used evicted first."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables import limits
from indextables.errors import SplitCorrupted, StorageError
from indextables.storage.file_cache import FileCache
from indextables.storage.memory import MemoryStore
from indextables.storage.partial import PartialFile
from tests.support.seeds import random_seed


def writing(data: bytes, calls: list[str]) -> object:
    def fetch(path: str, file: Path) -> None:
        calls.append(path)
        file.write_bytes(data)

    return fetch


def test_a_file_is_fetched_once_per_location_and_size(tmp_path: Path) -> None:
    calls: list[str] = []
    here, there = FileCache(tmp_path, "here"), FileCache(tmp_path, "there")
    first = here.get("a.split", 3, writing(b"abc", calls))
    assert here.get("a.split", 3, writing(b"abc", calls)) == first
    changed = first.stat().st_mtime_ns
    assert there.get("a.split", 3, writing(b"xyz", calls)).read_bytes() == b"xyz"
    assert (calls, first.read_bytes(), first.stat().st_mtime_ns) == (["a.split"] * 2, b"abc", changed)


def test_an_incomplete_file_is_not_cached(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, "x")
    with pytest.raises(SplitCorrupted, match="has 2 bytes, but the log says 3"):
        cache.get("a", 3, writing(b"ab", []))
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    kept = cache.get("a", 3, writing(b"abc", []))
    kept.write_bytes(b"cut"[:1])
    assert cache.get("a", 3, writing(b"abc", [])).read_bytes() == b"abc"


def test_the_least_recently_used_files_are_evicted_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, "x", max_bytes=250)
    now = time.time()
    files = {}
    for name, age in (("old", 3000), ("used", 2000), ("young", limits.CACHE_GRACE_SECONDS / 2)):
        files[name] = cache.get(name, 100, writing(b"x" * 100, []))
        os.utime(files[name], (now - age, now - age))
    cache.get("used", 100, writing(b"", []))  # is used again
    stray = files["old"].parent / ".tmp-killed"
    stray.write_bytes(b"x")
    os.utime(stray, (now - 90_000, now - 90_000))
    new = cache.get("new", 100, writing(b"x" * 100, []))
    assert {name for name, file in files.items() if file.exists()} == {"used", "young"}
    assert new.exists()
    assert not stray.exists()


def test_processes_and_threads_may_fetch_the_same_file(tmp_path: Path) -> None:
    """Every reader gets a complete file, even while others fetch or evict it; no partial file is left."""
    data = random.Random(random_seed()).randbytes(300_000)
    source = tmp_path / "source"
    source.write_bytes(data)
    script = (
        "import sys, pathlib, shutil, concurrent.futures\nfrom indextables.storage.file_cache import FileCache\n"
        "folder, source = map(pathlib.Path, sys.argv[1:])\nwanted = source.read_bytes()\n"
        "def work(number):\n"
        "    file = FileCache(folder, 'x').get(f'{number % 3}.split', len(wanted), lambda path, file: shutil.copyfile(source, file))\n"
        "    same = file.read_bytes() == wanted\n"
        "    if number % 10 == 0: file.unlink(missing_ok=True)\n"
        "    return same\n"
        "def tried(number):\n"
        "    try: return work(number)\n"
        "    except FileNotFoundError: return None  # another dropped it between the two lines, as a real reader would see\n"
        "with concurrent.futures.ThreadPoolExecutor(4) as pool: found = list(pool.map(tried, range(60)))\n"
        "print(found.count(True), found.count(False))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script, str(tmp_path / "cache"), str(source)]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate(timeout=60)[0].split() for process in running]
    assert [wrong for _, wrong in answers] == ["0"] * 3
    assert sum(int(right) for right, _ in answers) > 120
    assert list((tmp_path / "cache").rglob(".tmp-*")) == []


def test_partial_files(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, "x", max_bytes=100_000)
    data = random.Random(random_seed()).randbytes(200_000)

    def read(start: int, end: int) -> bytes:
        return data[start:end]

    file = cache.partial("a.split", len(data), 190_000, read)
    assert file is not None
    assert file.local.stat().st_size == len(data)
    assert file.fetch([(5, 10), (199_995, 200_010)]) == [data[5:10], data[199_995:]]
    file.write(8192, memoryview(data)[8192:12_288])
    again = cache.partial("a.split", len(data), 190_000, read)
    assert again is not None
    assert (again.inode, os.pread(again.descriptor, 4096, 8192)) == (file.inode, data[8192:12_288])
    # It counts with its allocated size, is evicted like the others, and still works for readers that have it open.
    os.utime(file.local, (0, 0))
    small = cache.get("b.split", 50_000, writing(b"b" * 50_000, []))
    assert file.local.exists()
    cache.get("c.split", 90_000, writing(b"c" * 90_000, []))
    assert not file.local.exists()
    assert small.exists()  # young
    file.write(0, memoryview(b"still"))
    assert os.pread(again.descriptor, 5, 0) == b"still"
    # Once the whole file is cached, the partial one is deleted.
    sparse = cache.partial("a.split", len(data), 190_000, read)
    assert sparse is not None
    cache.get("a.split", len(data), writing(data, []))
    assert not sparse.local.exists()
    assert cache.partial("a.split", len(data), 190_000, read) is None


def test_a_growing_partial_file_evicts_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CACHE_CHECK_BYTES", 50_000)
    cache = FileCache(tmp_path, "x", max_bytes=100_000)
    old = cache.get("old", 40_000, writing(b"x" * 40_000, []))
    file = cache.partial("a.split", 10**6, 0, lambda start, end: b"")
    assert file is not None
    os.utime(old, (0, 0))
    for start in range(0, 200_000, 10_000):
        file.write(start, memoryview(b"y" * 10_000))
    assert not old.exists()
    assert file.local.exists()


def test_a_partial_file_that_cannot_be_cached(tmp_path: Path) -> None:
    def gone(start: int, end: int) -> bytes:
        raise FileNotFoundError("anything")

    file = FileCache(tmp_path, "x").partial("a.split", 10, 5, gone)
    assert file is not None
    with pytest.raises(FileNotFoundError, match=r"^a\.split$"):
        file.fetch([(0, 1), (2, 3)])
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError, match=r"a\.split.*cannot be cached"):
        PartialFile("a.split", tmp_path / "taken" / "x", 10, 5, gone, list)
    closed = PartialFile("b.split", tmp_path / "b", 10, 5, gone, list)
    closed.descriptor = os.open(tmp_path / "b", os.O_RDONLY)
    with pytest.raises(StorageError, match=r"b\.split.*cannot be cached"):
        closed.write(0, memoryview(b"x"))
    os.close(closed.descriptor)


@pytest.mark.parametrize(("most", "all_kept"), [("1M", False), ("1G", True)])
def test_the_cache_size_is_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: str, all_kept: bool) -> None:
    """Rows are read whatever the cache size."""
    monkeypatch.setattr(limits, "CACHE_GRACE_SECONDS", -60)  # otherwise files used just now stay
    monkeypatch.setenv("INDEXTABLES_CACHE_MAX_SIZE", "2G")
    place = f"memory://{uuid.uuid4().hex}"
    table = it.create(place, pa.schema([("x", pa.binary())]), options={"cache.maxSize": most})
    assert table.configuration == {}
    noise = random.Random(random_seed())
    for _ in range(4):
        table.append([{"x": noise.randbytes(400_000)}])
    assert table.scan().read_all().num_rows == 4
    store = table._context.store
    assert isinstance(store, MemoryStore)
    kept = [file.stat().st_size for file in store._folder.rglob("*.split")]
    assert (len(kept) == 4) is all_kept
    assert sum(kept) <= 1_048_576 or all_kept
