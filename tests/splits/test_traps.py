"""What tantivy does that one does not expect (labs/tantivy.md), and what is done about it.

Traps that have a test elsewhere in this folder: terms of 65 kB, words of 40 bytes, surrogates, NaN and -0.0, dates at the edges
(test_types); names of columns, several segments, documents in the order of rows (test_roundtrip); parentheses, prefixes of more than 50
words (test_query); no checksum when an index opens (test_damage); threads of open indexes, forks (test_cache); tails (test_format); holes
(test_partial); order after a merge, damaged sources, a child that dies (test_merge); splits of other programs (test_upstream). Sums above
2^53 and more groups than tantivy counts are in tests/operations/aggregate, huge limits in
tests/operations/test_upstream_mistakes.py.
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
from indextables.splits.index.schema import found_by, translated
from tests.support.splits import batch_of, matches, write_split

LETTERS = batch_of({"t": pa.array(["Alpha beta", "beta", None]), "n": pa.array([1, None, 3]), "ok": pa.array([True, False, None])})


def test_a_document_that_fails_the_commit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of the wrong type is accepted when it is added, and fails the whole commit; `with writer` would swallow that."""
    real = index_module.prepared

    def poisoned(column: pa.Array, kind: str, tokenizer: str) -> Any:
        add, values = real(column, kind, tokenizer)
        return (tantivy.Document.add_text, ["true" for _ in values]) if kind == "bool" else (add, values)

    monkeypatch.setattr(index_module, "prepared", poisoned)
    with pytest.raises(StorageError, match="could not be built"):
        write_split(tmp_path / "a.split", LETTERS)
    assert not (tmp_path / "a.split").exists()
    assert list((tmp_path / "work").iterdir()) == []


def test_panics_become_errors(tmp_path: Path) -> None:
    """A panic is no Exception, so that `except Exception` misses it. A search for no rows is one."""
    write_split(tmp_path / "a.split", LETTERS)
    with SplitReader(tmp_path / "a.split") as reader:
        compiled = parse_query("beta", reader.schema, reader.mapping).compile(reader.schema, reader.mapping)
        searcher = reader._searcher(compiled.parts)
        with pytest.raises(BaseException, match="Limit") as caught:
            searcher.search(compiled.query, limit=0)
        assert not isinstance(caught.value, Exception)
        with pytest.raises(SplitCorrupted, match="cannot be searched"):
            found_by(searcher, compiled.query, "beta", 0)
        assert [part.tolist() for part in reader.search(parse_query("beta", reader.schema, reader.mapping), 0)] == [[], []]
    with pytest.raises(KeyboardInterrupt), translated(SplitCorrupted, "interrupted"):
        raise KeyboardInterrupt


def test_a_phrase_of_one_word_and_ranges_without_bounds(tmp_path: Path) -> None:
    """The first panics in tantivy's builder; the second finds nothing in its syntax."""
    write_split(tmp_path / "a.split", LETTERS)
    with SplitReader(tmp_path / "a.split") as reader:
        assert matches(reader, '"beta"') == {0, 1}
        assert matches(reader, "n:[* TO *]") == {0, 2}
        assert matches(reader, "NOT alpha") == {1, 2}  # alone, it is an error there
        assert matches(reader, "alp*") == {0}  # there no prefix
        assert matches(reader, "BETA") == {0, 1}  # a term query there is not lowercased


def test_booleans_have_no_ranges(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", LETTERS)
    with SplitReader(tmp_path / "a.split") as reader:
        assert [matches(reader, f"ok:{value}") for value in ("true", "FALSE", "*")] == [{0}, {1}, {0, 1}]
        with pytest.raises(InvalidQuery, match="ranges require a column of numbers"):
            matches(reader, "ok:[false TO true]")


def test_nulls_in_arrays_and_values_in_objects(tmp_path: Path) -> None:
    """tantivy takes no null in a list, takes what looks like a moment for one, cut to seconds, and drops NaN."""
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


def test_moments_keep_their_microseconds(tmp_path: Path) -> None:
    """tantivy's own dates are cut to seconds, and a query with more finds nothing."""
    moments = [datetime(2024, 1, 31, 12, 0, 0, micro, UTC) for micro in (0, 1, 999_999)]
    write_split(tmp_path / "a.split", batch_of({"ts": pa.array(moments, pa.timestamp("us", "UTC"))}))
    with SplitReader(tmp_path / "a.split") as reader:
        assert matches(reader, "ts:2024-01-31T12:00:00.000001Z") == {1}
        assert matches(reader, "ts:[2024-01-31T12:00:00.000001Z TO *]") == {1, 2}


def test_nothing_is_written_beside_a_split(tmp_path: Path) -> None:
    """tantivy needs a folder that it may write to, for its lock."""
    write_split(tmp_path / "only" / "a.split", LETTERS)
    (tmp_path / "only" / "work").rmdir()
    before = {name: os.stat(tmp_path / "only" / name).st_mtime_ns for name in (".", "a.split")}
    with SplitReader(tmp_path / "only" / "a.split") as reader:
        assert matches(reader, "beta") == {0, 1}
        assert os.listdir(tmp_path / "only") == ["a.split"]
    assert {name: os.stat(tmp_path / "only" / name).st_mtime_ns for name in (".", "a.split")} == before


def test_a_folder_goes_though_tantivy_writes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread may put a file where others are just being removed (OSError 39): the folder is tried again, and never in the way."""
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
