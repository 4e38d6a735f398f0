"""Search over tables: the ranking does not depend on the splits, and hostile queries do no harm."""

from __future__ import annotations

import math
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables import limits
from indextables.operations.search import run as search
from tests.support.seeds import random_seed
from tests.support.tables import ids, make, rows

SCHEMA = pa.schema([("id", pa.int64()), ("m", pa.string()), ("x", pa.float64()), ("p", pa.string())])
WORDS = [f"w{number}" for number in range(60)]


def random_rows(seed: int, count: int) -> list[dict[str, Any]]:
    choose = random.Random(seed)
    weights = [1 / (number + 1) for number in range(60)]
    floats = [None, math.nan, 0.0, -0.0, 1.5, -3.0, math.inf]
    return [
        {
            "id": number,
            "m": " ".join(choose.choices(WORDS, weights, k=choose.randint(1, 30))),
            "x": choose.choice(floats),
            "p": choose.choice("abc"),
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def data() -> list[dict[str, Any]]:
    return random_rows(random_seed(3), 600)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, data: list[dict[str, Any]]) -> it.Table:
    made = it.create(tmp_path_factory.mktemp("search") / "t", SCHEMA, partition_by=["p"])
    for start, end in ((0, 20), (20, 300), (300, 310), (310, 600)):
        made.append(data[start:end])
    assert made.files().num_rows == 12
    return made


def test_the_ranking_does_not_depend_on_the_splits(tmp_path: Path, table: it.Table, data: list[dict[str, Any]]) -> None:
    """The same rows in one split have the same scores; rows of equal scores may come in another order."""
    one = it.create(tmp_path / "one", SCHEMA)
    one.append(data)
    for query in ("w3", "w0 w9", "w1 AND w2", '"w0 w1"', "w5 OR w6 OR w7", "w40*", "w2 AND NOT w0"):
        found, expected = (t.search(query, limit=600, columns=["id"]).to_pylist() for t in (table, one))
        assert len(found) > 5
        assert sorted((-r["_score"], r["id"]) for r in found) == sorted((-r["_score"], r["id"]) for r in expected)
        best = table.search(query, limit=10, columns=["id"]).to_pylist()
        assert best == found[:10]
        assert [r["_score"] for r in best] == [r["_score"] for r in expected[:10]]
        assert table.search(query, limit=4, offset=3, columns=["id"]).to_pylist() == found[3:7]


def test_hits_of_equal_score_have_a_fixed_order(table: it.Table) -> None:
    first = table.search("*", limit=600).column("id").to_pylist()
    assert (
        first
        == table.search("*", limit=600).column("id").to_pylist()
        == it.open(table.path).search("*", limit=600).column("id").to_pylist()
    )
    assert sorted(first) == list(range(600))
    assert first == table.scan(columns=["id"]).read_all().column("id").to_pylist()


@pytest.mark.parametrize("where", ["p = 'a'", "id >= 300", "x > 1", "x IS NULL AND p <> 'b'", "id = 17", "p = 'zz'"])
def test_where_changes_neither_scores_nor_order(table: it.Table, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_FIRST_PAGE", 3)
    monkeypatch.setattr(limits, "SEARCH_PAGE", 16)
    kept = set(ids(table, where))
    pruned = set(table.files(where).column("path").to_pylist())
    for query in ("w0", "w4 w8", "*"):
        found = table.search(query, where=where, limit=5, columns=["id"]).to_pylist()
        everything = table.search(query, where=where, limit=600, columns=["id"]).to_pylist()
        assert found == everything[:5]
        assert {row["id"] for row in everything} == kept & set(table.search(query, limit=600).column("id").to_pylist())
        if len(pruned) == 12:  # the same splits are searched, so scores are the same too
            scores = {row["id"]: row["_score"] for row in table.search(query, limit=600, columns=["id"]).to_pylist()}
            assert [row["_score"] for row in everything] == [scores[row["id"]] for row in everything]


def test_order_by_every_type(table: it.Table, data: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEARCH_PAGE", 50)
    hits = [row for row in data if "w1" in row["m"].split()]

    def rank(value: Any) -> Any:
        return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)

    for column in ("id", "m", "x", "p"):
        known = [row for row in hits if row[column] is not None]
        for direction in ("asc", "desc"):
            found = table.search("w1", order_by=f"{column} {direction}", limit=100, columns=[column]).column(column).to_pylist()
            expected = sorted((row[column] for row in known), key=rank, reverse=direction == "desc") + [None] * (len(hits) - len(known))
            assert [None if v is None else rank(v) for v in found] == [None if v is None else rank(v) for v in expected[:100]]


def test_snippets(table: it.Table) -> None:
    found = table.search("w7 -w0", columns=["id"], snippets=["m"], limit=5)
    assert found.schema.names == ["id", "_score", "_snippet"]
    assert all("**w7**" in text and "**w0**" not in text for text in found.column("_snippet").to_pylist())
    assert table.search("id:5", snippets=["m"]).column("_snippet").to_pylist()[0].startswith("w")
    assert table.search("nosuch", snippets=["m"]).schema.field("_snippet").type == pa.string()
    both = table.search("p:a AND w7", snippets=["p", "m"], limit=1).column("_snippet").to_pylist()[0]
    assert both.startswith("**a** … ")
    for bad, named in ((["id"], "'id'"), (["nosuch"], "nosuch"), ("m", "'m'"), ([], r"\[\]")):
        with pytest.raises(it.InvalidArgument, match=named):
            table.search("w7", snippets=bad)


def test_a_merge_changes_no_score(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=5, each=40, partition_by=[])
    before = table.search("refused OR disk", limit=200, columns=["id"]).to_pylist()
    table.merge_splits()
    assert table.files().num_rows == 1
    after = table.search("refused OR disk", limit=200, columns=["id"]).to_pylist()
    assert sorted((r["_score"], r["id"]) for r in before) == sorted((r["_score"], r["id"]) for r in after)


def test_a_split_that_changes_while_it_is_open(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2, partition_by=[])
    assert table.search("refused").num_rows > 0
    first = sorted((tmp_path / "t").rglob("*.split"))[0]
    data = bytearray(first.read_bytes())
    data[-20] ^= 1
    first.write_bytes(data)
    with pytest.raises(it.SplitCorrupted):
        table.search("refused")
    first.unlink()
    with pytest.raises(it.SplitCorrupted, match="is missing from the table"):
        table.search("refused")


def test_more_splits_than_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPEN_SPLITS", 3)
    monkeypatch.setattr(limits, "VIEW_SPLITS", 4)
    table = make(tmp_path / "t", appends=10, each=5, partition_by=[])
    expected = {row["id"] for row in rows(0, 50) if "refused" in row["message"]}
    assert set(table.search("refused", limit=50).column("id").to_pylist()) == expected
    ordered = table.search("refused", limit=3, order_by="-id", where="ok").column("id").to_pylist()
    assert ordered == sorted((number for number in expected if number % 2 == 0), reverse=True)[:3]


HOSTILE = [
    "(" * 20_000 + "w1" + ")" * 20_000,
    "(" * 20_000,
    "NOT " * 20_000 + "w1",
    " OR ".join(["w1"] * 100_000),
    " OR ".join(f"w{number}" for number in range(1900)),
    "w* " * 600,
    "*" * 5_000,
    '"' + "w1 " * 3_000 + '"',
    '"w0 w"* ' * 200,
    "m:/(w+)+$/",
    "m:/" + "(a|" * 3000,
    "w1^" + "9" * 4000,
    "id:[" + "9" * 5000 + " TO *]",
    "id:IN [" + "1 " * 4500 + "]",
    "\\" * 9_999,
    "w1~" * 3_000,
    "\x00\ud800",
]


def test_hostile_queries_use_few_resources(table: it.Table) -> None:
    """Each is answered or refused with a short message. A runaway query would exceed the time or memory limit of the test."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answered, refused = 0, []
    for query in HOSTILE:
        try:
            assert table.search(query, where="id < 100", order_by="x desc").num_rows <= 10
            answered += 1
        except it.InvalidQuery as error:
            refused.append(str(error))
    assert (answered + len(refused), len(HOSTILE)) == (17, 17)
    assert answered > 0
    assert all("\n" not in message and len(message) < 300 for message in refused)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024  # KiB


def test_hostile_queries_do_not_kill_the_process(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=1)
    code = (
        "import sys, indextables as it\n"
        f"t = it.open({str(tmp_path / 't')!r})\n"
        "for q in ('(' * 20000 + 'a' + ')' * 20000, '(' * 9000, 'NOT ' * 9000, '-(' * 5000):\n"
        "    try: t.search(q)\n"
        "    except it.InvalidQuery: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["refused"] * 4), done.stderr


@pytest.mark.parametrize("order_by", ["tags", "-tags", "tags desc", 5])
def test_order_by_a_column_without_order_is_refused(tmp_path: Path, order_by: Any) -> None:
    table = it.create(tmp_path / "t", pa.schema([("m", pa.string()), ("tags", pa.list_(pa.string()))]))
    table.append([{"m": "word", "tags": ["a"]}])
    with pytest.raises(it.InvalidArgument, match="order_by"):
        table.search("word", order_by=order_by)


@pytest.mark.parametrize("query", [5, None, b"word", ["word"]])
def test_a_query_must_be_a_string(tmp_path: Path, query: Any) -> None:
    table = it.create(tmp_path / "t", pa.schema([("m", pa.string())]))
    with pytest.raises(it.InvalidQuery, match="a query must be a string, not"):
        table.search(query)
