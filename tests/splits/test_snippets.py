"""Snippets: which words are marked, and which passage of a long text is chosen."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indextables.splits import DocMapping, parse_query
from indextables.splits.query.snippets import LENGTH, Highlighter, beginning

SCHEMA = pa.schema([("m", pa.string()), ("t", pa.string()), ("level", pa.string()), ("n", pa.int64())])
MAPPING = DocMapping.for_table(SCHEMA, [], {"level": "string"})


def snippet(query: str, text: str, column: str = "m") -> str | None:
    return Highlighter(parse_query(query, SCHEMA, MAPPING), column, MAPPING).snippet(text)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("disk", "Disk full, disk-1", "**Disk** full, **disk**-1"),
        ("dis*", "distance and disk", "**distance** and **disk**"),
        ('"disk full"', "the disk is full", "the **disk** is **full**"),
        ("disk AND NOT full", "disk full", "**disk** full"),
        ("disk -full", "disk full", "**disk** full"),
        ("m:(disk OR full)^2", "disk full", "**disk** **full**"),
        ("t:disk", "disk", None),
        ("level:disk", "disk", None),
        ("n:5 OR disk", "5 disk", "5 **disk**"),
        ("disk", "nothing here", None),
        ("disk", "", None),
        ("é", "É\u0000 x", "**É**\u0000 x"),
        ("b", "a\n\tb   c", "a **b** c"),
        ("x", "𝄞 x 𝄞", "𝄞 **x** 𝄞"),
    ],
)
def test_matching_words_are_marked(query: str, text: str, expected: str | None) -> None:
    assert snippet(query, text) == expected


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("disk", "RAMDISKS, disk", "RAM**DISK**S, **disk**"), ('"k fu" OR disk', "disk full", "**disk** full"),
        ("abab", "xababab", "x**abab**ab"), ("abc*", "xabcd", "x**abc**d"), ("disk", "İ disk", None),
    ],
)  # fmt: skip
def test_substrings_are_marked_in_ngram_columns(query: str, text: str, expected: str | None) -> None:
    mapping = DocMapping.for_table(SCHEMA, [], {"level": "string", "t": "string"}, {"m": "ngram"})
    assert Highlighter(parse_query(query, SCHEMA, mapping), "m", mapping).snippet(text) == expected


def test_string_columns_are_marked_as_a_unit() -> None:
    assert snippet("level:INFO", "INFO", "level") == "**INFO**"
    assert snippet("level:IN*", "INFO", "level") == "**INFO**"
    assert snippet("level:info", "INFO", "level") is None
    assert snippet("INFO", "INFO", "level") is None  # words without a column are searched in text columns only


def test_the_best_passage_of_a_long_text() -> None:
    words = [f"word{number}" for number in range(500)]
    words[100], words[300], words[305] = "disk", "disk", "full"
    shown = snippet("disk OR full", " ".join(words))
    assert shown is not None
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert "**disk** word301" in shown
    assert "word304 **full**" in shown
    assert len(shown) <= LENGTH + 20
    assert all(word.strip("*…") in words for word in shown.split())  # no word is cut


def test_long_words_and_many_matches() -> None:
    long_word = "x" * 1000
    assert snippet(long_word, long_word) == f"**{long_word}**"
    crowded = "disk " * 1000
    shown = snippet("disk", crowded)
    assert shown is not None
    assert 20 < shown.count("**disk**") <= LENGTH // 4
    assert beginning("short text") == "short text"
    assert beginning("word " * 100).endswith("word…")
    assert len(beginning("y" * 5000)) == LENGTH + 1
