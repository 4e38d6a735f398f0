from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from indextables.errors import ConfigError, SchemaMismatch
from indextables.splits import DocMapping

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("message", pa.string()),
        ("level", pa.string()),
        ("small", pa.int8()),
        ("ratio", pa.float32()),
        ("ok", pa.bool_()),
        ("born", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)


def test_kinds_follow_types_partitions_and_typemap() -> None:
    mapping = DocMapping.for_table(SCHEMA, ["day"], {"level": "string", "message": "text"})
    assert [field["type"] for field in json.loads(mapping.to_json())["fields"]] == [
        "i64", "string", "text", "string", "i64", "f64", "bool", "date", "date",
    ]  # fmt: skip
    assert mapping.text_columns == ("message",)


def test_it_survives_json_and_pickle() -> None:
    mapping = DocMapping.for_table(SCHEMA, ["day"])
    assert DocMapping.from_json(mapping.to_json()) == mapping
    assert pickle.loads(pickle.dumps(mapping)) == mapping


@pytest.mark.parametrize(
    ("typemap", "named"),
    [
        ({"nope": "text"}, "'nope'"),
        ({"message": "keyword"}, "'keyword'"),
        ({"id": "text"}, "'id'"),
        ({"day": "text"}, "'day'"),
    ],
)
def test_a_bad_typemap_is_refused_by_name(typemap: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        DocMapping.for_table(SCHEMA, ["day"], typemap)


def test_a_type_without_an_index_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="'raw'"):
        DocMapping.for_table(pa.schema([("raw", pa.binary())]), [])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fields":[{"name":"a","type":"geo"}]}', '{"fields":[1]}'])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"mapping|Expecting value"):
        DocMapping.from_json(text)
