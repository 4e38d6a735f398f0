"""Many splits searched as one index give the same rows, scores and order as one split with all rows."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables import limits
from indextables.errors import SplitCorrupted, StorageError
from indextables.splits import DocMapping, Hits, SplitReader, View, open_view, parse_query, view
from tests.support.forked import in_forked_child
from tests.support.seeds import random_seed
from tests.support.splits import batch_of, write_split

WORDS = [f"w{number}" for number in range(200)]
WEIGHTS = [1 / (number + 1) for number in range(200)]
SCHEMA = pa.schema([("m", pa.string()), ("n", pa.int64())])
MAPPING = DocMapping.for_table(SCHEMA, [])
SEED = 11


def uneven_texts() -> list[list[str]]:
    """Splits of few and many rows with short and long texts, so that each has different word frequencies and lengths."""
    choose = random.Random(random_seed(SEED))
    sizes = [(3, 1, 4), (400, 1, 4), (40, 60, 150), (120, 5, 20), (1, 200, 200), (700, 2, 9)]
    return [[" ".join(choose.choices(WORDS, WEIGHTS, k=choose.randint(low, high))) for _ in range(rows)] for rows, low, high in sizes]


def write(path: Path, texts: list[str], first: int = 0) -> SplitReader:
    write_split(path, batch_of({"m": pa.array(texts), "n": pa.array(range(first, first + len(texts)), pa.int64())}), MAPPING)
    return SplitReader(path)


def queries() -> list[str]:
    choose = random.Random(random_seed(SEED + 1))
    drawn = [" ".join(choose.choices(WORDS, WEIGHTS, k=words)) for words in (1, 2, 3, 5) for _ in range(11)]
    return [
        *drawn,
        '"w0 w1"',
        "w1 AND w5",
        "+w3 w1 w2",
        "w0 OR w1^3",
        '"w0 w"*',
        "w1*",
        "w2 AND NOT w0",
        "n:[1 TO 5] w7",
        "*",
        "w9 w8",
    ]


def test_scores_equal_those_of_one_split(tmp_path: Path) -> None:
    """Global BM25: for 54 queries, the scores, the order and the top 10 are exactly those of one re-indexed split."""
    parts = uneven_texts()
    starts = np.cumsum([0, *(len(texts) for texts in parts)])
    many = View([write(tmp_path / f"{number}.split", texts, int(starts[number])) for number, texts in enumerate(parts)])
    one = write(tmp_path / "one.split", [text for texts in parts for text in texts])
    texts = queries()
    assert len(texts) == 54
    for text in texts:
        query = parse_query(text, SCHEMA, MAPPING)
        rows, scores = one.search(query)
        for limit in (10, one.num_records):
            hits = many.search(query, limit)
            assert (starts[hits.splits] + hits.rows).tolist() == rows[:limit].tolist(), text
            assert hits.scores.tolist() == scores[:limit].tolist(), text
    for text in ('"w0 w1"~3', '"w1 w0"~2', '"w2 w0"~9'):  # the same rows; tantivy's scores for slop are approximate
        hits = many.search(query := parse_query(text, SCHEMA, MAPPING), 10_000)
        assert set((starts[hits.splits] + hits.rows).tolist()) == set(one.search(query)[0].tolist())
        assert len(hits) > 10


def test_pages_add_up_to_the_complete_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEARCH_PAGE", 64)
    many = View([write(tmp_path / f"{number}.split", texts) for number, texts in enumerate(uneven_texts())])
    query = parse_query("w0 w3", SCHEMA, MAPPING)
    whole = many.search(query, 10_000)
    pages = list(many.groups[0].pages(query, 7))
    assert [len(page) for page in pages[:5]] == [7, 14, 28, 56, 64]
    for name in ("splits", "rows", "scores"):
        assert np.concatenate([getattr(page, name) for page in pages]).tolist() == getattr(whole, name).tolist()
    assert len(many.search(query, 10**18)) == len(whole)
    assert len(many.groups[0].search(query, 5, offset=10**9)) == 0


def test_scores_of_separate_groups_are_close_on_similar_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond VIEW_SPLITS or VIEW_BYTES scores are approximate: within 10 % where the groups hold similar rows."""
    choose = random.Random(random_seed(SEED))
    parts = [[" ".join(choose.choices(WORDS, WEIGHTS, k=choose.randint(5, 20))) for _ in range(300)] for _ in range(6)]
    readers = [write(tmp_path / f"{number}.split", texts) for number, texts in enumerate(parts)]
    exact = View(readers)
    monkeypatch.setattr(limits, "VIEW_SPLITS", 3)
    grouped = View(readers)
    assert (len(exact.groups), len(grouped.groups)) == (1, 2)
    worst = 0.0
    for text in ("w0", "w1 w9", "w3 w20 w30", "w2 AND w4"):
        query = parse_query(text, SCHEMA, MAPPING)
        expected, found = (v.search(query, 10_000) for v in (exact, grouped))
        assert (found.scores[:-1] >= found.scores[1:]).all()
        scores = dict(zip(zip(expected.splits.tolist(), expected.rows.tolist(), strict=True), expected.scores.tolist(), strict=True))
        assert len(found) == len(scores)
        hits = zip(found.splits.tolist(), found.rows.tolist(), found.scores.tolist(), strict=True)
        worst = max(worst, *(abs(score / scores[split, row] - 1) for split, row, score in hits))
    print(f"largest relative error {worst:.4f}")
    assert 0 < worst < 0.1
    monkeypatch.setattr(limits, "VIEW_SPLITS", 100)
    monkeypatch.setattr(limits, "VIEW_BYTES", 1)
    assert len(View(readers).groups) == 6


