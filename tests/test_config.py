"""Options: all in one table, with a stated precedence; errors name the option."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import indextables
from indextables.config import KEYS, PREFIX, TYPEMAP_PREFIX, Config, checked_options, environment_name, parse_duration, parse_size
from indextables.errors import ConfigError, InvalidArgument
from tests.support.tables import make, rows, tree, write_version


def test_every_key_has_a_default_that_parses() -> None:
    for key in KEYS:
        assert key.kind.parse(key.default) is not None
        assert key.meaning


SEEDS = {
    "checkpoint.enabled": True, "checkpoint.interval": 10, "checkpoint.retention": 30, "checkpoint.compression": "snappy",
    "checkpoint.maxFileSize": 134_217_728, "checkpoint.parallelism": 4, "checkpoint.read.timeoutSeconds": 30,
    "logRetention.duration": 2_592_000_000, "checkpointRetention.duration": 7_200_000, "cleanup.enabled": True,
    "cleanup.failurePolicy": "continue", "cleanup.dryRun": False, "transaction.useOptimized": True, "transaction.cache.enabled": True,
    "transaction.cache.expirationSeconds": 300, "transaction.compression.enabled": True, "transaction.retry.maxAttempts": 10,
    "transaction.retry.baseDelayMs": 100, "transaction.retry.maxDelayMs": 5000, "state.format": "avro", "state.compression": "zstd",
    "state.compressionLevel": 3, "state.entriesPerManifest": 50_000, "state.read.parallelism": 8, "state.schema.renormalizeThreshold": 5,
    "state.compaction.tombstoneThreshold": 0.10, "state.compaction.maxManifests": 20,
    "state.compaction.largeRemoveThreshold": 2_147_483_647, "state.compaction.afterMerge": True, "state.retention.versions": 2,
    "state.retention.hours": 168, "state.gc.minManifestAgeHours": 1, "purge.txLogRetentionHours": 720, "stats.truncation.maxLength": 32,
}  # fmt: skip


def test_defaults_of_the_seeds() -> None:
    """CFG-01 … CFG-34."""
    assert len(SEEDS) == 34
    assert {name: Config.of().get(name) for name in SEEDS} == SEEDS


def test_every_key_is_used() -> None:
    """Somewhere outside the table of keys."""
    sources = [path.read_text() for path in Path(indextables.__file__).parent.rglob("*.py") if path.name != "config.py"]
    assert [key.name for key in KEYS if not any(f'"{key.name}"' in source for source in sources)] == []


@pytest.mark.parametrize("options", [[("checkpoint.interval", "1")], "checkpoint.interval=1", {1: 2}, {None: "x"}])
def test_options_that_are_not_a_mapping_of_names_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError):
        Config.of(options)


def test_precedence_is_call_environment_table_default(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {PREFIX + "merge.targetSize": "2M", "spark.other": "x", "delta.something": "y"}
    assert Config.of().get("merge.targetSize") == 5 * 2**30
    assert Config.of(None, table).get("merge.targetSize") == 2 * 2**20
    monkeypatch.setenv("INDEXTABLES_MERGE_TARGET_SIZE", "3M")
    assert Config.of(None, table).get("merge.targetSize") == 3 * 2**20
    assert Config.of({"MERGE.targetsize": "4M"}, table).get("merge.targetSize") == 4 * 2**20


def test_keys_are_case_insensitive_but_columns_are_not() -> None:
    options = checked_options(
        {"Spark.IndexTables.Merge.TargetSize": "7M", "INDEXING.TYPEMAP.MyColumn": "string", "purge.retentionCheckEnabled": False}
    )
    assert options == {"merge.targetSize": "7M", "indexing.typemap.MyColumn": "string", "purge.retentionCheckEnabled": "false"}
    assert Config.of(options).of_columns(TYPEMAP_PREFIX) == {"MyColumn": "string"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("merge.target", "1G"), ("", "x"), ("indexing.typemap.", "x"), ("merge.targetSize", "1K"), ("merge.targetSize", "big"),
     ("transaction.retry.maxAttempts", "0"), ("transaction.retry.maxAttempts", "1.5"), ("transaction.compression.enabled", "yes")],
)  # fmt: skip
def test_errors_name_unknown_keys_and_bad_values(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_options({key: value})
    assert repr(value if key in {k.name for k in KEYS} else key) in str(caught.value)


def test_an_error_names_the_bad_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment_name("transaction.retry.maxAttempts"), "many")
    with pytest.raises(ConfigError, match=r"environment transaction\.retry\.maxAttempts = 'many'"):
        Config.of().get("transaction.retry.maxAttempts")


@pytest.mark.parametrize(
    ("text", "size"), [("100M", 100 * 2**20), ("1.5g", 3 * 2**29), ("4096", 4096), ("1 KiB", 1024), (7, 7), ("2TB", 2 * 2**40)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1M", "1X", "1e3", "ten", -1, True, None, "1M; rm"])
def test_bad_sizes(text: object) -> None:
    with pytest.raises(InvalidArgument, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("7d", 604_800_000), ("36h", 129_600_000), ("1.5s", 1500), ("0s", 0), ("1W", 604_800_000), ("5 m", 300_000), ("9ms", 9)],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "7", "-1d", "d", "1y", "7 days", None, 7])
def test_bad_durations(text: object) -> None:
    with pytest.raises(InvalidArgument, match="is not a duration"):
        parse_duration(text)


def test_a_bad_value_in_the_environment_is_refused_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not the verb uses the option."""
    table = make(tmp_path / "t")
    before = tree(tmp_path)
    monkeypatch.setenv("INDEXTABLES_CHECKPOINT_INTERVAL", "often")
    for call in (lambda: table.append(rows(0, 3)), lambda: indextables.open(tmp_path / "t")):
        with pytest.raises(ConfigError, match=r"environment checkpoint\.interval = 'often' is not a whole number"):
            call()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("key", ["checkpoint.interval", "mergeOnWrite.enabled", "transaction.retry.maxAttempts"])
