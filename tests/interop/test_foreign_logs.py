"""Logs of other writers: null map entries, null actions, unsupported protocols, and invalid options."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables as it
from indextables.cli.main import main
from indextables.errors import ConfigError, LogCorrupted, ProtocolUnsupported
from tests.support.loading import loaded
from tests.support.states import FILE_ENTRY, entry, write_manifest, write_state
from tests.support.tables import make, rows, write_version

LOG = "_transaction_log"
PROTOCOL = {"minReaderVersion": 2, "minWriterVersion": 2}
SCHEMA = '{"type":"struct","fields":[{"name":"d","type":"string","nullable":true,"metadata":{}}]}'
METADATA = {
    "id": "m",
    "schemaString": SCHEMA,
    "partitionColumns": ["d"],
    "format": {"provider": "x", "options": {"o": None}},
    "configuration": {"spark.indextables.merge.targetSize": None, "kept": "1"},
}
ADD = {
    "path": "a.split",
    "partitionValues": {"d": None},
    "size": 1,
    "modificationTime": 1,
    "dataChange": True,
    "minValues": {"x": None, "y": "1"},
    "maxValues": {"x": None, "y": "2"},
}


def version_file(table: Path) -> None:
    write_version(table, 0, {"protocol": PROTOCOL, "metaData": None}, {"metaData": METADATA})
    write_version(table, 1, {"add": ADD, "remove": None})


def other_base(table: Path) -> Path:
    """A log whose files are in the checkpoint of version 1 only: the version itself adds nothing."""
    plain = {**METADATA, "format": {"provider": "x", "options": {}}, "configuration": {}}
    write_version(table, 0, {"protocol": PROTOCOL}, {"metaData": plain})
    write_version(table, 1, {"txn": {"appId": "a", "version": 1}})
    return table / LOG


def json_object(table: Path) -> None:
    document = {"protocol": PROTOCOL, "metaData": METADATA, "add": [ADD]}
    (other_base(table) / f"{1:020d}.checkpoint.json").write_text(json.dumps(document))


def json_lines(table: Path) -> None:
    lines = [{"protocol": PROTOCOL}, {"metaData": METADATA}, {"add": ADD}]
    (other_base(table) / f"{1:020d}.checkpoint.json").write_text("\n".join(map(json.dumps, lines)))


def json_parts(table: Path) -> None:
    log = other_base(table)
    parts = [[{"protocol": PROTOCOL}, {"metaData": METADATA}], [{"add": ADD}]]
    names = [f"{1:020d}.checkpoint.0123456789ab.{number:05d}.json" for number in (1, 2)]
    for name, lines in zip(names, parts, strict=True):
        (log / name).write_text("\n".join(map(json.dumps, lines)))
    (log / f"{1:020d}.checkpoint.json").write_text(json.dumps({"version": 1, "checkpointId": "0123456789ab", "parts": names}))


def parquet(table: Path) -> None:
    """The rows have no column for the configuration; the metadata file may contain it."""
    folder = other_base(table) / "_checkpoints"
    folder.mkdir()
    strings = pa.map_(pa.string(), pa.string())
    texts = dict.fromkeys(("path", "metadataId", "schemaString", "actionType"), pa.string())
    maps = dict.fromkeys(("partitionValues", "minValues", "maxValues", "format"), strings)
    schema = pa.schema({**texts, **maps, "size": pa.int64(), "partitionColumns": pa.list_(pa.string())})
    metadata = {"metadataId": "m", "schemaString": SCHEMA, "partitionColumns": ["d"], "format": [("provider", "x"), ("o", None)]}
    add = {"path": "a.split", "size": 1, **{name: list(ADD[name].items()) for name in maps if name in ADD}}  # type: ignore[attr-defined]
    found = [{**metadata, "actionType": "metadata"}, {**add, "actionType": "add"}]
    pq.write_table(pa.Table.from_pylist(found, schema=schema), folder / f"{1:020d}.checkpoint.parquet")
    (folder / f"{1:020d}.checkpoint.json").write_text(json.dumps({"version": 1, "size": 2, "metaData": METADATA}))


def nullable_maps() -> dict[str, Any]:
    strings = {"type": "map", "values": ["null", "string"]}
    fields = []
    for field in FILE_ENTRY["fields"]:
        name = field["name"]  # type: ignore[index]
        fields.append({"name": name, "type": strings} if name in ("partitionValues", "minValues", "maxValues") else field)
    return {**FILE_ENTRY, "fields": fields}


def state(form: str) -> Callable[[Path], None]:
    def written(table: Path) -> None:
        log = other_base(table)
        maps = {name: ADD[name] for name in ("partitionValues", "minValues", "maxValues")}
        write_manifest(log, "manifests/manifest-1.avro", [entry("a.split", **maps)], schema=nullable_maps())
        write_state(log, 1, {"manifests/manifest-1.avro": 1}, form=form, metadata=json.dumps({"metaData": METADATA}))

    return written


@pytest.mark.parametrize(
    "write",
    [version_file, json_object, json_lines, json_parts, parquet, state("avro"), state("json")],
    ids=["version", "JSON checkpoint", "JSON lines", "JSON parts", "Parquet checkpoint", "Avro state", "JSON state"],
)
def test_null_entries_of_maps_read_as_absent(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "t")
    table = it.open(tmp_path / "t")
    assert table.warnings == []
    (add,) = loaded(table).adds()
    assert (add.path, add.partition_values, add.min_values, add.max_values) == ("a.split", {}, {"y": "1"}, {"y": "2"})
    assert table.configuration == {"kept": "1"}
    assert table.metadata.format.options == {}
    assert table.files("d IS NULL").column("path").to_pylist() == ["a.split"]
    assert len(table.files("d = 'x'")) == 0


def test_an_invalid_value_is_refused_despite_null_entries(tmp_path: Path) -> None:
    write_version(tmp_path / "t", 0, {"protocol": PROTOCOL}, {"metaData": METADATA})
    write_version(tmp_path / "t", 1, {"add": {**ADD, "size": "1"}})
    with pytest.raises(LogCorrupted, match="version 1, line 1 is not an action"):
        it.open(tmp_path / "t")


@pytest.mark.parametrize("key", ["add", "remove", "metaData", "protocol", "txn", "mergeskip", "commitInfo"])
def test_a_null_action_is_log_corruption(tmp_path: Path, key: str) -> None:
    table = make(tmp_path / "t", appends=1)
    write_version(tmp_path / "t", 2, {key: None})
    with pytest.raises(LogCorrupted, match=f"version 2, line 1 has no action: '{key}' is null"):
        table.refresh()
    with pytest.raises(LogCorrupted, match=f"version 2, line 1 has no action: '{key}' is null"):
        it.open(tmp_path / "t")


FUTURE = {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": ["timeTravelled"], "writerFeatures": []}


def hostile_path(log: Path) -> None:
    write_version(log.parent, 2, {"protocol": FUTURE}, {"add": {**ADD, "path": "../other/a.split"}})


def other_add(log: Path) -> None:
    write_version(log.parent, 2, {"add": {"file": {"name": "a"}}}, {"protocol": FUTURE})


def later_version(log: Path) -> None:
    write_version(log.parent, 2, {"protocol": FUTURE})
    (log / f"{3:020d}.json").write_bytes(b"packed in another way")


def null_action(log: Path) -> None:
    write_version(log.parent, 2, {"protocol": FUTURE}, {"add": None})


def other_metadata(log: Path) -> None:
    metadata = {"id": "m", "schemaString": "a schema of tomorrow", "configuration": {"spark.indextables.merge.targetSize": "x"}}
    write_version(log.parent, 2, {"protocol": FUTURE}, {"metaData": metadata})


def no_metadata(log: Path) -> None:
    for file in log.glob("*.json"):
        file.unlink()
    write_version(log.parent, 0, {"protocol": FUTURE})


def other_checkpoint(log: Path) -> None:
    """A broken state whose earlier versions have expired."""
    hostile_path(log)
    folder = log / f"state-v{2:020d}"
    folder.mkdir()
    (folder / "_manifest.json").write_text('{"formatVersion":9}')
    (log / f"{1:020d}.json").unlink()


def json_checkpoint(log: Path) -> None:
    """A checkpoint that alone declares the unsupported protocol."""
    document = {"protocol": FUTURE, "metaData": METADATA, "add": [{"file": "a"}]}
    (log / f"{2:020d}.checkpoint.json").write_text(json.dumps(document))


def parts_of_a_checkpoint(log: Path) -> None:
    """Like `json_checkpoint`, but only a part of the checkpoint declares the protocol, and the add of another part is unreadable."""
    (log / f"{1:020d}.json").unlink()
    write_version(log.parent, 2, {"txn": {"appId": "a", "version": 1}})
    parts = [f"{2:020d}.checkpoint.abc.{number:05d}.json" for number in (1, 2)]
    (log / parts[0]).write_text(f"{json.dumps({'protocol': FUTURE})}\n{json.dumps({'metaData': METADATA})}\n")
    (log / parts[1]).write_text('{"add":{"file":"x"}}\n')
    (log / f"{2:020d}.checkpoint.json").write_text(json.dumps({"version": 2, "checkpointId": "abc", "parts": parts}))


def other_state(log: Path) -> None:
    """A state of a newer format, which alone declares the unsupported protocol."""
    (log / f"{1:020d}.json").unlink()
    (log / f"state-v{2:020d}").mkdir()
    (log / f"state-v{2:020d}" / "_manifest.json").write_text(json.dumps({"formatVersion": 2, "files": [], "protocol": FUTURE}))


def bad_gap(log: Path) -> None:
    write_version(log.parent, 2, {"protocol": FUTURE})
    (log / "_last_checkpoint").write_text('{"version":1}')
    (log / f"{4:020d}.json").write_text("")


@pytest.mark.parametrize(
    "harm",
    [
        hostile_path, other_add, later_version, null_action, other_metadata, no_metadata, other_checkpoint, json_checkpoint,
        parts_of_a_checkpoint, other_state, bad_gap,
    ],
)  # fmt: skip
def test_an_unsupported_protocol_is_reported_before_any_damage(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    table = make(tmp_path / "t", appends=1)
    harm(tmp_path / "t" / LOG)
    calls = (
        lambda: it.open(tmp_path / "t"),
        table.refresh,
        lambda: table.append(rows(100, 1)),
        table.doctor,
        lambda: it.repair(tmp_path / "t", tmp_path / "new"),
    )
    for call in calls:
        with pytest.raises(ProtocolUnsupported, match="timeTravelled"):
            call()
    assert not (tmp_path / "new").exists()
    # The history needs no protocol unless a version cannot be read.
    for by_time in (table.history, lambda: it.open(tmp_path / "t", timestamp=4_102_444_800_000)):
        with suppress(ProtocolUnsupported):
            by_time()
    if harm not in (no_metadata, other_checkpoint, parts_of_a_checkpoint, other_state):
        assert it.open(tmp_path / "t", 1).count() == 10  # the version before is still readable


@pytest.mark.parametrize("words", [["--version", "99"], ["--timestamp", "1970-01-02"]])
def test_a_version_that_an_unsupported_table_does_not_have_is_an_unsupported_protocol(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "t", appends=1)
    assert main(["count", str(tmp_path / "t"), *words]) == 1
    write_version(tmp_path / "t", 2, {"protocol": FUTURE})
    assert main(["count", str(tmp_path / "t"), *words]) == 78
    assert "timeTravelled" in capsys.readouterr().err


def test_an_error_does_not_blame_a_null(tmp_path: Path) -> None:
    """A null means absent; the error names the value that is wrong."""
    write_version(tmp_path / "t", 0, {"protocol": PROTOCOL}, {"metaData": {**METADATA, "name": None, "configuration": {"k": 7}}})
    with pytest.raises(LogCorrupted, match=r"Expected `str`, got `int` - at `\$\.metaData\.configuration"):
        it.open(tmp_path / "t")


def test_an_unsupported_writer_feature_is_reported_before_anything_else_by_every_verb_that_writes(tmp_path: Path) -> None:
    """The table is not partitioned, the predicate is malformed and the source is missing: all that is judged later."""
    table = make(tmp_path / "t", appends=1, partition_by=[])
    write_version(tmp_path / "t", 2, {"protocol": {**PROTOCOL, "minWriterVersion": 3, "writerFeatures": ["timeTravelled"]}})
    calls = (
        lambda: table.append([{"unknown": 1}]),
        lambda: table.overwrite(rows(0, 1), where="no predicate ("),
        lambda: table.drop_partitions("no predicate ("),
        lambda: table.merge_splits(where="no predicate ("),
        table.checkpoint,
        table.purge,
        table.truncate_history,
        lambda: it.repair(tmp_path / "t", tmp_path / "new"),
    )
    for call in calls:
        with pytest.raises(ProtocolUnsupported, match="timeTravelled"):
            call()
    for verb in ("append", "overwrite"):
        assert main([verb, str(tmp_path / "t"), str(tmp_path / "missing.csv")]) == 78
    write_version(tmp_path / "t", 3, {"add": None})
    with pytest.raises(ProtocolUnsupported, match="timeTravelled"):
        it.repair(tmp_path / "t", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "t" / LOG / f"{3:020d}.json").unlink()
    assert it.open(tmp_path / "t").count() == 10


def test_damage_of_a_supported_table_is_reported(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=1)
    write_version(tmp_path / "t", 2, {"protocol": PROTOCOL}, {"add": {"file": "a"}})
    with pytest.raises(LogCorrupted, match="version 2, line 2 is not an action"):
        it.open(tmp_path / "t")


def with_option(table: Path, key: str, value: str) -> it.Table:
    made = make(table, appends=2, partition_by=[])
    metadata = made.log.actions(0)[1]["metaData"]
    write_version(table, 3, {"metaData": {**metadata, "configuration": {key: value}}})
    return it.open(table)


@pytest.mark.parametrize(
    ("key", "value", "default"),
    [
        ("spark.indextables.merge.targetSize", "big", "the default '5G' is used"),
        ("CHECKPOINT.interval", "often", "the default '10' is used"),
        ("spark.indextables.logRetention.duration", "-1", "the default '2592000000' is used"),
        ("spark.indextables.state.format", "xml", "is used"),
        ("spark.indextables.indexing.typemap.message", "sound", "it is ignored"),
    ],
)
def test_a_bad_option_of_a_table_is_a_warning_and_a_finding(
    tmp_path: Path, key: str, value: str, default: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = with_option(tmp_path / "t", key, value)
    assert table.count() == len(table.scan().read_all()) == 20
    assert len(table.search("timeout").to_pylist()) > 0
    (warning,) = table.warnings
    assert f"= {value!r} is not " in warning
    assert default in warning
    (finding,) = table.doctor()
    assert (finding.code, str(finding.severity)) == ("bad-option", "warning")
    assert warning in finding.message
    assert table.health()["status"] == "warning"
    for dry_run in (True, False):
        with pytest.raises(it.ConfigError):
            table.merge_splits(dry_run=dry_run)
    assert main(["config", str(tmp_path / "t")]) == 0
    assert main(["describe", str(tmp_path / "t")]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("indexing.typemap.nosuch", "text", "names a column that the table does not have: 'nosuch'"),
        ("indexing.typemap.id", "ip", "is 'ip', which requires strings"),
        ("indexing.tokenizer.id", "en_stem", "requires a column indexed as text"),
        ("indexing.tokenizer.nosuch", "en_stem", "names a column that the table does not have: 'nosuch'"),
    ],
)
def test_a_table_option_that_does_not_fit_its_column_is_a_finding_and_does_not_stop_searches(
    tmp_path: Path, key: str, value: str, problem: str
) -> None:
    table = with_option(tmp_path / "t", f"spark.indextables.{key}", value)
    (warning,) = table.warnings
    assert warning.startswith(f"table configuration {key} {problem}")
    assert warning.endswith(": it is ignored")
    assert len(table.search("timeout").to_pylist()) > 0
    assert table.aggregate({"n": ("count", "*")}, query="timeout").to_pylist()[0]["n"] > 0
    (finding,) = table.doctor()
    assert (finding.code, str(finding.severity)) == ("bad-option", "warning")
    assert warning in finding.message
    assert table.health()["status"] == "warning"
    with pytest.raises(ConfigError, match=key):
        table.append(rows(100, 1))
    with pytest.raises(ConfigError, match=key):
        it.open(tmp_path / "t", options={key: value}).search("timeout")


def test_writes_and_purges_refuse_a_bad_table_option_unless_the_call_overrides_it(tmp_path: Path) -> None:
    table = with_option(tmp_path / "t", "spark.indextables.logRetention.duration", "forever")
    refused = r"table configuration logRetention\.duration = 'forever' is not .*; pass logRetention\.duration as an option of this call"
    for call in (lambda: table.append(rows(100, 1)), table.merge_splits, table.purge):
        with pytest.raises(ConfigError, match=refused):
            call()
    report = table.checkpoint()  # deletes nothing, because the invalid retention may be meant to be longer than the default
    assert any("logRetention.duration = 'forever'" in warning for warning in report.warnings)
    good = it.open(tmp_path / "t", options={"logRetention.duration": "1000"})
    assert good.warnings == []
    assert good.doctor() == []
    good.append(rows(100, 1))
