"""The query language: invalid and hostile queries are refused with their position; hits, their order and limit."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables import limits
from indextables.errors import InvalidQuery
from indextables.splits import DocMapping, SplitReader, open_view, parse_query
from tests.support.splits import LOGS, LOGS_MAPPING, batch_of, matches, write_logs, write_split

REFUSED = {  # query -> (fragment of the message, position)
    "": ("empty", 0),
    "  \t ": ("empty", 0),
    "()": ("nothing to search for", 1),
    "(a": ("')'", 0),
    "a)": ("')'", 1),
    '"a': ("quoted string", 0),
    "'tis": ("quoted string", 0),
    "a AND": ("AND has nothing after it", 2),
    "AND a": ("AND has nothing before it", 0),
    "a AND OR b": ("OR", 6),
    "a OR OR b": ("OR", 5),
    "NOT": ("NOT has nothing after it", 0),
    "a NOT": ("NOT has nothing after it", 2),
    "nope:a": ("'nope'", 0),
    "a AND nope:[1 TO 2]": ("'nope'", 6),
    "nope:*": ("'nope'", 0),
    "_row:1": ("'_row'", 0),
    "_null:x": ("'_null'", 0),
    "message:(a nope:b)": ("'nope'", 11),
    "nope:(a b)": ("'nope'", 0),
    "message:/a/": ("regular expressions", 8),
    "message:": ("'message'", 8),
    "status:abc": ("'abc'", 7),
    "status:1.5": ("'1.5'", 7),
    "status:1_000": ("'1_000'", 7),
    "status:99999999999999999999": ("'99999999999999999999'", 7),
    "status:5*": ("prefix", 7),
    "latency:nan": ("'nan'", 8),
    "latency:1e999": ("'1e999'", 8),
    "ok:maybe": ("'maybe'", 3),
    "ok:[true TO false]": ("'ok'", 3),
    "ts:yesterday": ("'yesterday'", 3),
    "ts:[2024-13-01 TO *]": ("'2024-13-01'", 3),
    "message:[a TO b]": ("'message'", 8),
    "level:>A": ("'level'", 6),
    "status:[1 2]": ("TO", 10),
    "status:[1 TO 2": ("']'", 7),
    "status:[1 TO ]": ("bound", 13),
    "status:>": ("lacks a value", 8),
    "status:IN []": ("empty", 10),
    "status:IN [1 2": ("']'", 10),
    "[1 TO 2]": ("'['", 0),
    "!!!": ("'!!!'", 0),
    "!timeout": ("'!timeout'", 0),
    "a && b": ("'&&'", 2),
    "a||b": ("'a||b'", 0),
    "/reg.*/": ("regular expressions", 0),
    "tim~1": ("'tim~1'", 0),
    "*out": ("*", 0),
    "t*t": ("*", 1),
    "message:...": ("'...'", 8),
    'message:""': ("''", 8),
    "foo.*": ("letter", 0),
    "message:-timeout": ("sign", 8),
    "--timeout": ("more than one sign", 0),
    "+a OR b": ("+", 0),
    "a -b OR c": ("ambiguous", 2),
    "a^": ("^", 2),
    "a^0": ("^", 2),
    "a^99999999": ("^", 2),
    '"a b"~x': ("~", 6),
    '"a b c"~2': ("two words", 0),
    'a"b"': ("space", 1),
    "a:b:c": ("'a'", 0),
    ":a": ("':'", 0),
    "a\\": ("\\", 1),
    "level:INFO~2": ("'INFO~2'", 6),
    'level:"INFO"~2': ("~", 6),
}


@pytest.mark.parametrize("text", REFUSED)
def test_an_invalid_query_is_refused_with_its_position(text: str) -> None:
    named, position = REFUSED[text]
    with pytest.raises(InvalidQuery) as error:
        parse_query(text, LOGS, LOGS_MAPPING)
    assert named in str(error.value)
    assert (error.value.position, error.value.text) == (position, text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "position"), [("attr.user:alice", 0), ("attr:alice", 5), ("a AND attr.user.name:[1 TO 2]", 6)])
def test_an_error_names_the_option_that_would_index_an_object(text: str, position: int) -> None:
    schema = pa.schema([("m", pa.string()), ("attr", pa.struct([("user", pa.string())])), ("l", pa.list_(pa.int64()))])
    with pytest.raises(InvalidQuery, match=r"column 'attr' is not indexed \(set indexing\.typemap\.attr=json when") as error:
        parse_query(text, schema, DocMapping.for_table(schema, []))
    assert error.value.position == position
    with pytest.raises(InvalidQuery, match="column 'l' is not indexed; filter it with `where`"):
        parse_query("l:1", schema, DocMapping.for_table(schema, []))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000 + "a" + ")" * 20_000,
        "(" * 4_000 + "a" + ")" * 4_000,
        "(" * 9_000,
        "message:(" * 1_000 + "a" + ")" * 1_000,
        "x" * (limits.QUERY_CHARACTERS + 1),
        "a* " * 3_000,
        "b " * 4_999,
        "((((a^1000000)^1000000)^1000000)^1000000)^1000000",
        "a\ud800b",
    ],
    ids=lambda text: text[:12] if text.isascii() else "surrogate",
)
def test_hostile_queries_are_refused(text: str) -> None:
    two_columns = pa.schema([("a", pa.string()), ("b", pa.string())])
    with pytest.raises(InvalidQuery):
        parse_query(text, two_columns, DocMapping.for_table(two_columns, []))


def test_deeply_nested_queries_and_long_chains(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 50)
    with SplitReader(tmp_path / "a.split") as reader:
        hits = matches(reader, "timeout")
        assert hits
        depth = limits.QUERY_DEPTH
        assert matches(reader, "(" * depth + "timeout" + ")" * depth) == hits
        assert matches(reader, "-(" * depth + "timeout" + ")" * depth) == hits
        assert matches(reader, "(zzz OR NOT " * depth + "timeout" + ")" * depth) == hits
        assert matches(reader, "NOT " * 2_400 + "timeout") == hits
        assert matches(reader, " OR ".join(["timeout"] * 900)) == hits


@settings(max_examples=400, deadline=None)
@given(st.text(st.sampled_from("ab*:()[]{}\"'^~+-\\/ <>=!&|.1TONDARIstus\u3000é\x00"), max_size=30))
def test_any_text_parses_or_raises_invalid_query(text: str) -> None:
    try:
        position = parse_query(text, LOGS, LOGS_MAPPING) and None
    except InvalidQuery as error:
        position = error.position
    assert position is None or 0 <= position <= len(text)


def test_no_text_column_to_search() -> None:
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(InvalidQuery, match="no text column"):
        parse_query("a", schema, DocMapping.for_table(schema, []))


def test_a_query_survives_pickle(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 50)
    query = parse_query('(timeout OR "disk full")^2 AND status:[1 TO 300] -level:INFO ok:*', LOGS, LOGS_MAPPING)
    restored = pickle.loads(pickle.dumps(query))
    assert restored == query
    with SplitReader(tmp_path / "a.split") as reader:
        assert reader.search(restored)[0].tolist() == reader.search(query)[0].tolist()


def test_hits_are_ordered_by_score_and_limited(tmp_path: Path) -> None:
    texts = ["cat", "cat cat cat", "dog", "cat dog", "cat", "mouse"]
    write_split(tmp_path / "a.split", batch_of({"m": pa.array(texts)}))
    query = parse_query("cat dog^5", pa.schema([("m", pa.string())]), DocMapping((("m", "text"),)))
    with SplitReader(tmp_path / "a.split") as reader:
        rows, scores = reader.search(query)
        assert rows[:2].tolist() in ([2, 3], [3, 2])
        assert rows.tolist().index(0) + 1 == rows.tolist().index(4)  # ties by row
        assert (scores[:-1] >= scores[1:]).all()
    view = open_view([tmp_path / "a.split"])
    for limit in range(8):
        assert view.search(query, limit).rows.tolist() == rows[:limit].tolist()
    assert view.search(query, 10**18).rows.tolist() == rows.tolist()


def test_a_column_added_later_is_null_in_older_splits(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", batch_of({"m": pa.array(["cat", "dog"])}))
    wider = pa.schema([("m", pa.string()), ("note", pa.string()), ("n", pa.int64())])
    mapping = DocMapping.for_table(wider, [])
    with SplitReader(tmp_path / "a.split") as reader:
        for text, expected in {"cat": [0], "note:cat": [], "NOT note:*": [0, 1], "n:[1 TO 2] OR dog": [1], "n:1": []}.items():
            assert sorted(reader.search(parse_query(text, wider, mapping))[0].tolist()) == expected


def test_each_split_is_searched_with_its_own_mapping(tmp_path: Path) -> None:
    batch = batch_of({"m": pa.array(["Big Cat", "cat"])})
    write_split(tmp_path / "text.split", batch)
    write_split(tmp_path / "exact.split", batch, DocMapping.for_table(batch.schema, [], {"m": "string"}))
    query = parse_query("m:cat", batch.schema, DocMapping.for_table(batch.schema, []))
    with SplitReader(tmp_path / "text.split") as text, SplitReader(tmp_path / "exact.split") as exact:
        assert sorted(text.search(query)[0].tolist()) == [0, 1]
        assert exact.search(query)[0].tolist() == [1]


def test_a_phrase_prefix_expands_to_more_than_50_words(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", batch_of({"m": pa.array([f"big w{n} end" for n in range(300)])}))
    with SplitReader(tmp_path / "a.split") as reader:
        assert len(matches(reader, '"big w"*')) == 300
        assert len(matches(reader, '"big w1"*')) == 111


def test_slop_is_the_number_of_words_allowed_within_a_phrase(tmp_path: Path) -> None:
    write_split(tmp_path / "a.split", batch_of({"m": pa.array(["big cat", "big fat cat", "big old fat cat"])}))
    with SplitReader(tmp_path / "a.split") as reader:
        assert [matches(reader, f'"big cat"~{slop}') for slop in range(3)] == [{0}, {0, 1}, {0, 1, 2}]
