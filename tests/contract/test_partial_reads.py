"""A search fetches only the bytes of an uncached split in S3 that it uses; a proxy between client and server counts them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import indextables as it
from indextables import limits
from indextables.config import Config
from indextables.paths import TableRoot
from indextables.rows import live_view
from indextables.splits import reader, view
from indextables.storage import StoreSpec, open_store
from tests.support import tables
from tests.support.fault_proxy import FaultProxy
from tests.support.s3 import Server, options
from tests.support.seeds import random_seed

SEED = 6
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")), ("level", pa.string()), ("host", pa.string()), ("message", pa.string()),
        ("status", pa.int32()), ("took", pa.int64()), ("load", pa.float64()),
    ]
)  # fmt: skip
BYTES_PER_ROW = 138


def log_lines(rows: int) -> pa.Table:
    """Log lines of about 120 characters, with mostly distinct numbers."""
    draw = np.random.default_rng(random_seed(SEED))
    words = np.array([f"word{n:04}" for n in range(4000)])
    chosen = words[np.minimum(draw.zipf(1.3, (rows, 12)) - 1, 3999)]
    numbers = draw.integers(0, 10**7, rows)
    return pa.table(
        {
            "ts": 1_700_000_000_000_000 + np.cumsum(draw.integers(0, 1000, rows)),
            "level": np.array(["INFO", "WARN", "ERROR"])[draw.integers(0, 3, rows)],
            "host": [f"host-{n:04}" for n in draw.integers(0, 500, rows)],
            "message": [f"{' '.join(line)} took {number}" for line, number in zip(chosen, numbers, strict=True)],
            "status": draw.integers(0, 600, rows),
            "took": draw.integers(0, 2**40, rows),
            "load": draw.random(rows),
        }
    ).cast(SCHEMA)


@pytest.fixture(params=[25, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])], ids=lambda size: f"{size}MB")
def place(request: pytest.FixtureRequest, mini: Server) -> str:
    """A table with one split of about the given number of million bytes."""
    where = mini.place()
    settings = {**mini.options, "indexing.typemap.level": "string", "indexing.typemap.host": "string"}
    table = it.create(where, SCHEMA, options=settings)
    table.append(log_lines(request.param * 1_000_000 // BYTES_PER_ROW))
    (size,) = table.files()["size"].to_pylist()
    assert 0.9e6 * request.param < size < 1.2e6 * request.param
    return where


def test_a_search_fetches_only_what_it_uses(
    place: str, mini: Server, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = it.open(place, options=mini.options)
    (size,) = whole.files()["size"].to_pylist()
    remote = it.open(place, options=options(proxy.url))

    def cold(text: str, **arguments: object) -> tuple[pa.Table, float]:
        """The answer of a search, and the share of the split's bytes that was fetched."""
        monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / uuid.uuid4().hex))
        for known in (reader._readers, view._views, live_view._PLACES):
            known.clear()
        proxy.clear()
        found = remote.search(text, **arguments)  # type: ignore[arg-type]
        fetched = [request for request in proxy.log if ".split" in request.path]
        print(f"{text}: {sum(r.answered for r in fetched) / size:.2%} of {size} bytes in {len(fetched)} requests")
        return found, sum(request.answered for request in fetched) / size

    small = size < 90_000_000  # then the ten rows, in ten blocks, are a larger share
    cases = {
        "level:ERROR": 0.05,  # the bar: a keyword
        "host:host-0042": 0.05,
        "level:ERROR AND host:host-0007": 0.05,
        "message:word0003": 0.12 if small else 0.05,  # the same, though the column has 700,000 words
        "word0003 AND NOT word0001": 0.12 if small else 0.05,
        "absent": 0.07 if small else 0.05,
        '"word0000 word0001"': 0.15 if small else 0.06,  # two of the most frequent words, and their places
        "message:word31*": 0.40,  # all words of the column
        "status:[7 TO 9]": 0.40,
    }
    answers = {}
    for text, most in cases.items():
        answers[text], part = cold(text, limit=3 if "host" in text else 10)
        assert part < most, text
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "whole"))
    for text, found in answers.items():
        assert found == it.open(place, options=mini.options).search(text, limit=len(found) or 1)
        assert found.num_rows == (0 if text == "absent" else 3 if "host" in text else 10)
    assert len(answers) == 9


def _settings(spec: StoreSpec) -> dict[str, str]:
    return {"s3.endpoint": spec.endpoint, "s3.region": spec.region, "storage.singleWriter": str(spec.single_writer).lower()}


def test_every_interface_reads_in_parts_in_every_store(spec: StoreSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "WHOLE_BYTES", 0)
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    table = it.create(str(spec.root), tables.SCHEMA, partition_by=["date"], options=_settings(spec))
    for start in (0, 1000):
        table.append(tables.rows(start, 1000))
    local = tables.make(tmp_path / "local")
    for start in (0, 1000):
        local.append(tables.rows(start, 1000))

    def same(ask: Callable[[it.Table], object]) -> None:
        assert ask(table) == ask(local)

    same(lambda t: t.search("timeout AND NOT disk", columns=["id", "message"], where="latency > 20", limit=20).to_pydict())
    same(lambda t: t.search('"disk full"', order_by="id desc", snippets=["message"]).column("id").to_pylist())
    same(lambda t: sorted(t.scan("latency > 400 OR ok", ["id"]).read_all().column("id").to_pylist()))
    same(lambda t: t.count("message LIKE 'disk%'"))
    same(lambda t: t.aggregate({"n": ("count", "*"), "high": ("max", "latency")}, query="timeout").to_pydict())
    kept = {path.suffix for path in (tmp_path / "cache" / "splits").glob("??/*")}
    assert kept == (set() if spec.root.scheme in ("file", "memory") else {".part"})
    assert table.verify() == []
    assert table.merge_splits().metrics["files_removed"] == 4
    same(lambda t: sorted(t.search("timeout", limit=5000).column("id").to_pylist()))


def test_a_missing_split(mini: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same errors as for splits that are fetched whole: a missing split, or a version whose splits were purged."""
    monkeypatch.setattr(limits, "WHOLE_BYTES", 0)
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    time = tables.FakeTime()
    table = it.create(mini.place(), tables.SCHEMA, options=mini.options, clock=time.clock())
    table.append(tables.rows(0, 20))
    old = it.open(table.path, options=mini.options)
    table.overwrite(tables.rows(100, 20))
    store = open_store(StoreSpec.of(TableRoot.parse(table.path), Config.of(mini.options)))
    purged = "was removed by version 2 of .*Z, and purged"
    for version, error, message in ((old, it.VersionNotFound, purged), (table, it.SplitCorrupted, "is missing")):
        for path in version.files()["path"].to_pylist():
            store.delete(path)
        for ask in (lambda t: t.search("timeout"), lambda t: t.scan().read_all(), lambda t: t.count("ok")):
            with pytest.raises(error, match=message):
                ask(version)
