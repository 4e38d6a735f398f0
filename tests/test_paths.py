"""Hostile paths are refused on construction (R13)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from indextables.errors import ConfigError, InvalidArgument, UnsafePath
from indextables.paths import TableRoot, check_relative, is_our_split, partition_folder, split_path

ROOT = TableRoot("/data/t")
HOSTILE = [
    "../x", "..", ".", "", "/etc/passwd", "a/../b", "a/../../b", "a//b", "./a", "a/.", "a/",
    "/data/tx/a.split", "/data/t/../x", "file:///etc/passwd", "s3://bucket/x", "hdfs://h/x", "%2e%2e/x", "%2E%2E/%2e%2e/x",
    "%252e%252e/x", "a/%2e%2e%2fb", "..%2fx", "%2fetc/passwd", "a\0b", "a\nb", "a\\..\\b", "..\\x", "\x7f", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_paths_are_refused(path: str) -> None:
    with pytest.raises(UnsafePath):
        ROOT.relative(path)


@pytest.mark.parametrize(
    ("logged", "relative"),
    [
        ("splits/a.split", "splits/a.split"),
        ("/data/t/splits/a.split", "splits/a.split"),
        ("file:/data/t/a.split", "a.split"),
        ("file:///data/t/a.split", "a.split"),
        ("date=2024-01-01/part-0.split", "date=2024-01-01/part-0.split"),
        ("p=a%2Fb/x.split", "p=a%2Fb/x.split"),
        ("p=..%2Fx/x.split", "p=..%2Fx/x.split"),
        ("..a/x...split", "..a/x...split"),
        ("p=ü 100%/x.split", "p=ü 100%/x.split"),
    ],
)
def test_plain_paths_are_taken_literally(logged: str, relative: str) -> None:
    assert ROOT.relative(logged) == relative


@pytest.mark.parametrize(
    "value", ["a/b", "..", "../..", "a=b", "50%", "x:y", "ü", " ", "a\nb", "'quoted'", "[1]", "{x}", "a\\b", "*?", "^"]
)
def test_partition_values_give_safe_folder_names(value: str) -> None:
    path = split_path([partition_folder("p", value)], "0b0e0a00-0000-4000-8000-000000000001")
    assert check_relative(path) == path
    assert path.count("/") == 2
    assert is_our_split(path)


def test_null_partitions_have_the_name_that_hive_uses() -> None:
    assert partition_folder("p", None) == "p=__HIVE_DEFAULT_PARTITION__"


FOREIGN = [
    "x.split",
    "splits/split-1.split",
    "splits/other-0b0e0a00-0000-4000-8000-000000000001.split",
    "a/splits/split-0b0e0a00-0000-4000-8000-000000000001.split",
    "splits/split-0b0e0a00-0000-4000-8000-000000000001.split\n",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_names_of_other_writers_are_not_our_splits(name: str) -> None:
    assert not is_our_split(name)


def test_table_roots_are_absolute_and_bad_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert TableRoot.parse("t").path == os.path.join(tmp_path, "t")
    assert TableRoot.parse(Path("t")).path == TableRoot.parse("./t/").path
    assert TableRoot.parse(f"file://{tmp_path}/t").path == f"{tmp_path}/t"
    for bad in ("", "a\0b", "ftp:host/x", "s3://", "s3:///key"):
        with pytest.raises((InvalidArgument, ConfigError)):
            TableRoot.parse(bad)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("s3a://b/t/", "s3://b/t"),
        ("S3N://b/a/t", "s3://b/a/t"),
        ("gcs://b/t", "gs://b/t"),
        ("wasbs://c@a.blob.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("memory:///x", "memory://x"),
        ("hdfs://h:8020/t", "hdfs://h:8020/t"),
    ],
)
def test_addresses_of_the_same_store_are_normalised(given: str, shown: str) -> None:
    root = TableRoot.parse(given)
    assert str(root) == shown
    assert TableRoot.parse(str(root)) == root
    assert root.relative(shown + "/splits/a.split") == root.relative("splits/a.split") == "splits/a.split"


@pytest.mark.parametrize(
    "path",
    [*HOSTILE, "s3://other/t/a.split", "s3://b/tx/a.split", "s3://b/t/../x", "/b/t/a.split", "file:///b/t/a.split", "gs://b/t/a.split"],
)
def test_hostile_paths_are_refused_in_buckets_too(path: str) -> None:
    with pytest.raises(UnsafePath):
        TableRoot.parse("s3a://b/t").relative(path)


@pytest.mark.parametrize("given", [None, 3, b"/t", "", "a\0b", ["t"]])
def test_values_that_are_not_paths_are_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not a path"):
        TableRoot.parse(given)
