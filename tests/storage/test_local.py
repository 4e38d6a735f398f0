"""The local store's guarantees, with real processes."""

from __future__ import annotations

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables.config import Config
from indextables.errors import StorageError, StorageRefused, UnsafePath
from indextables.paths import TableRoot
from indextables.storage import LocalStore, StoreSpec, open_store, probe


def race(root: str, keys: int, writer: int) -> list[int]:
    store = LocalStore(TableRoot(root))
    return [key for key in range(keys) if store.create(f"log/{key}", f"{writer}".encode())]


def test_one_winner_per_key(tmp_path: Path) -> None:
    """R1: 8 processes race for 100 keys."""
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        wins = pool.starmap(race, [(str(tmp_path), 100, writer) for writer in range(8)])
    assert sorted(key for won in wins for key in won) == list(range(100))
    store = LocalStore(TableRoot(str(tmp_path)))
    for writer, won in enumerate(wins):
        assert all(store.read(f"log/{key}") == f"{writer}".encode() for key in won)
    assert {entry.path for entry in store.list("log")} == {f"log/{key}" for key in range(100)}


def test_create_keeps_the_old_bytes(tmp_path: Path) -> None:
    store = LocalStore(TableRoot(str(tmp_path)))
    assert store.create("a/b", b"1")
    assert not store.create("a/b", b"2")
    assert store.read("a/b") == b"1"
    store.replace("a/b", b"3")
    assert store.read("a/b") == b"3"
    assert [entry.path for entry in store.list("")] == ["a/b"]


def test_upload_moves_files_across_file_systems(tmp_path: Path) -> None:
    store = LocalStore(TableRoot(str(tmp_path / "table")))
    near = tmp_path / "near"
    near.write_bytes(b"near")
    assert store.upload(near, "x/near") > 0
    shared = Path("/dev/shm") if os.path.isdir("/dev/shm") else tmp_path
    far = shared / f"indextables-test-{os.getpid()}"
    far.write_bytes(b"far")
    store.upload(far, "x/far")
    assert (store.read("x/near"), store.read("x/far")) == (b"near", b"far")
    assert not near.exists()
    assert not far.exists()
    assert {entry.path for entry in store.list("x")} == {"x/near", "x/far"}


def test_symbolic_links_are_neither_listed_nor_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    table = tmp_path / "table"
    table.mkdir()
    (table / "link").symlink_to(outside / "secret")
    (table / "folder").symlink_to(outside)
    (table / "real").write_text("r")
    store = LocalStore(TableRoot(str(table)))
    assert [entry.path for entry in store.list("")] == ["real"]
    for path in ("link", "folder/secret"):
        with pytest.raises(UnsafePath, match="symbolic link"):
            store.local_path(path, 1)
    assert store.local_path("real", 1) == table / "real"


def test_new_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a crash lost the folder of a file, an acknowledged commit would be lost."""
    synced: set[str] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store = LocalStore(TableRoot(str(tmp_path / "new" / "table")))
    store.create("log/0.json", b"0")
    source = tmp_path / "made"
    source.write_bytes(b"split")
    store.upload(source, "date=1/splits/a.split")
    made = {
        tmp_path,
        tmp_path / "new",
        tmp_path / "new/table",
        *(tmp_path / f"new/table/{name}" for name in ("log", "date=1", "date=1/splits")),
    }
    assert {str(folder) for folder in made} <= synced


def test_missing_and_forbidden_files(tmp_path: Path) -> None:
    store = LocalStore(TableRoot(str(tmp_path)))
    with pytest.raises(FileNotFoundError):
        store.read("nothing")
    store.delete("nothing")
    assert list(store.list("nothing")) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="file/below"):
        store.create("file/below", b"x")


def test_listings_after_a_name_include_folders(tmp_path: Path) -> None:
    store = LocalStore(TableRoot(str(tmp_path)))
    names = ["log/1.json", "log/2.json", "log/2/x", "log/2/y", "log/state-3/a", "log/state-3/b/c", "log/state-4"]
    for name in names:
        store.create(name, b"x")
    found = [entry.path for entry in store.list("log")]
    assert sorted(found) == sorted(names)
    for after in ["", *names, "log/state-3", "log/state-3/", "log/0", "log/z", "log/2/"]:
        assert [entry.path for entry in store.list("log", after)] == [name for name in found if name > after], after


def test_permanent_errors_are_not_retryable(tmp_path: Path) -> None:
    """Exit code 78, not 75: a retry will not help."""
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "file", tmp_path / ("n" * 300)):
        with pytest.raises(StorageRefused) as caught:
            LocalStore(TableRoot(str(root))).replace("a", b"")
        assert (caught.value.retryable, caught.value.exit_code) == (False, 78)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageRefused, match=r"'a': the file system has no hard links"):
        LocalStore(TableRoot(str(tmp_path))).create("a", b"1")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_retryable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="No space left") as caught:
        LocalStore(TableRoot(str(tmp_path))).create("a", b"1")
    assert caught.value.retryable
    assert os.listdir(tmp_path) == []


def in_a_child(work: Callable[[], None]) -> None:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(20)
    stuck = child.is_alive()
    child.kill()
    assert (stuck, child.exitcode) == (False, 0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_locks_held_by_a_thread_do_not_block_a_forked_child() -> None:
    """A fork copies the lock but not the thread that would release it."""
    store = open_store(StoreSpec.of(TableRoot.parse("memory://fork/t"), Config.of()))
    store.create("a", b"1")

    def work() -> None:
        assert store.read("a") == b"1"
        assert probe._proved.get_or_make("bucket", lambda: True)

    with probe._proved._lock, probe._proved._making:
        in_a_child(work)
