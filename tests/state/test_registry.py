"""Schema deduplication (SDD-01 to SDD-07): mappings are stored once, and none is lost."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.actions import Add, Metadata, restored
from indextables.actions.codec import decode_actions
from indextables.log import names, packing
from indextables.state.checkpoints.contents import Format
from indextables.state.checkpoints.schema_registry import PREFIX, Registry, deduplicated, schema_hash
from tests.support.avro_tables import commit as commit_to
from tests.support.avro_tables import start
from tests.support.checkpoints import commit, log_of, write_checkpoint
from tests.support.loading import loaded, read_all
from tests.support.logs import add, metadata, protocol
from tests.support.memory_store import MemoryStore
from tests.support.seeds import random_seed
from tests.support.tables import make, rows, version_file

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "schema_hash.json"
OWN_VECTORS = [
    ("z7TwwZ-tDWGD-uX5", [("id", "i64", None), ("text", "text", "raw"), ("score", "f64", None)]),
    ("gC45RGOqJ_Grt0xH", [("id", "i64", None), ("text", "text", "raw")]),
    ("qc10IusIgZa4R4u3", [("id", "i64", None), ("title", "text", "raw"), ("body", "text", "raw"), ("rating", "f64", None)]),
]


def spelt(fields: list[tuple[str, str, str | None]]) -> list[dict[str, Any]]:
    flags = {"fast": True, "indexed": True, "stored": True}
    return [{**flags, "name": name, "type": kind, **({"tokenizer": tokenizer} if tokenizer else {})} for name, kind, tokenizer in fields]


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same to the registry: keys, and named items, in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], chance) for key in chance.sample(list(value), len(value))}
    if isinstance(value, list):
        items = [shuffled(item, chance) for item in value]
        return chance.sample(items, len(items)) if all(isinstance(item, dict) and "name" in item for item in items) else items
    return value


def mapping(name: str) -> str:
    return json.dumps([{"name": name, "type": "text"}, {"name": "id", "type": "i64"}])


@pytest.mark.parametrize(("expected", "fields"), OWN_VECTORS)
def test_the_hash_equals_that_of_other_programs(expected: str, fields: list[tuple[str, str, str | None]]) -> None:
    """SDD-01, SDD-04, C-42."""
    assert schema_hash(json.dumps(spelt(fields))) == expected
    first = random_seed(0)
    for seed in range(first, first + 50):
        assert schema_hash(json.dumps(shuffled(spelt(fields), random.Random(seed)), indent=seed % 3)) == expected


def test_the_hashes_of_the_vectors() -> None:
    """SDD-01: with upstream's golden data, if it is available next to this repository; OWN_VECTORS has the same three cases."""
    found = json.loads(VECTORS.read_text()) if VECTORS.is_file() else []
    assert [schema_hash(case["docMappingJson"]) for case in found] == [case["hash"] for case in found]
    assert {schema_hash(json.dumps(spelt(fields))) for _, fields in OWN_VECTORS} >= {case["hash"] for case in found}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":2}'),
        ("[1,2]", "[2,1]"),
        ('[{"n":1},{"n":2}]', '[{"n":2},{"n":1}]'),  # the order of unnamed items matters
        ('[{"name":"a"},{"x":1}]', '[{"x":1},{"name":"a"}]'),
        ('{"a":"ü"}', '{"a":"u"}'),
        ("[]", "{}"),
    ],
)
def test_different_mappings_have_different_hashes(one: str, other: str) -> None:
    assert schema_hash(one) != schema_hash(other)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "NaN", '{"a":NaN}', "\ud800"])
def test_invalid_json_has_no_hash_and_is_not_replaced(text: str) -> None:
    assert schema_hash(text) is None
    added, refers = deduplicated([one_add("a", text)], Metadata(id="x", schema_string="{}"))
    assert (added, refers) == ([one_add("a", text)], False)


def one_add(path: str, text: str | None, ref: str | None = None) -> Add:
    return Add(path=path, partition_values={}, size=1, modification_time=1, data_change=True, doc_mapping_json=text, doc_mapping_ref=ref)


