"""Unusual and hostile lines: each is refused with its number, or accepted on purpose (ACT-12, ACT-14, ERR-05)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from indextables import limits
from indextables.actions import Add, CommitInfo, FileFormat, Metadata, Protocol, Remove, Skip, Txn
from indextables.actions.codec import decode_actions, encode_actions
from indextables.errors import LogCorrupted

GOOD = '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}'


def line(more: str = "", path: str = '"a"') -> bytes:
    return f'{{"add":{{"path":{path},"partitionValues":{{}},"size":1,"modificationTime":1,"dataChange":true{more}}}}}'.encode()


REFUSED = {
    "key twice": line(',"size":2'),
    "key twice, same value": line(',"size":1'),
    "key twice, spelt with escapes": line(',"s\\u0069ze":2'),
    "key twice, quotes made up for by an escape": line(',"size":2', '"\\u0022\\u0022"'),
    "key twice, one null": line(',"stats":null,"stats":"x"'),
    "key twice in a map": line(',"minValues":{"id":"1","id":"2"}'),
    "key twice in an unknown field": line(',"new":{"x":1,"x":2}'),
    "action twice": (GOOD[:-1] + "," + GOOD[1:]).encode(),
    "unknown action with a key twice": b'{"new":{"x":1,"x":2}}',
    "metaData with a key twice": b'{"metaData":{"id":"x","schemaString":"{}","id":"y"}}',
    "metaData, made up for by defaults": b'{"metaData":{"id":"x","schemaString":"{}","schemaString":"{}"}}',
    "two actions": (GOOD[:-1] + ',"txn":{"appId":"a","version":1}}').encode(),
    "two objects": (GOOD + GOOD).encode(),
    "cut off": GOOD[:-1].encode(),
    "no object": b"[]",
    "number": b"1",
    "NaN": line(',"numRecords":NaN'),
    "NaN in an unknown field": line(',"new":NaN'),
    "Infinity": line(',"numRecords":-Infinity'),
    "1e999": line(',"numRecords":1e999'),
    "1e999 in an unknown field": line(',"new":[-1e999]'),
    "1e999 in an unknown action": b'{"new":1e999}',
    "above int64": line(f',"numRecords":{2**63}'),
    "below int64": line(f',"deleteOpstamp":{-(2**63) - 1}'),
    "5,000 digits": line(',"numRecords":' + "9" * 5000),
    "above int32": line(f',"numMergeOps":{2**31}'),
    "protocol above int32": b'{"protocol":{"minReaderVersion":4294967298,"minWriterVersion":2}}',
    "negative rows": line(',"numRecords":-1'),
    "fraction": line(',"numRecords":1.5'),
    "boolean for a number": line(',"numRecords":true'),
    "text for a number": line(',"numRecords":"1"'),
    "number for a text": line("", "1"),
    "null path": line("", "null"),
    "null in a list": line(',"splitTags":[null]'),
    "null action": b'{"add":null}',
    "null action with spaces": b' { "metaData" : null } ',
    "two null actions": b'{"add":null,"remove":null}',
    "null action beside an unknown null": b'{"new":null,"txn":null}',
    "number in a map": line(',"minValues":{"a":1}'),
    "half a surrogate pair": line("", '"\\ud800"'),
    "the other half": line("", '"\\udc00x"'),
    "invalid UTF-8": line("", '"@"').replace(b"@", b"\xff"),
    "invalid UTF-8 in an unknown field": line(',"new":"@"').replace(b"@", b"\xff"),
    "UTF-16": GOOD.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "NUL": line("", '"a\x00"'),
    "deep": line(',"new":' + "[" * 100_000 + "]" * 100_000),
    "deep and open": line(',"new":' + "[" * 100_000),
    "deep objects": line(',"new":' + '{"a":' * 50_000 + "1" + "}" * 50_000),
    "too long": line(',"stats":"' + "x" * limits.LINE_BYTES + '"'),
    "too many values": line(',"splitTags":[' + '"",' * limits.LINE_VALUES + '""]'),
    "path missing": b'{"remove":{"dataChange":true}}',
    "skip without a reason": b'{"mergeskip":{"path":"a","skipTimestamp":1}}',
    "txn without a version": b'{"txn":{"appId":"a"}}',
    "single quotes": GOOD.replace('"', "'").encode(),
    "comment": (GOOD + " // x").encode(),
    "trailing comma": GOOD.replace("true", "true,").encode(),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_hostile_lines_are_refused_with_their_number(text: bytes) -> None:
    with pytest.raises(LogCorrupted, match=r"^version 7, line 3 "):
        decode_actions(GOOD.encode() + b"\n\n" + text + b"\n", "version 7")


@pytest.mark.parametrize("removes", [[{"path": "a"}], [{"path": "a", "dataChange": True}, {"path": "a"}], [{"path": "a"}] * 2])
def test_defaults_of_a_remove_do_not_hide_duplicate_keys(removes: list[dict[str, Any]]) -> None:
    """Encoding adds `dataChange`: as many quotes as a duplicate key has."""
    text = "".join(json.dumps({"remove": remove}, separators=(",", ":")) + "\n" for remove in removes).encode()
    assert len(decode_actions(text + GOOD.encode(), "x").actions) == len(removes) + 1
    for twice in (line(',"size":2'), line(',"size":2,"size":3')):
        with pytest.raises(LogCorrupted, match="the key 'size' twice"):
            decode_actions(text + twice + b"\n", "x")


ACCEPTED = {
    "carriage returns": GOOD.encode() + b"\r",
    "spaces around": b"  \t" + GOOD.encode() + b"  ",
    "spaces within": json.dumps(json.loads(GOOD)).encode(),
    "nulls in maps": line(',"minValues":{"a":null},"maxValues":{"a":null,"b":"1"},"tags":{"t":null}'),
    "an action among nulls": (GOOD[:-1] + ',"remove":null,"metaData":null}').encode(),
    "nulls": line(',"stats":null,"tags":null,"minValues":null,"numRecords":null,"hasFooterOffsets":null'),
    "unknown fields": line(',"new":{"x":[1,{"y":null}]},"other":1e5'),
    "the same key in different maps": line(',"minValues":{"id":"1","size":"1"},"maxValues":{"id":"2","size":"2"}'),
    "escaped": line("", '"\\u0061\\/b"'),
    "quotes in a text": line("", '"\\"a\\""'),
    "pair of surrogates": line("", '"\\ud83d\\ude00"'),
    "int64": line(f',"numRecords":{2**63 - 1}'),
    "exactly at the end of the file": GOOD.encode(),
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_unusual_lines_are_accepted(text: bytes) -> None:
    decoded = decode_actions(text, "version 7")
    assert [type(action) for action in decoded.actions] == [Add]
    assert decoded.unknown == 0


@pytest.mark.parametrize("text", [b'{"add":null,"new":{}}', b'{"new":null}'])
def test_an_unknown_action_next_to_a_null_is_counted(text: bytes) -> None:
    decoded = decode_actions(text, "version 7")
    assert (decoded.actions, decoded.unknown) == ([], 1)


REQUIRED: dict[str, tuple[type[Struct], dict[str, Any]]] = {
    "add": (Add, json.loads(GOOD)["add"]),
    "remove": (Remove, {"path": "a"}),
    "mergeskip": (Skip, {"path": "a", "skipTimestamp": 1, "reason": "r"}),
    "metaData": (Metadata, {"id": "a", "schemaString": "{}"}),
    "protocol": (Protocol, {"minReaderVersion": 1, "minWriterVersion": 1}),
    "commitInfo": (CommitInfo, {}),
    "txn": (Txn, {"appId": "a", "version": 1}),
}
OPTIONAL = [(key, field.encode_name) for key, (kind, _) in REQUIRED.items() for field in structs.fields(kind) if not field.required]


@pytest.mark.parametrize(("key", "name"), OPTIONAL)
def test_null_in_an_optional_field_reads_as_absent(key: str, name: str) -> None:
    _, required = REQUIRED[key]
    absent, null = (json.dumps({key: {**required, **more}}, separators=(",", ":")) + "\n" for more in ({}, {name: None}))
    expected = decode_actions(absent.encode(), "x", 7).actions
    assert len(expected) == 1
    assert decode_actions(null.encode(), "x", 7).actions == expected


@pytest.mark.parametrize("name", ["provider", "options"])
def test_null_in_the_format_reads_as_absent(name: str) -> None:
    given = {"provider": "p", "options": {"k": "v"}, name: None}
    (found,) = decode_actions(json.dumps({"metaData": {"id": "a", "schemaString": "{}", "format": given}}).encode(), "x").actions
    assert isinstance(found, Metadata)
    assert found.format == (FileFormat(options={"k": "v"}) if name == "provider" else FileFormat("p"))


@pytest.mark.parametrize(
    "text", ['{"remove":{"path":null}}', '{"metaData":{"id":"a","schemaString":null}}', '{"txn":{"appId":"a","version":null}}']
)
def test_null_in_a_required_field_is_refused(text: str) -> None:
    with pytest.raises(LogCorrupted, match="is not an action"):
        decode_actions(text.encode(), "x")


def test_metadata_of_the_native_writer_with_nulls() -> None:
    nothing = '"format":null,"partitionColumns":null,"configuration":null,"name":null,"createdTime":null'
    text = ('{"metaData":{"id":"a","schemaString":"{}",' + nothing + "}}").encode()
    (action,) = decode_actions(text, "x").actions
    assert action == Metadata(id="a", schema_string="{}")
    assert b"null" not in encode_actions([action])


FULL = [
    Protocol(min_reader_version=3, min_writer_version=3, reader_features=["a"], writer_features=["b"]),
    Metadata(id="a", schema_string="{}", partition_columns=["d"], configuration={"k": "v"}, created_time=1, name="n", description="d"),
    Add(
        path="a",
        partition_values={"d": "1"},
        size=1,
        modification_time=2,
        data_change=False,
        stats="{}",
        tags={"a": "b"},
        min_values={"a": "1"},
        max_values={"a": "2"},
        num_records=3,
        footer_start_offset=4,
        footer_end_offset=5,
        hotcache_start_offset=6,
        hotcache_length=7,
        has_footer_offsets=True,
        time_range_start="2024-01-01T00:00:00Z",
        time_range_end="2024-01-02T00:00:00Z",
        split_tags=["x"],
        delete_opstamp=8,
        num_merge_ops=9,
        doc_mapping_json="[]",
        doc_mapping_ref="h",
        uncompressed_size_bytes=10,
    ),
    Remove(
        path="a", deletion_timestamp=1, data_change=False, extended_file_metadata=True, partition_values={"d": "1"}, size=2, tags={"a": "b"}
    ),
    Skip(
        path="a",
        skip_timestamp=1,
        reason="r",
        operation="merge_splits",
        partition_values={"d": "1"},
        size=2,
        retry_after=3,
        skip_count=4,
    ),
    CommitInfo(id="i", timestamp=1, operation="o", user="u", engine="e", job_id="j", attempt=1, read_version=2, metrics={"n": 1}),
    Txn(app_id="a", version=1, last_updated=2),
]


def test_every_field_round_trips() -> None:
    decoded = decode_actions(encode_actions(FULL), "x")
    assert (decoded.actions, decoded.unknown) == (FULL, 0)


def test_a_remove_always_has_data_change() -> None:
    assert b'"dataChange":true' in encode_actions([Remove(path="a")])


def test_a_commit_info_of_another_program() -> None:
    (action,) = decode_actions(b'{"commitInfo":{"timestamp":5,"operation":"WRITE","operationParameters":{"mode":"Append"}}}', "x").actions
    assert isinstance(action, CommitInfo)
    assert (action.id, action.timestamp, action.operation) == ("", 5, "WRITE")


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.sampled_from(["path", "size", "stats", "numRecords", "x", '"', "\\"]), TEXT | st.none() | st.integers(0, 9)),
        max_size=6,
    )
)
def test_duplicate_keys_are_always_found(pairs: list[tuple[str, Any]]) -> None:
    """Counting quotes agrees with parsing the text, whatever the values are."""
    inside = "".join(f",{json.dumps(key)}:{json.dumps(value, ensure_ascii=False)}" for key, value in pairs)
    keys = [*json.loads(GOOD)["add"], *(key for key, _ in pairs)]
    text = GOOD[:-2] + inside + "}}"
    try:
        decode_actions(text.encode(), "x")
        accepted = True
    except LogCorrupted:
        accepted = False
    assert not accepted or len(set(keys)) == len(keys)
