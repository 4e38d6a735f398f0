"""The cache of open splits: bounded, shared by threads, empty after a fork, and without traces on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from indextables import limits
from indextables.errors import SplitCorrupted, StorageError
from indextables.splits import SplitReader, open_split, parse_query
from indextables.splits import reader as reader_module
from tests.support.forked import in_forked_child
from tests.support.splits import LOGS, LOGS_MAPPING, matches, write_logs


def test_a_changed_file_gets_a_new_reader(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 20)
    first = open_split(tmp_path / "a.split")
    with open_split(tmp_path / "a.split") as again:
        assert again is first
    assert matches(first, "row0x4") == {4}
    write_logs(tmp_path / "a.split", 20, seed=1)
    assert matches(open_split(tmp_path / "a.split"), "row0x4") == set()
    (tmp_path / "a.split").unlink()
    with pytest.raises(SplitCorrupted, match="is missing"):
        open_split(tmp_path / "a.split")
    assert matches(first, "row0x4") == {4}  # an open reader remains usable


def test_the_cache_of_readers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPEN_SPLITS", 2)
    for n in range(5):
        write_logs(tmp_path / f"{n}.split", 10, n)
        assert matches(open_split(tmp_path / f"{n}.split"), f"row{n}x1") == {1}
    assert [Path(key[0]).name for key, _ in reader_module._readers.items()] == ["3.split", "4.split"]
    kept = open_split(tmp_path / "3.split")
    open_split(tmp_path / "0.split")
    assert open_split(tmp_path / "3.split") is kept  # the most recently used one stays


def test_the_copy_of_the_index_is_unlinked_once_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    write_logs(tmp_path / "a.split", 3000)
    reader = SplitReader(tmp_path / "a.split")
    assert reader._open_searcher is None  # rows need no index
    for query in ("row0x1", "NOT row0x1", '"disk refused"', "status:[1 TO 2]", "ok:true", "level:INFO", "message:ro*", "ts:*"):
        assert matches(reader, query)
        assert list((tmp_path / "tmp").iterdir()) == []
    reader.close()
    reader.close()
    assert matches(reader, "row0x1") == {1}  # it opens again
    reader.close()


def test_a_missing_temporary_folder_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    write_logs(tmp_path / "a.split", 10)
    with SplitReader(tmp_path / "a.split") as reader, pytest.raises(StorageError, match=r"a\.split"):
        matches(reader, "row0x1")


def test_threads_share_the_cached_readers(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.split" for n in range(3)]
    for n, path in enumerate(paths):
        write_logs(path, 200, n)
    queries = [
        parse_query(text, LOGS, LOGS_MAPPING)
        for text in ("timeout -disk", "status:[5 TO 300]", '"disk full" OR level:ERROR', "ro* AND ok:true")
    ]

    def work(step: int) -> list[int]:
        reader = open_split(paths[step % 3])
        rows, _ = reader.search(queries[step % 4])
        return [step % 12, len(rows), reader.take(rows[:5], ["message"]).num_rows]

    expected = {step: work(step) for step in range(12)}
    reader_module._readers.clear()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(240)))
    assert len(results) == 240
    assert all(result == expected[result[0]] for result in results)


def _in_child(path: Path) -> tuple[int, set[int]]:
    return len(reader_module._readers), matches(open_split(path), "row0x1")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_with_an_empty_cache(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 10)
    reader = open_split(tmp_path / "a.split")
    assert matches(reader, "row0x1") == {1}
    assert in_forked_child(_in_child, tmp_path / "a.split") == (0, {1})
    assert matches(reader, "row0x1") == {1}


def test_a_process_leaves_nothing_in_the_temporary_folder(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 10)
    script = (
        "import sys, pathlib\nfrom indextables.splits import *\nreader = open_split(pathlib.Path(sys.argv[1]))\n"
        "print(len(reader.search(parse_query('row0x1', reader.schema, reader.mapping))[0]), flush=True)\n"
        "import os\nos._exit(0)\n"  # like Spark's workers, which run no exit handlers
    )
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.split")], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n"
    assert list((tmp_path / "tmp").iterdir()) == []