def actions_in(table: Path, version: int) -> list[Any]:
    return decode_actions(packing.unpack(version_file(table, version).read_bytes(), "x"), "x").actions


def test_from_protocol_three_on_commits_use_references(tmp_path: Path) -> None:
    """SDD-02, SDD-03, SDD-07, C-23: adds of older protocols keep their mapping, and all of them are readable."""
    table = make(tmp_path / "t", 1, partition_by=(), **{"state.format": "json"})
    table.log.upgrade_protocol(3, 3)
    table.append(rows(10, 5))
    table.append(rows(20, 5))
    inline, first, second = (next(a for a in actions_in(tmp_path / "t", version) if isinstance(a, Add)) for version in (1, 3, 4))
    assert inline.doc_mapping_json is not None
    assert (first.doc_mapping_json, first.doc_mapping_ref) == (None, schema_hash(inline.doc_mapping_json))
    assert second.doc_mapping_ref == first.doc_mapping_ref
    brought = [a for a in actions_in(tmp_path / "t", 3) if isinstance(a, Metadata)]
    assert brought[0].configuration[f"{PREFIX}{first.doc_mapping_ref}"] == inline.doc_mapping_json
    assert not any(isinstance(a, Metadata) for a in actions_in(tmp_path / "t", 4))  # the table knows it already
    found = it.open(tmp_path / "t")
    assert [a.doc_mapping_json for a in loaded(found).adds()] == [inline.doc_mapping_json] * 3
    assert "schemaDeduplication" in (found.protocol.reader_features or [])
    assert found.count() == 20


def test_concurrent_appends_keep_each_others_mappings(tmp_path: Path) -> None:
    """They neither conflict because of the registry nor remove each other's entries."""
    table = make(tmp_path / "t", 0, partition_by=())
    table.log.upgrade_protocol(3, 3)

    def append(number: int) -> int:
        action = {"add": {**add(f"f{number}")["add"], "docMappingJson": mapping(f"column{number % 6}")}}
        return it.open(tmp_path / "t", options={"checkpoint.enabled": False}).log.commit([action], "append")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(24)))
    snapshot = loaded(it.open(tmp_path / "t"))
    texts = {found.path: found.doc_mapping_json for found in snapshot.adds()}
    assert texts == {f"f{number}": mapping(f"column{number % 6}") for number in range(24)}
    assert sum(key.startswith(PREFIX) for key in snapshot.metadata.configuration) == 6


def test_metadata_without_the_registry_loses_no_mapping() -> None:
    """Whichever program writes it: files still reference the mappings."""
    store = three()
    text = mapping("a")
    known = {f"{PREFIX}{schema_hash(text)}": text}
    commit(store, 1, metadata(configuration=known), add("f", docMappingRef=schema_hash(text)))
    commit(store, 2, metadata(name="renamed"))
    snapshot = read_all(log_of(store))
    assert (snapshot.metadata.name, snapshot.metadata.configuration) == ("renamed", known)
    assert [found.doc_mapping_json for found in snapshot.adds()] == [text]


def three() -> MemoryStore:
    store = MemoryStore()
    features = {kind: ["arrowRowStore"] for kind in ("readerFeatures", "writerFeatures")}
    commit(store, 0, protocol(3, 3, **features), metadata())
    return store


@pytest.mark.parametrize("kind", [Format.JSON, Format.JSON_PARTS, Format.PARQUET])
def test_a_checkpoint_replaces_mappings_by_references(kind: Format) -> None:
    """SDD-06: the mappings are committed to the log first, so that readers with and without the checkpoint agree."""
    store = three()
    commit(store, 1, *(add(f"f{number}", docMappingJson=mapping(f"c{number % 2}")) for number in range(6)), add("none"))
    before = [found.doc_mapping_json for found in read_all(log_of(store)).adds()]
    write_checkpoint(store, kind)
    snapshot = read_all(log_of(store))
    assert snapshot.checkpoint == snapshot.version == 2
    assert snapshot.files_table().column("doc_mapping_json").null_count == 7
    assert [found.doc_mapping_json for found in snapshot.adds()] == before
    for path in [path for path in store.files if "checkpoint" in path]:
        store.delete(path)
    assert [found.doc_mapping_json for found in read_all(log_of(store)).adds()] == before