def test_a_bad_value_in_the_table_configuration_is_refused_before_rows_are_written(tmp_path: Path, key: str) -> None:
    """Another program must have written it. An option of the call overrides it, and reads ignore it."""
    table = make(tmp_path / "t", partition_by=[])
    metadata = table.log.actions(0)[1]["metaData"]
    write_version(tmp_path / "t", 1, {"metaData": {**metadata, "configuration": {PREFIX + key: "x"}}})
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match=f"table configuration {key} = 'x' is not "):
        indextables.open(tmp_path / "t").append(rows(0, 3))
    assert tree(tmp_path) == before
    assert indextables.open(tmp_path / "t").count() == 0
    default = next(known.default for known in KEYS if known.name == key)
    assert indextables.open(tmp_path / "t", options={key: default}).append(rows(0, 3)).warnings == []


@pytest.mark.parametrize("name", ["INDEXTABLES_TRANSACTION_RETRY_MAX_ATTEMPTS", "INDEXTABLES_TRANSACTION_RETRY_MAXATTEMPTS"])
def test_variable_names_with_and_without_underscores_within_words(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "3")
    assert Config.of().get("transaction.retry.maxAttempts") == 3
    monkeypatch.setenv(name, "often")
    with pytest.raises(ConfigError, match=r"environment transaction\.retry\.maxAttempts = 'often'"):
        Config.of()


def test_the_table_configuration_cannot_set_how_its_store_is_reached() -> None:
    """Otherwise anyone who can write the log could redirect readers, and their credentials, to another host."""
    config = Config.of(table={f"{PREFIX}s3.endpoint": "http://elsewhere", f"{PREFIX}storage.singleWriter": "true"})
    assert (config.get("s3.endpoint"), config.get("storage.singleWriter")) == ("", False)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("checkpoint.intervall", "checkpoint.interval"), ("spark.indextables.Chekpoint_interval", "checkpoint.interval"),
     ("maxAttempts", "transaction.retry.maxAttempts"), ("indexing.typmap.message", "indexing.typemap.<column>")],
)  # fmt: skip
def test_an_unknown_key_is_refused_with_the_closest_known_one(key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"unknown option {key!r}, did you mean {meant!r}?")):
        Config.of({key: "1"})


@pytest.mark.parametrize("key", ["indexing.typemap.message", "indexing.tokenizer.message"])
def test_values_of_column_options_are_checked_without_a_schema(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"option {key} = 'klingon' is not one of \w+, \w+, "):
        Config.of({key: "klingon"})


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_CHECKPOINT_INTERVAL", "")
    assert Config.of().get("checkpoint.interval") == 10
    monkeypatch.setenv("INDEXTABLES_CHECKPOINT_INTERVAL", "7")
    assert Config.of().get("checkpoint.interval") == 7
