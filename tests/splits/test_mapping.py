"""The doc mapping: kinds of columns, its JSON, and the options it refuses."""

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


def test_a_mapping_survives_json_and_pickle() -> None:
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
def test_an_invalid_typemap_is_refused_by_name(typemap: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        DocMapping.for_table(SCHEMA, ["day"], typemap)


NESTED = pa.schema(
    [
        ("raw", pa.binary()),
        ("price", pa.decimal128(18, 2)),
        ("huge", pa.decimal128(19, 2)),
        ("tags", pa.list_(pa.string())),
        ("numbers", pa.list_(pa.int64())),
        ("attrs", pa.struct([("x", pa.int32())])),
        ("by_name", pa.map_(pa.string(), pa.string())),
        ("by_number", pa.map_(pa.int64(), pa.string())),
        ("addr", pa.string()),
        ("nothing", pa.null()),
    ]
)


def test_nested_columns_are_not_indexed_by_default() -> None:
    mapping = dict(DocMapping.for_table(NESTED, []).fields)
    assert {name for name, kind in mapping.items() if kind == "stored"} == {
        "raw", "huge", "tags", "numbers", "attrs", "by_name", "by_number", "nothing",
    }  # fmt: skip
    assert (mapping["price"], mapping["addr"]) == ("decimal", "text")
    typemap = {"tags": "text", "attrs": "json", "by_name": "json", "addr": "ip"}
    assert typemap.items() <= dict(DocMapping.for_table(NESTED, [], typemap).fields).items()


@pytest.mark.parametrize(
    ("typemap", "tokenizers", "named"),
    [
        ({"numbers": "text"}, {}, "typemap.numbers is 'text', which requires strings or arrays of strings"),
        ({"by_number": "json"}, {}, "structs or maps with string keys"),
        ({"addr": "json"}, {}, "structs or maps with string keys"),
        ({"tags": "ip"}, {}, "which requires strings"),
        ({"raw": "string"}, {}, "has type binary"),
        ({}, {"nope": "raw"}, "tokenizer.nope names a column"),
        ({}, {"addr": "klingon"}, "'klingon', but must be one of default, raw, en_stem, whitespace, ngram"),
        ({"addr": "ip"}, {"addr": "raw"}, "indexed as ip"),
        ({}, {"price": "raw"}, "indexed as decimal"),
    ],
)
def test_an_unsupported_index_option_is_refused_at_create(typemap: dict[str, str], tokenizers: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        DocMapping.for_table(NESTED, [], typemap, tokenizers)


def test_tokenizers_survive_json() -> None:
    mapping = DocMapping.for_table(NESTED, [], {"tags": "text"}, {"tags": "ngram", "addr": "default"})
    assert (mapping.tokenizer("tags"), mapping.tokenizer("addr")) == ("ngram", "default")
    assert DocMapping.from_json(mapping.to_json()) == mapping


def test_an_unsupported_type_is_refused() -> None:
    for kind in (pa.large_string(), pa.time64("us")):
        with pytest.raises(SchemaMismatch, match="'odd'"):
            DocMapping.for_table(pa.schema([("odd", kind)]), [])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fields":[{"name":"a","type":"geo"}]}', '{"fields":[1]}'])
def test_an_invalid_mapping_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"mapping|Expecting value"):
        DocMapping.from_json(text)
