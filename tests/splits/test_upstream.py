"""Splits in upstream's format: rows, searches, take-over, and hostile files (R13, R14)."""

from __future__ import annotations

import json
import logging
import random
import struct
import subprocess
import threading
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.process_cache import ProcessCache
from indextables.splits.foreign import worker as upstream_worker
from tests.support.loading import loaded
from tests.support.logs import metadata, protocol
from tests.support.seeds import random_seed
from tests.support.tables import tree, write_version
from tests.support.upstream import SCHEMA_JSON, Files, bundle, index_files, make_upstream_table, upstream_rows

ROWS = upstream_rows(12)


@pytest.fixture(scope="module")
def files() -> Files:
    return index_files(ROWS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def sorted_rows(table: it.Table) -> list[dict[str, Any]]:
    return table.scan().read_all().sort_by("id").to_pylist()


def test_rows_counts_and_searches(tmp_path: Path, cache: Path, files: Files, caplog: pytest.LogCaptureFixture) -> None:
    path = make_upstream_table(tmp_path / "t", [(bundle(files), 12)])
    before = tree(path)
    table = it.open(path)
    with caplog.at_level(logging.WARNING, "indextables"):
        assert sorted_rows(table) == ROWS
    assert [record.message for record in caplog.records if "translated into the cache" in record.message and str(cache) in record.message]
    caplog.clear()
    assert table.count("id >= 10") == 2
    assert table.count("tags IS NULL") == 0
    assert table.search("refused", limit=20).num_rows == 6
    assert table.search('"timed out"', where="id < 4", limit=20).num_rows == 2
    assert not caplog.records
    assert len(list(cache.rglob("*.split"))) == 1
    assert tree(path) == before


def test_a_split_is_decoded_once_and_cached_atomically(tmp_path: Path, cache: Path, files: Files) -> None:
    path = make_upstream_table(tmp_path / "t", [(bundle(files), 12)])
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(it.open(path).search("refused", limit=20).num_rows)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [6] * 4
    (cached,) = [file for file in cache.rglob("*") if file.is_file()]
    assert cached.suffix == ".split"
    before = cached.stat()
    assert it.open(path).count("id = 3") == 1
    assert (cached.stat().st_ino, cached.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns), "a new one would be another file"


def test_deleted_documents_stay_deleted(tmp_path: Path, cache: Path) -> None:
    path = make_upstream_table(tmp_path / "t", [(bundle(index_files(ROWS, deleted=5)), 11)])
    assert [row["id"] for row in sorted_rows(it.open(path))] == [n for n in range(12) if n != 5]


def test_decimals_of_38_digits(tmp_path: Path, cache: Path) -> None:
    numbers = ["9999999999999999999999999999.9999999999", "-1.5", "1e27"]
    files = index_files([{"id": n, "text": number, "tags": []} for n, number in enumerate(numbers)])
    path = make_upstream_table(tmp_path / "t", [(bundle(files), 3)])
    write_version(
        path, 0, protocol(4, 4), metadata(schemaString=SCHEMA_JSON.replace('"text", "type": "string"', '"text", "type": "decimal(38,10)"'))
    )
    assert [row["text"] for row in sorted_rows(it.open(path))] == [Decimal(number) for number in numbers]


def test_decimal_partitions_of_foreign_tables_are_counted_exactly(tmp_path: Path, cache: Path, files: Files) -> None:
    """They are not used for pruning, so that a count reads the rows and not only the log."""
    path = make_upstream_table(tmp_path / "t", [(bundle(files), 12)])
    fields = json.loads(SCHEMA_JSON)
    fields["fields"].append({"name": "p", "type": "decimal(5,2)", "nullable": True, "metadata": {}})
    write_version(path, 0, protocol(4, 4), metadata(schemaString=json.dumps(fields), partitionColumns=["p"]))
    table = it.open(path)
    assert (table.count("p = 1.1"), table.count("p IS NULL")) == (0, 12)


def test_one_merge_converts_a_table(tmp_path: Path, cache: Path) -> None:
    """A-06: every upstream split is a source, even a single one or one above the size threshold."""
    path = make_upstream_table(tmp_path / "t", [(bundle(index_files(ROWS[:5])), 5), (bundle(index_files(ROWS[5:])), 7)])
    with pytest.raises(it.ProtocolUnsupported, match="takeOver"):
        it.open(path).merge_splits()
    table = it.open(path, options={"storage.takeOver": True})
    plan = table.merge_splits("1M", dry_run=True).to_dict()["plan"]
    assert [group["rows"] for group in plan] == [12]
    report = table.merge_splits("1M")
    assert (report.metrics["files_removed"], report.metrics["rows"]) == (2, 12)
    again = it.open(path)
    assert sorted_rows(again) == ROWS
    assert again.search("refused", limit=20).num_rows == 6
    assert again.protocol.reader_features == ["arrowRowStore", "schemaDeduplication"]
    (add,) = loaded(again).adds()
    assert (add.min_values["id"], add.max_values["id"], add.num_merge_ops, add.data_change) == ("0", "11", 1, False)
    assert not list(cache.rglob("*.split"))
    assert it.open(path, options={"storage.takeOver": True}).merge_splits("1M").to_dict()["status"] == "no_action"
    again.append([{"id": 99, "text": "ours", "tags": None}])
    assert again.count() == 13


def test_a_single_large_split_is_converted(tmp_path: Path, cache: Path) -> None:
    path = make_upstream_table(tmp_path / "t", [(bundle(index_files(ROWS)), 12)])
    report = it.open(path, options={"storage.takeOver": True, "merge.skipSplitThreshold": "0"}).merge_splits("1M")
    assert report.metrics["files_removed"] == 1
    assert sorted_rows(it.open(path)) == ROWS


# --- hostile splits


def resealed(files: Files, extension: str, change: Callable[[bytes], bytes]) -> Files:
    """An index with one modified file whose tantivy checksum matches."""
    name = next(name for name in files if name.endswith(extension))
    data = files[name]
    length, magic = struct.unpack("<II", data[-8:])
    footer = json.loads(data[-8 - length : -8])
    body = change(data[: -8 - length])
    text = json.dumps({**footer, "crc": zlib.crc32(body)}).encode()
    return {**files, name: body + text + struct.pack("<II", len(text), magic)}


def with_meta(files: Files, change: Callable[[dict[str, Any]], None]) -> Files:
    meta = json.loads(files["meta.json"])
    change(meta)
    return {**files, "meta.json": json.dumps(meta).encode()}


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    return lambda ranges: ranges.update({new: ranges.pop(next(name for name in ranges if name.endswith(old)))})


HOSTILE_NAMES = (
    "../evil", "/etc/passwd", "..", ".", "", "a/b", "meta.json/../../x", "\0", "%2e%2e/evil", "C:\\x", "rows.arrow", "~root", "a" * 5000,
    "CON", "..\\evil", "meta.json\n", "\u202emeta.json", "….idx", "0" * 32 + ".idx/../x", "0" * 33 + ".idx",
)  # fmt: skip

HOSTILE: dict[str, Callable[[Files], bytes]] = {
    "a range beyond the file": lambda files: bundle(files, alter=lambda places: places["meta.json"].update(end=10**15)),
    "a negative range": lambda files: bundle(files, alter=lambda places: places["meta.json"].update(start=-5)),
    "a range whose start is after its end": lambda files: bundle(
        files, alter=lambda places: places["meta.json"].update(start=places["meta.json"]["end"] + 1)
    ),
    "files that overlap": lambda files: bundle(files, alter=lambda places: [place.update(start=0) for place in places.values()]),
    "no files": lambda files: bundle({}),
    "no meta.json": lambda files: bundle({name: data for name, data in files.items() if name != "meta.json"}),
    "no store": lambda files: bundle({name: data for name, data in files.items() if not name.endswith(".store")}),
    "no terms": lambda files: bundle({name: data for name, data in files.items() if not name.endswith(".term")}),
    "an invalid meta.json": lambda files: bundle({**files, "meta.json": b"[" * 100_000}),
    "no segments": lambda files: bundle(with_meta(files, lambda meta: meta.update(segments=[]))),
    "one segment twice": lambda files: bundle(with_meta(files, lambda meta: meta.update(segments=meta["segments"] * 2))),
    "more documents than there are": lambda files: bundle(with_meta(files, lambda meta: meta["segments"][0].update(max_doc=13))),
    "four billion documents": lambda files: bundle(with_meta(files, lambda meta: meta["segments"][0].update(max_doc=2**32 - 1))),
    "fewer documents than there are": lambda files: bundle(with_meta(files, lambda meta: meta["segments"][0].update(max_doc=11))),
    "deletions without a deletion file": lambda files: bundle(
        with_meta(files, lambda meta: meta["segments"][0].update(deletes={"num_deleted_docs": 1, "opstamp": 7}))
    ),
    "a missing column": lambda files: bundle(with_meta(files, lambda meta: meta["schema"].pop())),
    "a column of another type": lambda files: bundle(with_meta(files, lambda meta: meta["schema"][0].update(type="f64"))),
    "a column of another name": lambda files: bundle(with_meta(files, lambda meta: meta["schema"][1].update(name="texU"))),
    "a store of zeros, sealed": lambda files: bundle(resealed(files, ".store", lambda body: bytes(len(body)))),
    "a store of ones, sealed": lambda files: bundle(resealed(files, ".store", lambda body: b"\xff" * len(body))),
    "an empty store, sealed": lambda files: bundle(resealed(files, ".store", lambda body: b"")),
    "a store with huge values in its tail, sealed": lambda files: bundle(resealed(files, ".store", lambda body: body[:-24] + b"\x7f" * 24)),
    "fast fields of ones, sealed": lambda files: bundle(resealed(files, ".fast", lambda body: b"\xff" * len(body))),
    "terms of ones, sealed": lambda files: bundle(resealed(files, ".term", lambda body: b"\xff" * len(body))),
    "a store that was changed": lambda files: bundle({n: d[:9] + b"!" + d[10:] if n.endswith(".store") else d for n, d in files.items()}),
    "a store that was cut": lambda files: bundle({n: d[:-1] if n.endswith(".store") else d for n, d in files.items()}),
    "nothing but a footer": lambda files: struct.pack("<II", 0, 0),
    "a hotcache that is longer than the file": lambda files: bundle(files)[:-4] + struct.pack("<I", 2**31),
    "the start of our hotcache": lambda files: bundle(files, hotcache=b'{"crc32":"00000000","content":{}}'),
}


def refusal(tmp_path: Path, data: bytes) -> str:
    path = make_upstream_table(tmp_path / "t", [(data, 12)])
    before = tree(tmp_path)
    with pytest.raises(SplitCorrupted) as caught:
        it.open(path).scan().read_all()
    with pytest.raises(SplitCorrupted):
        it.open(path).search("refused")
    after = {name: facts for name, facts in tree(tmp_path).items() if not name.startswith("cache")}
    assert after == {name: facts for name, facts in before.items() if not name.startswith("cache")}
    return str(caught.value)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_splits_are_refused(tmp_path: Path, cache: Path, files: Files, case: str) -> None:
    """R14: whatever the file contains, this process survives and raises an error that names the file."""
    assert "part-00000.split" in refusal(tmp_path, HOSTILE[case](files))
    assert len(HOSTILE) >= 25


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_are_refused(tmp_path: Path, cache: Path, files: Files, name: str) -> None:
    """R13 for the names of files in a bundle: they would become paths."""
    assert "contains a file named" in refusal(tmp_path, bundle(files, alter=renamed(".idx", name)))


def test_a_valid_split_is_decoded_after_a_hostile_one(tmp_path: Path, cache: Path, files: Files) -> None:
    """If the decoding process dies, the next job gets a new one."""
    bad = HOSTILE["a store of zeros, sealed"](files)
    path = make_upstream_table(tmp_path / "t", [(bad, 12), (bundle(files), 12)])
    for _ in range(2):
        with pytest.raises(SplitCorrupted):
            it.open(path).scan().read_all()
        assert it.open(make_upstream_table(tmp_path / "good", [(bundle(files), 12)])).count("id < 6") == 6
    assert it.open(path).verify() == []  # the checksums match
    report = it.open(path, options={"storage.takeOver": True}).merge_splits()
    assert (report.to_dict()["status"], report.metrics["files_removed"], report.metrics["files_skipped"]) == ("partial", 1, 1)
    assert it.open(path).count() == 24


def test_verify_reports_damaged_upstream_splits(tmp_path: Path, cache: Path, files: Files) -> None:
    good, changed = bundle(files), HOSTILE["a store that was changed"](files)
    path = make_upstream_table(tmp_path / "t", [(good, 12), (changed, 12), (good, 13)])
    findings = it.open(path).verify()
    assert sorted((finding.code, "part-0000" in finding.message) for finding in findings) == [
        ("damaged-split", True),
        ("split-differs", True),
    ]


def test_a_process_that_does_not_answer_is_killed(tmp_path: Path, cache: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_SECONDS", 0.05)
    monkeypatch.setattr(upstream_worker, "_workers", ProcessCache())
    monkeypatch.setattr(upstream_worker, "_start", lambda: subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    path = make_upstream_table(tmp_path / "t", [(bundle(files), 12)])
    with pytest.raises(SplitCorrupted, match="exited with -9"):
        it.open(path).scan().read_all()
    (worker,) = upstream_worker._workers.values()
    assert worker._process is None


def test_bit_flips_give_the_same_rows_or_an_error(tmp_path: Path, cache: Path, files: Files) -> None:
    """Without a tantivy checksum (`meta.json`, the file list), the table's schema and the logged number of rows reveal damage."""
    data = bundle(files)
    start = data.index(b'{"files"') - 8
    meta = data.index(files["meta.json"])
    choose = random.Random(random_seed(20_261_117))
    places = [choose.randrange(start, len(data)) for _ in range(60)]
    places += [choose.randrange(meta, meta + len(files["meta.json"])) for _ in range(60)]
    places += [choose.randrange(len(data)) for _ in range(60)]
    refused = 0
    for number, place in enumerate(places):
        flipped = data[:place] + bytes([data[place] ^ 1 << choose.randrange(8)]) + data[place + 1 :]
        table = it.open(make_upstream_table(tmp_path / str(number), [(flipped, 12)]))
        try:
            assert sorted_rows(table) == ROWS
        except SplitCorrupted:
            refused += 1
    assert len(places) == 180
    assert refused > 60
