"""Multi-part JSON checkpoints of other programs (MPC)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import indextables as it
from tests.support.logs import add, lines, log_folder, metadata, paths, protocol, skip
from tests.support.tables import write_version

UUID = "0123456789ab"


def part_name(number: int, version: int = 3, unique: str = UUID) -> str:
    return f"{version:020d}.checkpoint.{unique}.{number:05d}.json"


def write_parts(log: Path, names: list[str], *, prefix: bytes = b"") -> None:
    texts = [lines(protocol(3, 3), metadata(), add("a")), lines(add("b"), add("c"), skip("c", skipCount=2))]
    for name, text in zip([part_name(1), part_name(2)], texts, strict=True):
        (log / name).write_bytes(prefix + gzip.compress(text))
    manifest = {"version": 3, "checkpointId": UUID, "parts": names, "createdTime": 1, "format": "json-multipart"}
    (log / f"{3:020d}.checkpoint.json").write_text(json.dumps(manifest))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_version(tmp_path, 0, protocol(3, 3), metadata())
    write_version(tmp_path, 4, add("d"))
    return log_folder(tmp_path)


@pytest.mark.parametrize("prefix", [b"", b"\x01\x01"])
def test_parts_are_one_checkpoint(log: Path, tmp_path: Path, prefix: bytes) -> None:
    write_parts(log, [part_name(1), part_name(2)], prefix=prefix)
    table = it.open(tmp_path)
    assert (table.version, paths(table)) == (4, ["a", "b", "c", "d"])
    assert table._snapshot.skips["c"].count == 2


@pytest.mark.parametrize(
    "names",
    [
        [],
        [part_name(1), part_name(3)],
        [part_name(1), part_name(1)],
        [part_name(1), part_name(2, version=4)],
        [part_name(1), f"{3:020d}.json"],
        [part_name(2)],  # has no metadata
    ],
)
def test_a_list_of_wrong_parts_is_a_broken_checkpoint(log: Path, tmp_path: Path, names: list[str]) -> None:
    write_parts(log, names)
    with pytest.raises(it.LogCorrupted, match="broken checkpoints: 3"):
        it.open(tmp_path)


def test_with_a_damaged_part_the_version_files_are_read(log: Path, tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write_version(tmp_path, version, add(f"f{version}"))
    write_parts(log, [part_name(1), part_name(2)])
    (log / part_name(2)).write_bytes(b"\x1f\x8b")
    assert paths(it.open(tmp_path)) == ["d", "f1", "f2", "f3"]


def test_parts_without_a_list_are_ignored(log: Path, tmp_path: Path) -> None:
    write_parts(log, [part_name(1), part_name(2)])
    (log / f"{3:020d}.checkpoint.json").unlink()
    (log / f"{4:020d}.json").unlink()
    assert (it.open(tmp_path).version, paths(it.open(tmp_path))) == (0, [])
