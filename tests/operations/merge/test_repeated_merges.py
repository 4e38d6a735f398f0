"""R11: repeated writes and merges of a table change no rows and no answers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import indextables as it
from tests.splits.test_merge_rounds import SCHEMA, batch, fifty_queries
from tests.support.seeds import random_seed

SEED = 1107
QUERIES = 50


def rows_of(table: it.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.scan().read_all().to_pylist())


def answers(table: it.Table, queries: list[str]) -> list[list[int]]:
    return [sorted(table.search(query, ["id"], limit=10_000).column("id").to_pylist()) for query in queries]


@pytest.mark.parametrize("rounds", [8, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_r11_merges_of_a_table_keep_rows_and_answers(tmp_path: Path, rounds: int) -> None:
    """Each round appends splits to three partitions and merges them with random options."""
    seed = random_seed(SEED)
    choose = random.Random(seed)
    table = it.create(tmp_path / "t", SCHEMA, partition_by=["level"], options={"indexing.typemap.level": "string"})
    merged = asked = found = first = 0
    written: Counter[str] = Counter()
    for number in range(rounds):
        for _ in range(choose.randrange(2, 4)):
            rows = batch(first, choose.choice((1, 20, 80)), choose)
            written += Counter(repr(row) for row in rows.to_pylist())
            first += rows.num_rows
            table.append(rows)
        queries = fifty_queries(choose)
        before = answers(table, queries)
        options = {"merge.batchSize": str(choose.randrange(3))}
        report = it.open(tmp_path / "t", options=options).merge_splits(max_source_splits=choose.choice((2, 3, None)))
        assert report.status == "success"
        merged += report.metrics["groups"]
        table.refresh()
        assert answers(table, queries) == before, f"round {number}"
        assert rows_of(table) == written, f"round {number}"
        asked += len(queries)
        found += sum(map(bool, before))
        assert table.merge_splits().status == "no_action"
    assert table.verify(deep=True) == []
    print(f"seed {seed}: {merged} merges in {rounds} rounds, {asked} queries, {found} of them with rows, {first} rows")
    assert asked == QUERIES * rounds
    assert merged >= 3 * rounds
    assert found > asked / 2