def test_tables_of_an_older_protocol_keep_mappings_in_their_adds() -> None:
    store = MemoryStore()
    commit(store, 0, protocol(), metadata())
    commit(store, 1, add("f", docMappingJson=mapping("a")))
    write_checkpoint(store, Format.JSON)
    snapshot = read_all(log_of(store))
    assert (snapshot.version, snapshot.checkpoint, snapshot.protocol.min_reader_version) == (1, 1, 2)
    assert [(found.doc_mapping_ref, found.doc_mapping_json) for found in snapshot.adds()] == [(None, mapping("a"))]


@pytest.mark.parametrize(("refs", "renormalised"), [(5, False), (6, True)])
def test_many_references_are_renormalised(refs: int, renormalised: bool) -> None:
    """SDD-05, C-43: with more than five, equal mappings get one hash again; old entries stay for readers of the log alone."""
    store = three()
    texts = [json.dumps(shuffled(json.loads(mapping("a")), random.Random(number)), indent=number) for number in range(refs)]
    registry = {f"{PREFIX}old{number}": text for number, text in enumerate(texts)}
    commit(store, 1, metadata(configuration=registry), *(add(f"f{number}", docMappingRef=f"old{number}") for number in range(refs)))
    write_checkpoint(store, Format.JSON)
    snapshot = read_all(log_of(store))
    found = set(snapshot.files_table().column("doc_mapping_ref").to_pylist())
    assert found == ({schema_hash(texts[0])} if renormalised else {f"old{number}" for number in range(refs)})
    assert all(schema_hash(one.doc_mapping_json or "") == schema_hash(texts[0]) for one in snapshot.adds())
    assert snapshot.metadata.configuration.keys() >= registry.keys()
    store.delete(names.checkpoint_path(snapshot.version))
    assert all(schema_hash(one.doc_mapping_json or "") == schema_hash(texts[0]) for one in read_all(log_of(store)).adds())


def test_references_of_the_base_state_count_and_are_renormalised_too(tmp_path: Path) -> None:
    """SDD-05: four before the first state and four after it are more than five. Once they are hashes, the state is extended again."""
    table = start(tmp_path / "t")
    texts = [json.dumps(shuffled(json.loads(mapping("a")), random.Random(number)), indent=number) for number in range(8)]
    registry = {f"{PREFIX}old{number}": text for number, text in enumerate(texts)}
    written = []
    for begin, news in ((0, [metadata(configuration=registry)]), (4, []), (8, [])):
        refs = [f"old{number}" if number < 8 else schema_hash(texts[0]) for number in range(begin, begin + 4)]
        commit_to(table, *news, *(add(f"f{begin}-{place}", docMappingRef=ref) for place, ref in enumerate(refs)))
        report = it.open(table).checkpoint()
        used = set(loaded(it.open(table)).files_table().column("doc_mapping_ref").to_pylist())
        written.append((report.metrics["manifests_written"], report.metrics["manifests_reused"], used))
    assert written == [(1, 0, {f"old{number}" for number in range(4)}), (1, 0, {schema_hash(texts[0])}), (1, 1, {schema_hash(texts[0])})]
    assert all(schema_hash(one.doc_mapping_json or "") == schema_hash(texts[0]) for one in loaded(it.open(table)).adds())


@pytest.mark.parametrize("key", ["h", f"{PREFIX}h"])
def test_registry_keys_with_and_without_prefix_are_read(key: str) -> None:
    """C-41."""
    assert restored(one_add("a", None, "h"), Registry({key: "[1]"}).texts).doc_mapping_json == "[1]"
    assert restored(one_add("a", None, "x"), Registry({key: "[1]"}).texts).doc_mapping_json is None
