"""Unexpected behaviour of tantivy, and how IndexTables handles it.

Covered elsewhere in this folder: terms of 65 kB, words of 40 bytes, surrogates, NaN and -0.0, extreme dates (test_types); column names,
several segments, documents in row order (test_roundtrip); parentheses, prefixes of more than 50 words (test_query); no checksum
verification when an index opens (test_damage); threads of open indexes, forks (test_cache); tails (test_format); holes (test_partial);
order after a merge, damaged sources, a child that dies (test_merge); splits of other programs (test_upstream). Sums above 2^53 and more
groups than tantivy counts are covered in tests/operations/aggregate, huge limits in tests/operations/test_upstream_mistakes.py.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tantivy

from indextables.errors import InvalidQuery, SplitCorrupted, StorageError
from indextables.splits import DocMapping, SplitReader, parse_query
from indextables.splits.format.scratch import scratch_folder
from indextables.splits.index import schema as index_module
from indextables.splits.index.schema import tantivy_errors_as, top_hits
from tests.support.splits import batch_of, matches, write_split

LETTERS = batch_of({"t": pa.array(["Alpha beta", "beta", None]), "n": pa.array([1, None, 3]), "ok": pa.array([True, False, None])})


def test_a_failed_commit_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of the wrong type is accepted when it is added, and fails the complete commit; `with writer` would swallow the error."""
    real = index_module.prepare_column

    def poisoned(column: pa.Array, kind: str, tokenizer: str) -> Any:
        add, values = real(column, kind, tokenizer)
        return (tantivy.Document.add_text, ["true" for _ in values]) if kind == "bool" else (add, values)

    monkeypatch.setattr(index_module, "prepare_column", poisoned)
    with pytest.raises(StorageError, match="could not be built"):
        write_split(tmp_path / "a.split", LETTERS)
    assert not (tmp_path / "a.split").exists()
    assert list((tmp_path / "work").iterdir()) == []


def test_panics_become_errors(tmp_path: Path) -> None:
    """A panic bypasses `except Exception`, because it does not derive from Exception. A search with limit 0 panics."""
    write_split(tmp_path / "a.split", LETTERS)
    with SplitReader(tmp_path / "a.split") as reader:
        compiled = parse_query("beta", reader.schema, reader.mapping).compile(reader.schema, reader.mapping)
        searcher = reader._searcher(compiled.parts)
        with pytest.raises(BaseException, match="Limit") as caught:
            searcher.search(compiled.query, limit=0)
        assert not isinstance(caught.value, Exception)
        with pytest.raises(SplitCorrupted, match="cannot be searched"):
            top_hits(searcher, compiled.query, "beta", 0)
    with pytest.raises(KeyboardInterrupt), tantivy_errors_as(SplitCorrupted, "interrupted"):
        raise KeyboardInterrupt


def test_queries_that_tantivy_parses_differently(tmp_path: Path) -> None:
    """In tantivy, a phrase of one word panics and a range without bounds matches nothing; the comments give the other differences."""
    write_split(tmp_path / "a.split", LETTERS)
    with SplitReader(tmp_path / "a.split") as reader:
        assert matches(reader, '"beta"') == {0, 1}
        assert matches(reader, "n:[* TO *]") == {0, 2}
        assert matches(reader, "NOT alpha") == {1, 2}  # an error in tantivy
        assert matches(reader, "alp*") == {0}  # not a prefix query in tantivy
        assert matches(reader, "BETA") == {0, 1}  # tantivy's term query is not lowercased


def test_booleans_have_no_ranges(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", LETTERS)
    with SplitReader(tmp_path / "a.split") as reader:
        assert [matches(reader, f"ok:{value}") for value in ("true", "FALSE", "*")] == [{0}, {1}, {0, 1}]
        with pytest.raises(InvalidQuery, match="ranges require a column of numbers"):
            matches(reader, "ok:[false TO true]")


def test_nulls_in_arrays_and_values_in_objects(tmp_path: Path) -> None:
    """tantivy refuses nulls in lists, parses strings that look like times (truncated to seconds), and drops NaN."""
    moment = "2024-01-31T12:00:00.5Z"
    details = [{"at": moment, "x": float("nan"), "n": 7}, {"at": None, "x": 1.5, "n": None}, None]
    kind = pa.struct([("at", pa.string()), ("x", pa.float64()), ("n", pa.int64())])
    batch = batch_of({"tags": pa.array([["a", None, "b"], [None], []], pa.list_(pa.string())), "d": pa.array(details, kind)})
    write_split(tmp_path / "a.split", batch, DocMapping.for_table(batch.schema, [], {"tags": "string", "d": "json"}))
    with SplitReader(tmp_path / "a.split") as reader:
        assert pa.Table.from_batches(reader.batches()).to_pydict()["tags"] == [["a", None, "b"], [None], []]
        assert [matches(reader, text) for text in ("tags:b", "d.n:7", "d.x:1.5", "d.at:2024")] == [{0}, {0}, {1}, {0}]
        assert matches(reader, f'd.at:"{moment}"') == {0}
        assert matches(reader, "d:*") == {0, 1}


def test_timestamps_keep_their_microseconds(tmp_path: Path) -> None:
    """tantivy's date fields are truncated to seconds, and a more precise query finds nothing."""
    moments = [datetime(2024, 1, 31, 12, 0, 0, micro, UTC) for micro in (0, 1, 999_999)]
    write_split(tmp_path / "a.split", batch_of({"ts": pa.array(moments, pa.timestamp("us", "UTC"))}))
    with SplitReader(tmp_path / "a.split") as reader:
        assert matches(reader, "ts:2024-01-31T12:00:00.000001Z") == {1}
        assert matches(reader, "ts:[2024-01-31T12:00:00.000001Z TO *]") == {1, 2}


def test_opening_a_split_writes_nothing_to_its_folder(tmp_path: Path) -> None:
    """tantivy needs a writable folder for its lock file."""
    write_split(tmp_path / "only" / "a.split", LETTERS)
    (tmp_path / "only" / "work").rmdir()
    before = {name: os.stat(tmp_path / "only" / name).st_mtime_ns for name in (".", "a.split")}
    with SplitReader(tmp_path / "only" / "a.split") as reader:
        assert matches(reader, "beta") == {0, 1}
        assert os.listdir(tmp_path / "only") == ["a.split"]
    assert {name: os.stat(tmp_path / "only" / name).st_mtime_ns for name in (".", "a.split")} == before


def test_a_scratch_folder_is_removed_while_tantivy_writes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tantivy's thread may create a file during the removal (OSError 39): the removal is retried, and never raises."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    real, failures = shutil.rmtree, [2]

    def racing(path: Path, ignore_errors: bool = False) -> None:
        real(path, ignore_errors)
        if failures[0]:
            failures[0] -= 1
            path.mkdir()
            (path / ".tantivy-meta.lock").touch()

    monkeypatch.setattr(shutil, "rmtree", racing)
    with scratch_folder("x-") as folder:
        (folder / "a").touch()
    assert list(tmp_path.iterdir()) == []
    failures[0] = 10**6
    with scratch_folder("x-") as folder:
        pass
    failures[0] = 0
    assert folder.exists()
