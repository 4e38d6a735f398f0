"""The bytes of a split match the docstring of bundle.py, and every field of its `add` matches the file (ACT-06, ACT-07)."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.actions import Add
from indextables.splits.index.schema import open_searcher
from tests.support.loading import loaded
from tests.support.splits import write_logs

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("late", pa.timestamp("us")),
        ("m", pa.string()),
        ("f", pa.float64()),
    ]
)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "day": f"d/{n % 2}",
            "ts": EPOCH + timedelta(hours=n) if n % 5 else None,
            "late": None,
            "m": f"word{n} {'x' * 40}",
            "f": n / 4,
        }
        for n in range(first, first + count)
    ]


class IndependentReader:
    """Reads a split using only what the docstring of bundle.py says."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (hot,) = struct.unpack_from("<I", data, len(data) - 4)
        self.hotcache_start = len(data) - 4 - hot
        (bundle,) = struct.unpack_from("<I", data, self.hotcache_start - 4)
        self.footer_start = self.hotcache_start - 4 - bundle
        assert struct.unpack_from("<II", data, self.footer_start) == (403_881_646, 1)
        self.listing = data[self.footer_start : self.hotcache_start - 4]
        self.files = {name: data[at["start"] : at["end"]] for name, at in json.loads(self.listing[8:])["files"].items()}
        document = data[self.hotcache_start : len(data) - 4]
        opening = b'{"crc32":"%s","content":' % document[10:18]
        assert document.startswith(opening)
        content = document[len(opening) : -1]
        assert f"{zlib.crc32(content):08x}".encode() == document[10:18]
        self.hotcache = json.loads(content)

    def table(self) -> pa.Table:
        return pa.ipc.open_file(self.files["rows.arrow"]).read_all()


def check_add(add: Add, folder: Path) -> IndependentReader:
    """Compare every field that describes the file with the file."""
    data = (folder / add.path).read_bytes()
    split = IndependentReader(data)
    assert add.size == add.footer_end_offset == len(data)
    assert add.footer_start_offset == add.uncompressed_size_bytes == split.footer_start
    assert (add.hotcache_start_offset, add.hotcache_length) == (split.hotcache_start, len(data) - 4 - split.hotcache_start)
    assert add.has_footer_offsets is True
    found = split.table()
    assert add.num_records == found.num_rows == split.hotcache["numRecords"]
    assert json.loads(add.doc_mapping_json) == json.loads(split.hotcache["docMapping"])
    stamps = [value for value in found.column("ts").to_pylist() if value is not None]
    assert add.time_range_start == min(stamps).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert add.time_range_end == max(stamps).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    ids = found.column("id").to_pylist()
    assert (add.min_values["id"], add.max_values["id"]) == (str(min(ids)), str(max(ids)))
    words = found.column("m").to_pylist()
    assert add.min_values["m"] == min(words)[:32]
    assert max(words) <= add.max_values["m"]
    assert len(add.max_values["m"]) <= 32
    assert "late" not in add.min_values
    assert set(found.column("day").to_pylist()) == {add.partition_values["day"]}
    return split


def test_the_adds_of_writes_and_merges_match_the_files(tmp_path: Path) -> None:
    table = it.create(tmp_path / "t", SCHEMA, partition_by=["day"])
    for first in (0, 1000, 5000):
        table.append(rows(first, 1000))
    adds = list(loaded(table).adds())
    assert len(adds) == 6
    for add in adds:
        check_add(add, tmp_path / "t")
        assert (add.num_merge_ops, add.data_change) == (0, True)
        assert add.path.startswith(f"day={add.partition_values['day'].replace('/', '%2F')}/splits/split-")
    table.merge_splits()
    merged = list(loaded(table).adds())
    assert len(merged) == 2
    for add in merged:
        check_add(add, tmp_path / "t")
        assert (add.num_merge_ops, add.data_change, add.num_records) == (1, False, 1500)
    table.append(rows(9000, 10))
    table.merge_splits()
    assert {add.num_merge_ops for add in loaded(table).adds()} == {2}


def test_an_unpartitioned_split_is_in_the_splits_folder(tmp_path: Path) -> None:
    """LOG-13."""
    table = it.create(tmp_path / "t", SCHEMA)
    table.append(rows(0, 3))
    (path,) = table.files().column("path").to_pylist()
    assert Path(path).parent == Path("splits")
    assert Path(path).name.startswith("split-")


def test_checksums_of_blocks_and_sections(tmp_path: Path) -> None:
    write_logs(tmp_path / "a.split", 30_000)
    split = IndependentReader((tmp_path / "a.split").read_bytes())
    hot = split.hotcache
    assert hot["bundleCrc32"] == zlib.crc32(split.listing)
    assert hot["files"] == {name: zlib.crc32(data) for name, data in split.files.items()}
    index = {name: data for name, data in split.files.items() if name != "rows.arrow"}
    size = hot["blockBytes"]
    assert hot["blocks"] == {name: [zlib.crc32(data[at : at + size]) for at in range(0, len(data), size)] for name, data in index.items()}
    assert max(map(len, hot["blocks"].values())) > 1
    rows_file = split.files["rows.arrow"]
    starts = [0, *hot["rowStore"]["ends"]]
    assert hot["rowStore"]["crc32"] == [zlib.crc32(rows_file[a:b]) for a, b in pairwise(starts)]
    assert len(hot["rowStore"]["ends"]) == 2 + -(-30_000 // hot["rowStore"]["batchRows"])


def test_opening_reads_only_the_tails(tmp_path: Path) -> None:
    """An index whose files contain nothing but their tails opens."""
    write_logs(tmp_path / "a.split", 30_000)
    split = IndependentReader((tmp_path / "a.split").read_bytes())
    tails = {name: base64.b64decode(text) for name, text in split.hotcache["tails"].items()}
    assert tails.keys() == split.files.keys()
    assert tails["meta.json"] == split.files["meta.json"]
    folder = tmp_path / "index"
    folder.mkdir()
    for name, data in split.files.items():
        assert data.endswith(tails[name])
        if name != "rows.arrow":
            (folder / name).write_bytes(bytes(len(data) - len(tails[name])) + tails[name])
    searcher = open_searcher(folder)
    assert searcher.num_docs == 30_000
    kept = sum(map(len, tails.values()))
    assert kept < 0.05 * split.footer_start
    footer = tails["rows.arrow"]
    holes = bytes(len(split.files["rows.arrow"]) - len(footer)) + footer
    assert pa.ipc.open_file(holes).num_record_batches == 30


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_rows_use_the_configured_compression(tmp_path: Path, compression: str) -> None:
    table = it.create(tmp_path / "t", SCHEMA, options={"split.rowStore.compression": compression})
    table.append(rows(0, 2000))
    table.append(rows(2000, 2000))
    table.merge_splits()
    (add,) = loaded(table).adds()
    split = IndependentReader((tmp_path / "t" / add.path).read_bytes())
    magic = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}
    assert magic[compression] in split.files["rows.arrow"]
    assert not any(other in split.files["rows.arrow"] for name, other in magic.items() if name != compression)
    assert sorted(split.table().column("id").to_pylist()) == list(range(4000))