def test_splits_with_different_mappings_are_searched_separately(tmp_path: Path) -> None:
    first = write(tmp_path / "a.split", ["Big Cat", "dog"])
    rows = batch_of({"m": pa.array(["cat", "Big Cat"]), "n": pa.array([1, 2])})
    write_split(tmp_path / "b.split", rows, DocMapping.for_table(SCHEMA, [], {"m": "string"}))
    both = View([first, SplitReader(tmp_path / "b.split")])
    assert len(both.groups) == 2
    hits = both.search(parse_query("m:cat", SCHEMA, MAPPING), 10)
    assert sorted(zip(hits.splits.tolist(), hits.rows.tolist(), strict=True)) == [(0, 0), (1, 0)]
    assert len(View([]).search(parse_query("m:cat", SCHEMA, MAPPING), 10)) == 0
    assert len(Hits.joined([])) == 0


def test_a_copy_of_a_split_is_searched_too(tmp_path: Path) -> None:
    split = write(tmp_path / "a.split", ["cat", "dog cat"])
    (tmp_path / "b.split").write_bytes((tmp_path / "a.split").read_bytes())
    hits = View([split, SplitReader(tmp_path / "b.split")]).search(parse_query("cat", SCHEMA, MAPPING), 10)
    assert list(zip(hits.splits.tolist(), hits.rows.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]  # ties by split


def test_the_cache_of_views_is_bounded_and_notices_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPEN_VIEWS", 2)
    paths = [tmp_path / f"{number}.split" for number in range(3)]
    for number, path in enumerate(paths):
        write(path, [f"cat{number}"])
    query = parse_query("cat0", SCHEMA, MAPPING)
    first = open_view(paths)
    assert open_view(paths) is first
    assert len(first.search(query, 5)) == 1
    open_view(paths[:2])
    open_view(paths[1:])
    assert len(view._views) == 2
    assert open_view(paths) is not first
    write(paths[0], ["dog"])
    assert len(open_view(paths).search(query, 5)) == 0
    monkeypatch.setattr(limits, "VIEW_BYTES", 1)
    assert view.cached_view(paths[:2]) is None
    open_view(paths[:2])
    assert len(view._views) == 1
    paths[0].unlink()
    with pytest.raises(SplitCorrupted, match="is missing"):
        open_view(paths)


def test_damage_is_reported_and_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    query = parse_query("cat", SCHEMA, MAPPING)
    good, bad = write(tmp_path / "a.split", ["cat"]), write(tmp_path / "b.split", ["cat"])
    assert len(View([good, bad]).search(query, 5)) == 2
    where = next(where for name, where in bad.footer.files.items() if name.endswith(".idx"))
    data = bytearray((tmp_path / "b.split").read_bytes())
    data[where.start] ^= 1
    (tmp_path / "b.split").write_bytes(data)
    with pytest.raises(SplitCorrupted, match=r"b\.split is damaged"):
        View([good, SplitReader(tmp_path / "b.split")]).search(query, 5)
    assert list((tmp_path / "tmp").iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match="could not be copied"):
        View([good]).search(query, 5)


def _found_in_child(paths: list[Path]) -> int:
    return len(open_view(paths).search(parse_query("cat", SCHEMA, MAPPING), 5))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own_view(tmp_path: Path) -> None:
    write(tmp_path / "a.split", ["cat"])
    assert _found_in_child([tmp_path / "a.split"]) == 1
    assert in_forked_child(_found_in_child, [tmp_path / "a.split"]) == 1


def test_views_are_evicted_by_the_number_of_their_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each split takes several memory mappings, and a process may have 65,530: a growing table of 1,500 splits reached that at its
    seventh version."""
    monkeypatch.setattr(limits, "MAPPED_SPLITS", 5)
    view._views.clear()
    for number in range(4):
        write(tmp_path / f"{number}.split", [f"w{number}"])
    paths = [tmp_path / f"{number}.split" for number in range(4)]
    for first, last, kept in ((0, 2, 1), (1, 4, 2), (0, 4, 1), (0, 1, 2)):
        opened = open_view(paths[first:last])
        assert len(opened.search(parse_query("*", SCHEMA, MAPPING), 10)) == last - first
        assert len(view._views) == kept
        assert opened in view._views.values()
    view._views.clear()


def test_more_splits_than_can_be_mapped_are_searched_group_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = uneven_texts()
    readers = [write(tmp_path / f"{number}.split", texts) for number, texts in enumerate(parts)]
    monkeypatch.setattr(limits, "VIEW_SPLITS", 2)
    kept = View(readers)
    monkeypatch.setattr(limits, "MAPPED_SPLITS", 5)
    transient = View(readers)
    assert len(transient.groups) == len(kept.groups) == 3
    for text in queries():
        query = parse_query(text, SCHEMA, MAPPING)
        found, expected = transient.search(query, 20), kept.search(query, 20)
        assert [part.tolist() for part in (found.splits, found.rows, found.scores)] == [
            part.tolist() for part in (expected.splits, expected.rows, expected.scores)
        ], text
    assert all(group._open_searcher is None for group in transient.groups)
    assert all(group._open_searcher is not None for group in kept.groups)
