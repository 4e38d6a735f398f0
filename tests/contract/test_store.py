"""The guarantees of `Store`, tested for every implementation."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.storage import Store, StoreSpec, open_store


def test_create_keeps_the_old_bytes_and_replace_does_not(store: Store) -> None:
    assert store.create("log/a", b"1")
    assert not store.create("log/a", b"2")
    assert store.read("log/a") == b"1"
    store.replace("log/a", b"3")
    store.replace("log/b", b"4")
    assert list(store.read_many(["log/b", "log/a", "log/b"])) == [b"4", b"3", b"4"]
    assert store.create("log/empty", b"")
    assert not store.create("log/empty", b"full")
    assert store.read("log/empty") == b""


def test_missing_files(store: Store) -> None:
    for read in (lambda: store.read("no"), lambda: store.read_range("no", 0, 3), lambda: store.local_path("no", 3)):
        with pytest.raises(FileNotFoundError, match="no"):
            read()
    store.create("yes", b"y")
    with pytest.raises(FileNotFoundError):
        store.read_many(["yes", "no", "yes"])
    assert list(store.list("nowhere")) == []
    store.delete("no")


def test_ranges(store: Store) -> None:
    data = bytes(range(256)) * 40
    store.create("x", data)
    for start, end in ((0, 1), (0, len(data)), (100, 300), (len(data) - 5, len(data) + 50), (len(data), len(data) + 1), (7, 7)):
        assert store.read_range("x", start, end) == data[start:end]


def test_listings_are_current_and_ordered(store: Store) -> None:
    names = [f"log/{number:020d}.json" for number in (3, 1, 2, 10)]
    for number, name in enumerate(names):
        assert name not in [entry.path for entry in store.list("log")]
        store.create(name, b"x" * number)
        assert name in [entry.path for entry in store.list("log")]
    store.create("logs/other", b"")
    store.create("p=a%2Fb ü+&/splits/s.split", b"split")
    assert [entry.path for entry in store.list("log")] == sorted(names)
    assert [entry.path for entry in store.list("log", after=names[2])] == [names[0], names[3]]
    assert [entry.path for entry in store.list("log", after=names[3])] == []
    assert {entry.path: entry.size for entry in store.list("")}["p=a%2Fb ü+&/splits/s.split"] == 5
    assert store.read("p=a%2Fb ü+&/splits/s.split") == b"split"
    assert all(abs(entry.modified_ms / 1000 - time.time()) < 60 for entry in store.list(""))
    store.delete(names[0])
    assert [entry.path for entry in store.list("log")] == sorted(names[1:])


def test_a_fresh_copy_bypasses_the_cache(store: Store) -> None:
    store.replace("splits/a.split", b"before")
    assert store.local_path("splits/a.split", 6).read_bytes() == b"before"
    store.replace("splits/a.split", b"after!")
    with store.fresh_copy("splits/a.split", 6) as file:
        assert file.read_bytes() == b"after!"
    store.delete("splits/a.split")
    with pytest.raises(FileNotFoundError), store.fresh_copy("splits/a.split", 6):
        pass


def test_uploads_move_files_and_local_paths_have_their_bytes(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"split" * 100)
    modified = store.upload(source, "d=1/splits/a.split")
    assert abs(modified / 1000 - time.time()) < 60
    assert not source.exists()
    found = store.local_path("d=1/splits/a.split", 500)
    assert found.read_bytes() == b"split" * 100
    assert store.local_path("d=1/splits/a.split", 500) == found
    if store.root.is_local:
        assert store.local_path("d=1/splits/a.split", 499) == found, "only a fetched file is compared with the log"
    else:
        with pytest.raises(SplitCorrupted, match="500 bytes, but the log says 499"):
            store.local_path("d=1/splits/a.split", 499)
    store.delete("d=1/splits/a.split")
    assert list(store.list("d=1")) == []


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # how the libraries of Google and Azure send it
def test_large_files_are_transferred_in_parts(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the smallest part size that S3 accepts; the length is first not a multiple of it, then is one."""
    monkeypatch.setattr(limits, "PART_BYTES", 5 * limits.MIB)
    for size in (11 * limits.MIB + 7, 10 * limits.MIB):
        data = bytes(bytearray(range(251)) * (size // 251 + 1))[:size]
        source = tmp_path / f"source{size}"
        source.write_bytes(data)
        store.upload(source, f"{size}.split")
        assert store.local_path(f"{size}.split", size).read_bytes() == data
        assert [entry.size for entry in store.list("") if entry.path == f"{size}.split"] == [size]
        if not store.root.is_local:
            with pytest.raises(SplitCorrupted, match="the log says"):
                store.local_path(f"{size}.split", size - 5 * limits.MIB)


def test_one_winner_among_threads(store: Store) -> None:
    writers = 1 if store.spec.single_writer else 8
    for key in range(3):
        start = threading.Barrier(writers)

        def write(writer: int, key: int = key, start: threading.Barrier = start) -> bool:
            start.wait()
            return store.create(f"log/{key}", f"writer {writer}".encode())

        with ThreadPoolExecutor(writers) as pool:
            won = [writer for writer, made in enumerate(pool.map(write, range(writers))) if made]
        assert len(won) == 1
        assert store.read(f"log/{key}") == f"writer {won[0]}".encode()


def test_specs_can_be_pickled(spec: StoreSpec) -> None:
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert open_store(again) is open_store(spec)
    open_store(again).create("x", b"1")
    assert open_store(spec).read("x") == b"1"
