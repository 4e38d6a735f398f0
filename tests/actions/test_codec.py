"""Encoding of actions: one key per line, unknown actions ignored, malformed lines refused by number (LOG-03, ACT-12, ACT-14, C-25,
ERR-05)."""

from __future__ import annotations

import json

import pytest

from indextables.actions import Add, CommitInfo, Metadata, Protocol, Remove
from indextables.actions.codec import decode_actions, encode_action, encode_actions
from indextables.errors import LogCorrupted

ADD = {"path": "a.split", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}


def test_nulls_are_left_out_and_each_line_ends() -> None:
    text = encode_actions([Add(path="a", partition_values={}, size=1, modification_time=2, data_change=True), Remove(path="b")])
    assert text.endswith(b"\n")
    lines = [json.loads(line) for line in text.decode().splitlines()]
    assert lines[0] == {"add": {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}}
    assert lines[1] == {"remove": {"path": "b"}} or lines[1] == {"remove": {"path": "b", "dataChange": True}}


def test_metadata_is_written_with_all_required_keys() -> None:
    document = json.loads(encode_action(Metadata(id="x", schema_string="{}")))["metaData"]
    assert set(document) == {"id", "format", "schemaString", "partitionColumns", "configuration"}
    assert document["format"] == {"provider": "indextables", "options": {}}


def test_null_and_absent_are_the_same() -> None:
    explicit = json.dumps({"add": {**ADD, "stats": None, "minValues": None, "numRecords": None}})
    absent = json.dumps({"add": ADD})
    assert decode_actions(explicit.encode(), "x").actions == decode_actions(absent.encode(), "x").actions


def test_unknown_actions_are_counted_and_unknown_fields_ignored() -> None:
    lines = [{"add": {**ADD, "newField": [1, 2]}}, {"somethingNew": {"a": 1}}, {"anotherOne": {"path": "x"}}]
    decoded = decode_actions("\n\n".join(json.dumps(line) for line in lines).encode(), "x")
    assert [type(action) for action in decoded.actions] == [Add]
    assert decoded.unknown == 2


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"{",
        b'"add"',
        b'{"add": {"path": 5}}',
        b'{"add": {"path": "x"}}',
        b'{"remove": []}',
        b'{"protocol": {"minReaderVersion": "1", "minWriterVersion": 1}}',
        b'{"add": {"path": "\xff"}}',
        b"[" * 100_000,
        json.dumps({"add": ADD, "remove": {"path": "x"}}).encode(),
    ],
)
def test_malformed_lines_are_refused_with_their_number(line: bytes) -> None:
    with pytest.raises(LogCorrupted, match="version 7, line 2"):
        decode_actions(b'{"remove": {"path": "y"}}\n' + line, "version 7")


def test_commit_info_and_protocol_encoding() -> None:
    info = json.loads(encode_action(CommitInfo(id="u", timestamp=5, operation="append", read_version=3)))
    assert info == {"commitInfo": {"id": "u", "timestamp": 5, "operation": "append", "readVersion": 3}}
    protocol = json.loads(encode_action(Protocol(min_reader_version=2, min_writer_version=2)))
    assert protocol == {"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}
