"""Adds that match a pattern are not decoded: results and errors must be the same as with decoding (ACT-12, ACT-14, ERR-05)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from indextables import limits
from indextables.actions import Action, codec
from indextables.actions.add_patterns import AddBlock, AddPatterns, decoded, pattern_of
from indextables.actions.codec import decode_actions, decode_version
from indextables.actions.replay import Replay
from indextables.errors import LogCorrupted
from indextables.paths import NULL_PARTITION, TableRoot
from tests.actions.test_hostile_lines import ACCEPTED, OPTIONAL, REFUSED, REQUIRED
from tests.support.seeds import random_seed

Outcome = tuple[list[Action], int] | str


def add(number: int, **more: Any) -> dict[str, Any]:
    known = {"path": f"d={number % 3}/splits/s{number}.split", "partitionValues": {"d": str(number % 3)}, "size": number}
    bounds = {"minValues": {"path": "a", "size": "x"}, "maxValues": {"path": "é", "size": "z"}, "numRecords": 7, "numMergeOps": 1}
    return {"add": {**known, "modificationTime": 1_700_000_000_000, "dataChange": True, **bounds, "splitTags": ["t", "u"], **more}}


def log_lines(*actions: dict[str, Any]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n" for action in actions).encode()


@pytest.fixture(autouse=True)
def patterns(monkeypatch: pytest.MonkeyPatch) -> AddPatterns:
    """Patterns that are learned from the first add."""
    fresh = AddPatterns(patience=1)
    monkeypatch.setattr(codec, "ADD_PATTERNS", fresh)
    return fresh


def without_patterns(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    with monkeypatch.context() as patch:
        patch.setattr(codec, "ADD_PATTERNS", AddPatterns(patience=10**9))
        try:
            found = decode_actions(data, "version 7", 7)
        except LogCorrupted as error:
            return str(error)
        return found.actions, found.unknown


def with_patterns(data: bytes) -> tuple[Outcome, int]:
    """The outcome with patterns, and how many adds stayed in blocks."""
    try:
        found = decode_version(data, "version 7", 7)
    except LogCorrupted as error:
        return str(error), 0
    actions: list[Action] = []
    in_blocks = 0
    for item in found.items:
        if isinstance(item, AddBlock):
            adds = decoded([(path, item) for path in item.texts])
            assert (item.size, item.num_records) == (sum(a.size for a in adds), sum(a.num_records or 0 for a in adds))
            in_blocks += len(adds)
            actions += adds
        else:
            actions.append(item)
    return (actions, found.unknown), in_blocks


def test_adds_that_match_a_pattern_stay_undecoded() -> None:
    with_patterns(log_lines(add(1)))
    found, in_blocks = with_patterns(log_lines({"commitInfo": {"id": "x"}}, *map(add, range(10))))
    assert in_blocks == 10
    assert isinstance(found, tuple)
    assert [getattr(action, "added_at_version", None) for action in found[0]] == [None] + [7] * 10
    (block,) = decode_version(log_lines(*map(add, range(4))), "v", 9).items
    assert isinstance(block, AddBlock)
    assert (block.size, block.num_records, block.version) == (6, 28, 9)
    assert block.add("d=2/splits/s2.split").size == 2


@pytest.mark.parametrize("text", [*REFUSED.values(), *ACCEPTED.values()], ids=[*REFUSED, *ACCEPTED])
def test_hostile_lines_among_matching_adds(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with_patterns(log_lines(add(1)))
    for good in ("", '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'):
        with_patterns(good.encode())
        data = log_lines(add(1), add(2)) + text + b"\n" + log_lines(add(3))
        assert with_patterns(data)[0] == without_patterns(data, monkeypatch)


@pytest.mark.parametrize(("key", "name"), OPTIONAL)
def test_null_in_an_optional_field_reads_as_absent_among_matching_adds(key: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_patterns(log_lines(add(1)))
    data = log_lines({key: {**REQUIRED[key][1], name: None}}, add(2), add(3))
    found, in_blocks = with_patterns(data)
    assert (found, in_blocks) == (without_patterns(data, monkeypatch), 2)
    assert not isinstance(found, str)


VALUES = [b"null", b"-1", b"01", b"1.0", b"1e3", b"true", b'"', b'"x"', b"{}", b"[]", b"9" * 18, b"9" * 19, b"2147483648", b"", b" "]


def mutated(data: bytes, chance: random.Random) -> bytes:
    at, to = sorted(chance.choices(range(len(data)), k=2))
    match chance.randrange(5):
        case 0:
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[min(to, at + 20) :]
        case 2:
            return data[:at] + data[to : to + 30] + data[at:]
        case 3:
            tokens = data.split(b":")
            at = chance.randrange(1, len(tokens))
            _, comma, tail = tokens[at].partition(b",")
            tokens[at] = chance.choice(VALUES) + comma + tail
            return b":".join(tokens)
        case _:
            return (
                data[:at] + chance.choice([b"\\n", b"\\u0022", b'"', b"\\", b"\n", b"\x00", b",", b"}", b"\xff", b"\xc3\xa9"]) + data[at:]
            )


def test_patterns_and_decoder_agree_on_mutated_files(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random_seed()
    chance = random.Random(seed)
    shapes = [
        log_lines(add(1)),
        log_lines(add(1, stats='{"a":1}')),
        log_lines(add(1, numRecords=None)),
        log_lines({"add": {"size": 5, **add(1)["add"]}}),
    ]
    tried = refused = in_blocks = 0
    for shape in shapes:
        for _ in range(8):
            with_patterns(shape)
    for _ in range(6000):
        lines = [
            chance.choice([add(n), add(n), add(n, stats=chance.choice(["{}", '"\n', "é"])), {"remove": {"path": "x"}}]) for n in range(4)
        ]
        data = log_lines({"commitInfo": {"id": f"{tried}", "timestamp": 1, "metrics": {"n": 1}}}, *lines)
        for _ in range(chance.randint(0, 2)):
            data = mutated(data, chance)
        expected = without_patterns(data, monkeypatch)
        found, blocks = with_patterns(data)
        assert found == expected, (seed, data)
        tried += 1
        refused += isinstance(found, str)
        in_blocks += blocks
    print(f"{tried} files, {refused} refused, {in_blocks} adds taken undecoded, seed {seed}")
    assert tried == 6000
    assert refused > 1000
    assert in_blocks > 3000


def test_adds_of_several_patterns_keep_their_order() -> None:
    one, two = add(1), add(2, stats='{"numRecords":7,"a":"\\""}')
    for action in (one, two, two):
        with_patterns(log_lines(action))
    others = [{"remove": {"path": "gone"}}, {"new": {}}]
    data = log_lines(add(3), two, add(4), *others, add(5, stats="x"), add(6, stats="\\"), {"txn": {"appId": "a", "version": 1}})
    found, in_blocks = with_patterns(data)
    assert isinstance(found, tuple)
    assert [getattr(action, "size", None) for action in found[0]] == [3, 2, 4, None, 5, 6, None]
    assert (found[1], in_blocks) == (1, 5)


@pytest.mark.parametrize(
    "odd",
    [
        [add(1), add(1, size=5)],
        [add(1, partitionValues={"d": NULL_PARTITION})],
        [add(1, path="s3://b/t/x")],
        [add(1, path="a%20b")],
        [add(1, path="x" * (limits.PATH_CHARACTERS - 1)), add(2, path="y" * 2000)],
        [add(1, splitTags=["t", "u" * 70_000])],
    ],
    ids=["path twice", "null partition", "whole address", "not plain", "long path", "long line"],
)
def test_unusual_adds_are_checked_in_full(odd: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    with_patterns(log_lines(add(9)))
    data = log_lines(*odd)
    found, in_blocks = with_patterns(data)
    assert found == without_patterns(data, monkeypatch)
    assert in_blocks == (len(odd) if len(odd[0]["add"]["path"]) == limits.PATH_CHARACTERS - 1 else 0)
    quick, plain = (Replay(TableRoot("b/t", "s3").relative) for _ in range(2))
    quick.apply(7, decode_version(data, "v", 7).items)
    assert isinstance(found, tuple)
    plain.apply(7, found[0])
    assert (list(quick.files().complete.adds()), quick.num_files) == (list(plain.files().complete.adds()), plain.num_files)


def test_blocks_in_a_replay() -> None:
    with_patterns(log_lines(add(9)))
    replay = Replay(TableRoot("/t").relative)
    for version in range(3):
        replay.apply(version, decode_version(log_lines(*(add(n) for n in range(version, version + 3))), "v", version).items)
    replay.apply(3, decode_version(log_lines({"remove": {"path": "d=1/splits/s1.split"}}, add(0)), "v", 3).items)
    files = replay.files().complete
    assert [(found.size, found.added_at_version) for found in files.adds()] == [(2, 2), (3, 2), (4, 2), (0, 3)]
    assert (files.size, files.num_records, len(files)) == (9, 28, 4)
    found = files.get("d=0/splits/s3.split")
    assert found is not None
    assert found.min_values == {"path": "a", "size": "x"}


def test_only_compact_lines_of_plain_values_become_patterns() -> None:
    line = log_lines(add(1)).decode()[:-1]
    assert pattern_of(line) is not None
    for odd in (
        line.replace(":", ": "),
        line.replace('"size":1', '"size":-1'),
        line.replace('"size":1', '"size":1.0'),
        line.replace("d=1/splits", "d%201/splits"),
        line.replace('"partitionValues":{"d"', '"partitionValues":{"\\u0064"'),
        line.replace('"t"', '"' + "t" * 5000 + '"'),
    ):
        assert odd != line
        assert pattern_of(odd) is None


def test_few_patterns_are_learned(patterns: AddPatterns) -> None:
    """However many forms of adds occur, few patterns are kept, and each is learned only after twice as many adds as the one before."""
    for number in range(300):
        with_patterns(log_lines(add(1, **{f"new{number}": 1})))
    assert len(patterns._patterns) == 4
    assert patterns._patience >= 128
