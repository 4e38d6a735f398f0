"""R11: merges preserve rows and answers. The seed and the counts are printed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from indextables.splits import DocMapping, SplitReader, merge_splits, parse_query
from indextables.splits import merge as merge_module
from tests.support.seeds import random_seed
from tests.support.splits import multiset, read_all, reindexings, write_split

SEED = 11
SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("title", pa.string()), ("body", pa.string()), ("level", pa.string()), ("n", pa.int32()), ("x", pa.float64()),
        ("price", pa.decimal128(9, 2)), ("day", pa.date32()), ("ok", pa.bool_()),
    ]
)  # fmt: skip
MAPPING = DocMapping.for_table(SCHEMA, [], {"level": "string"})
WORDS = tuple(f"w{n}" for n in range(60))
WEIGHTS = tuple(1 / (n + 1) for n in range(60))


def batch(first: int, count: int, choose: random.Random) -> pa.RecordBatch:
    def maybe(value: object) -> object:
        return None if choose.random() < 0.1 else value

    rows = [
        {
            "id": first + n,
            "title": maybe(" ".join(choose.choices(WORDS, WEIGHTS, k=3))),
            "body": maybe(" ".join(choose.choices(WORDS, WEIGHTS, k=choose.randrange(30)))),
            "level": choose.choice(("INFO", "WARN", "ERROR")),
            "n": maybe(choose.randrange(100)),
            "x": maybe(choose.choice((choose.random(), float("nan"), -0.0))),
            "price": maybe(choose.randrange(1000)),
            "day": maybe(choose.randrange(19_000, 19_100)),
            "ok": choose.random() < 0.5,
        }
        for n in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def fifty_queries(choose: random.Random) -> list[str]:
    def word() -> str:
        return choose.choices(WORDS, WEIGHTS)[0]

    kinds = (
        word,
        lambda: f"{word()} {word()} {word()}",
        lambda: f"{word()} AND {word()}",
        lambda: f"{word()} -{word()}",
        lambda: f'"{word()} {word()}"',
        lambda: f"title:{word()}^3 OR body:{word()}",
        lambda: f"n:[{choose.randrange(50)} TO {choose.randrange(50, 100)}] AND level:{choose.choice(('INFO', 'WARN'))}",
        lambda: f"price:<{choose.randrange(500)} {word()}",
        lambda: f"NOT {choose.choice(('title', 'x', 'day'))}:* OR ok:true AND {word()}",
        lambda: f"body:{word()[:2]}* AND x:>0.5",
    )
    return [kinds[n % 10]() for n in range(50)]


class Answers:
    """Answers queries on a split with the ids of the matching rows."""

    def __init__(self, path: Path) -> None:
        self.reader = SplitReader(path)
        self.ids = self.reader.take(range(self.reader.num_records), ["id"]).column("id").to_numpy()

    def ids_of(self, text: str) -> list[int]:
        rows, _ = self.reader.search(parse_query(text, SCHEMA, MAPPING))
        return sorted(self.ids[rows].tolist())


@pytest.fixture
def no_reindexing() -> Iterator[None]:
    """Fail if a merge falls back to re-indexing the rows."""
    with reindexings() as calls:
        yield
    assert calls == []


def write_parts(folder: Path, sizes: Sequence[int], choose: random.Random) -> list[Path]:
    paths = []
    for number, size in enumerate(sizes):
        paths.append(folder / f"{number}.split")
        write_split(paths[-1], batch(sum(sizes[:number]), size, choose), MAPPING)
    return paths


@pytest.mark.usefixtures("no_reindexing")
@pytest.mark.parametrize("merges", [30, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_r11_merges_preserve_rows_and_answers(tmp_path: Path, merges: int) -> None:
    seed = random_seed(SEED)
    choose = random.Random(seed)
    done = asked = found = 0
    for number in range(merges):
        folder = tmp_path / str(number)
        given = write_parts(folder, [choose.choice((1, 8, 8, 40, 64, 65, 150)) for _ in range(choose.randrange(2, 6))], choose)
        if number % 3:  # one of the sources is the result of a merge
            given[0] = tmp_path / str(number - 1) / "merged.split"
        merge_splits(given, folder / "merged.split", folder / "work")
        done += 1
        assert multiset([read_all(folder / "merged.split")]) == multiset([read_all(path) for path in given])
        before, after = [Answers(path) for path in given], Answers(folder / "merged.split")
        for text in fifty_queries(choose):
            answer = after.ids_of(text)
            assert answer == sorted(row for part in before for row in part.ids_of(text)), text
            asked += 1
            found += bool(answer)
    print(f"seed {seed}: {done} merges, {asked} queries, {found} of them with rows")
    assert (done, asked) == (merges, 50 * merges)
    assert found > asked / 2


@pytest.mark.usefixtures("no_reindexing")
def test_a_merge_of_50_splits_equals_one_re_indexed_split(tmp_path: Path) -> None:
    """For 50 queries: the rows, the counts, and the top 10 with their scores."""
    seed = random_seed(SEED + 1)
    choose = random.Random(seed)
    given = write_parts(tmp_path, [choose.choice((5, 20, 20, 77)) for _ in range(50)], choose)
    merge_splits(given, tmp_path / "merged.split", tmp_path / "work")
    rows = read_all(tmp_path / "merged.split")
    assert multiset([rows]) == multiset([read_all(path) for path in given])
    write_split(tmp_path / "again.split", rows.combine_chunks().to_batches()[0], MAPPING)
    asked = found = 0
    with SplitReader(tmp_path / "merged.split") as merged, SplitReader(tmp_path / "again.split") as again:
        assert merged.info.min_values == again.info.min_values
        assert merged.info.max_values == again.info.max_values
        for text in fifty_queries(choose):
            query = parse_query(text, SCHEMA, MAPPING)
            expected, answer = again.search(query), merged.search(query)
            assert len(answer[0]) == len(expected[0]), text
            best = [(part[0][:10].tolist(), part[1][:10].tolist()) for part in (answer, expected)]
            assert best[0] == best[1], text
            asked += 1
            found += len(answer[0]) >= 10
    print(f"seed {seed}: {len(given)} splits, {rows.num_rows} rows, {asked} queries, {found} of them with at least ten rows")
    assert (len(given), asked) == (50, 50)
    assert found > 30


def test_documents_that_do_not_match_their_rows_are_re_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge compares a sample of its documents with its rows at the end."""
    choose = random.Random(random_seed(SEED + 2))
    given = write_parts(tmp_path, [40, 40], choose)
    real = merge_module._document_order

    def swapped(*arguments: object) -> object:
        return list(reversed(real(*arguments)))  # type: ignore[arg-type]

    monkeypatch.setattr(merge_module, "_document_order", swapped)
    with reindexings() as calls:
        merge_splits(given, tmp_path / "merged.split", tmp_path / "work")
    assert calls == [1]
    assert multiset([read_all(tmp_path / "merged.split")]) == multiset([read_all(path) for path in given])
    merged = Answers(tmp_path / "merged.split")
    assert all(merged.ids_of(f"id:{row}") == [row] for row in range(80))
