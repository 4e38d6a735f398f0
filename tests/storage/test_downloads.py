"""The cache of remote splits: whole or not there, bounded, the least recently used go first."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.storage.downloads import Downloads


def writing(data: bytes, calls: list[str]) -> object:
    def fetch(path: str, file: Path) -> None:
        calls.append(path)
        file.write_bytes(data)

    return fetch


def test_fetched_once_and_told_apart_by_place_and_size(tmp_path: Path) -> None:
    calls: list[str] = []
    here, there = Downloads(tmp_path, "here"), Downloads(tmp_path, "there")
    first = here.get("a.split", 3, writing(b"abc", calls))
    assert here.get("a.split", 3, writing(b"abc", calls)) == first
    changed = first.stat().st_mtime_ns
    assert there.get("a.split", 3, writing(b"xyz", calls)).read_bytes() == b"xyz"
    assert (calls, first.read_bytes(), first.stat().st_mtime_ns) == (["a.split"] * 2, b"abc", changed)


def test_what_is_not_whole_is_not_there(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path, "x")
    with pytest.raises(SplitCorrupted, match="has 2 bytes and the log says 3"):
        downloads.get("a", 3, writing(b"ab", []))
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    kept = downloads.get("a", 3, writing(b"abc", []))
    kept.write_bytes(b"cut"[:1])
    assert downloads.get("a", 3, writing(b"abc", [])).read_bytes() == b"abc"


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path, "x", most_bytes=250)
    now = time.time()
    files = {}
    for name, age in (("old", 3000), ("used", 2000), ("young", limits.CACHE_GRACE_SECONDS / 2)):
        files[name] = downloads.get(name, 100, writing(b"x" * 100, []))
        os.utime(files[name], (now - age, now - age))
    downloads.get("used", 100, writing(b"", []))  # is used again
    stray = files["old"].parent / ".tmp-killed"
    stray.write_bytes(b"x")
    os.utime(stray, (now - 90_000, now - 90_000))
    new = downloads.get("new", 100, writing(b"x" * 100, []))
    assert {name for name, file in files.items() if file.exists()} == {"used", "young"}
    assert new.exists()
    assert not stray.exists()
