"""Partial reads of splits in a remote store. Reading a hole of a sparse file would give a wrong answer or crash the process."""

from __future__ import annotations

import os
import random
import struct
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.splits import DocMapping, SplitInfo, SplitReader, open_split, open_view, parse_query
from indextables.splits.format import bundle
from indextables.splits.remote.sparse import field_ranges
from indextables.splits.writer import split_info
from tests.support.partial import CountingStore
from tests.support.seeds import random_seed
from tests.support.splits import write_split

SCHEMA = pa.schema(
    [
        ("level", pa.string()), ("message", pa.string()), ("parts", pa.string()), ("stems", pa.string()), ("address", pa.string()),
        ("tags", pa.list_(pa.string())), ("details", pa.struct([("user", pa.string()), ("code", pa.int64())])), ("status", pa.int32()),
        ("latency", pa.float64()), ("price", pa.decimal128(10, 2)), ("ok", pa.bool_()), ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")), ("blob", pa.binary()),
    ]
)  # fmt: skip
MAPPING = DocMapping.for_table(
    SCHEMA, [], {"level": "string", "address": "ip", "details": "json", "tags": "string"}, {"parts": "ngram", "stems": "en_stem"}
)
WORDS = ("timeout", "refused", "connection", "disk", "full", "retry", "running", "runs")
QUERIES = (
    "level:ERROR", "level:ER*", "timeout", "message:refused", "tags:gr*", "message:con*", '"disk full"', 'message:"full disk"~2',
    "message:disk-fu*", "timeout AND disk -refused", "parts:imeou", 'parts:"sk ful"', "stems:run", "address:10.0.0.7",
    "address:[10.0.0.1 TO 10.0.0.9]", "tags:red", "details.user:ann", "details.code:7", "details.user:an*", "status:17",
    "status:[10 TO 20]", "latency:[* TO 3.5]", "price:[1.5 TO 9]", "price:7.25", "ok:true", "day:2024-01-05",
    "ts:[2024-01-01T00:00:00Z TO *]", "ts:*", "NOT message:*", "blob:*", "-timeout", "*", "(level:INFO OR status:3)^2 AND connection",
    "nowhere", "message:word00*",
)  # fmt: skip


def rows(count: int, seed: int) -> pa.RecordBatch:
    rng = random.Random(seed)
    return pa.RecordBatch.from_pylist(
        [
            {
                "level": rng.choice(("INFO", "WARN", "ERROR")),
                "message": None if n % 7 == 5 else " ".join(rng.choice(WORDS) for _ in range(6)) + f" word{n:05}",
                "parts": rng.choice(WORDS) + " " + rng.choice(WORDS),
                "stems": rng.choice(WORDS),
                "address": f"10.0.0.{rng.randrange(200)}",
                "tags": rng.sample(("red", "green", "blue"), 2),
                "details": {"user": rng.choice(("ann", "bob")), "code": rng.randrange(20)},
                "status": rng.randrange(300),
                "latency": rng.random() * 50,
                "price": rng.randrange(4000) * pa.scalar("0.25").cast(pa.decimal128(10, 2)).as_py(),
                "ok": rng.random() < 0.5,
                "day": rng.randrange(19_700, 19_800),
                "ts": None if n % 11 == 3 else 1_700_000_000_000_000 + rng.randrange(10**13),
                "blob": rng.randbytes(40) if n % 3 else None,
            }
            for n in range(count)
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that small splits have holes like large ones."""
    monkeypatch.setattr(bundle, "BLOCK", 256)
    monkeypatch.setattr(limits, "RANGE_GAP", 0)


def written(path: Path, count: int = 4000, seed: int = 0) -> SplitInfo:
    return write_split(path, rows(count, seed), MAPPING)


def open_remote(store: CountingStore, info: SplitInfo, cache: Path) -> SplitReader:
    return SplitReader(store.open(cache, info.footer_start_offset))


def answer(reader: SplitReader, text: str) -> tuple[list[int], list[float]]:
    found, scores = reader.search(parse_query(text, SCHEMA, MAPPING))
    return found.tolist(), scores.tolist()


@pytest.mark.usefixtures("small_blocks")
def test_every_kind_of_query_has_the_same_answer_as_on_the_complete_split(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split")
    store = CountingStore(tmp_path / "a.split")
    growing = open_remote(store, info, tmp_path / "growing")
    found = 0
    with SplitReader(tmp_path / "a.split") as whole:
        for text in QUERIES:
            expected = answer(whole, text)
            found += bool(expected[0])
            cold = open_remote(store, info, tmp_path / uuid.uuid4().hex)  # fetches only what this query needs
            assert answer(cold, text) == answer(growing, text) == expected, text
            numbers = parse_query(text, SCHEMA, MAPPING)
            assert cold.numbers(numbers, ["status", "latency"]) == whole.numbers(numbers, ["status", "latency"])
    assert (len(QUERIES), found) == (35, 33)


@pytest.mark.usefixtures("small_blocks")
def test_a_view_of_complete_and_partial_splits(tmp_path: Path) -> None:
    infos = [written(tmp_path / f"{n}.split", 1500, n) for n in range(3)]
    stores = [CountingStore(tmp_path / f"{n}.split") for n in range(3)]
    whole = open_view([store.source for store in stores])
    partial = open_view([stores[0].source, *(stores[n].open(tmp_path / "cache", infos[n].footer_start_offset) for n in (1, 2))])
    for text in QUERIES:
        query = parse_query(text, SCHEMA, MAPPING)
        expected, found = whole.search(query, 4500), partial.search(query, 4500)
        assert [x.tolist() for x in (found.splits, found.rows, found.scores)] == [
            x.tolist() for x in (expected.splits, expected.rows, expected.scores)
        ], text
    assert stores[0].requests == []
    assert stores[1].bytes_read < infos[1].size


def test_rows_are_fetched_once_and_in_batches(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split", 20_000)
    store = CountingStore(tmp_path / "a.split")
    reader = open_remote(store, info, tmp_path / "cache")
    assert store.requests == [(info.footer_start_offset, info.size + 1)]  # the footer, in one request
    with SplitReader(tmp_path / "a.split") as whole:
        wanted = [5000, 3, 19_999, 5001, 3]
        assert reader.take(wanted, ["message", "blob"]) == whole.take(wanted, ["message", "blob"])
        assert store.bytes_read < 0.3 * info.size
        before = store.bytes_read
        assert reader.take([3]) == whole.take([3])
        assert store.bytes_read == before
        assert pa.Table.from_batches(reader.batches(["status"])) == pa.Table.from_batches(whole.batches(["status"]))
        assert (
            store.bytes_read
            <= whole.footer.files["rows.arrow"].end - whole.footer.files["rows.arrow"].start + info.size - info.footer_start_offset
        )
    # Another process finds the fetched bytes in the cache.
    again = CountingStore(tmp_path / "a.split")
    assert open_remote(again, info, tmp_path / "cache").take(np.arange(20_000)).num_rows == 20_000
    assert again.requests == []


def test_a_query_fetches_only_the_files_it_reads(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split", 30_000)
    with SplitReader(tmp_path / "a.split") as whole:
        files = {name.rpartition(".")[2]: where for name, where in whole.footer.files.items()}

    def touched(text: str) -> set[str]:
        store = CountingStore(tmp_path / "a.split")
        answer(open_remote(store, info, tmp_path / uuid.uuid4().hex), text)
        return {name for name, where in files.items() for start, end in store.requests[1:] if start < where.end and end > where.start} - {
            "json",
            "store",
        }

    assert touched("message:timeout") == {"term", "idx", "fieldnorm"}
    assert touched('"disk full"') == {"term", "idx", "fieldnorm", "pos"}
    assert touched("status:[1 TO 5]") == {"fast"}
    assert touched("*") == set()


def test_bytes_that_do_not_match_their_checksum_are_never_used(tmp_path: Path) -> None:
    """R9: a checksum covers every fetched byte; bytes damaged in transit or in the cache are fetched again or refused."""
    info = written(tmp_path / "a.split", 3000)
    store = CountingStore(tmp_path / "a.split")
    reader = open_remote(store, info, tmp_path / "cache")
    expected = answer(reader, "timeout"), reader.take([7])
    (kept,) = (tmp_path / "cache").glob("??/*.part")
    size = kept.stat().st_size
    kept.write_bytes(b"\xaa" * size)  # as after a crash
    healed = open_remote(store, info, tmp_path / "cache")
    assert (answer(healed, "timeout"), healed.take([7])) == expected
    data = bytearray(store.source.read_bytes())
    cases = 0
    for place in random.Random(random_seed(7)).sample(range(size), 40):
        store.source.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        try:
            cold = open_remote(store, info, tmp_path / uuid.uuid4().hex)
            assert (answer(cold, "timeout"), cold.take([7])) == expected
        except SplitCorrupted as error:
            assert "damaged" in str(error)  # noqa: PT017
            cases += 1
    assert cases > 5
    store.source.write_bytes(data[:-1])
    with pytest.raises(SplitCorrupted, match=f"has {size - 1} bytes, but the log says {size}"):
        SplitReader(store.open(tmp_path / "short", info.footer_start_offset, size))
    store.source.write_bytes(data + b"x")
    with pytest.raises(SplitCorrupted, match=f"has more than {size} bytes, but the log says {size}"):
        SplitReader(store.open(tmp_path / "long", info.footer_start_offset, size))


def test_a_file_that_disappears_from_the_store(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split", 3000)
    store = CountingStore(tmp_path / "a.split")
    file = store.open(tmp_path / "cache", info.footer_start_offset)
    store.source.rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"a\.split"):
        open_split(file)
    (tmp_path / "gone").rename(store.source)
    reader = open_split(file)
    store.source.unlink()
    with pytest.raises(SplitCorrupted, match="is missing from the table"):
        reader.take([1])
    with pytest.raises(SplitCorrupted, match="is missing from the table"):
        answer(reader, "timeout")


def test_a_failed_fetch_leaves_no_hole_in_the_open_index(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split", 3000)
    store = CountingStore(tmp_path / "a.split")
    reader = open_remote(store, info, tmp_path / "cache")
    assert answer(reader, "level:ERROR")[0]
    store.source.rename(tmp_path / "gone")
    for _ in range(2):
        with pytest.raises(SplitCorrupted):
            answer(reader, '"disk full"')
    (tmp_path / "gone").rename(store.source)
    with SplitReader(store.source) as whole:
        assert answer(reader, '"disk full"') == answer(whole, '"disk full"')


def test_threads_and_processes_share_one_partial_split(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split", 3000)
    store = CountingStore(tmp_path / "a.split")
    with SplitReader(store.source) as whole:
        expected = {text: answer(whole, text) for text in QUERIES}
    readers = [open_remote(store, info, tmp_path / "cache") for _ in range(2)]  # like two processes
    texts = [*QUERIES] * 4
    random.Random(random_seed(3)).shuffle(texts)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda item: answer(readers[item[0] % 2], item[1]), enumerate(texts)))
    assert len(found) == 140
    assert found == [expected[text] for text in texts]
    assert store.bytes_read <= 2.1 * info.size


def test_a_cached_file_is_deleted_while_in_use(tmp_path: Path) -> None:
    info = written(tmp_path / "a.split", 3000)
    store = CountingStore(tmp_path / "a.split")
    reader = open_remote(store, info, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").glob("??/*.part")
    assert kept.stat().st_blocks * 512 < info.size / 2  # sparse
    os.unlink(kept)
    with SplitReader(store.source) as whole:
        assert answer(reader, "timeout") == answer(whole, "timeout")
        assert reader.take([9]) == whole.take([9])


def test_an_invalid_list_of_fields_gives_none() -> None:
    """Random bytes raise nothing. The reader then fetches the complete file."""
    rng = random.Random(random_seed(5))
    outcomes = [field_ranges(rng.randbytes(rng.randrange(60)) + b'{"crc":1}' + b"\x09\0\0\0\x39\x05\0\0", 100_000) for _ in range(2000)]
    assert len(outcomes) == 2000
    assert sum(outcome is None for outcome in outcomes) > 1500
    assert field_ranges(b"", 0) is None


def forged(path: Path, **changes: object) -> SplitInfo:
    """Replace fields of a split's hotcache, with a matching checksum."""
    data = path.read_bytes()
    footer = bundle.read_footer(memoryview(data), path)
    content = msgspec.json.encode(msgspec.structs.replace(footer.hotcache, **changes))
    hotcache = b'{"crc32":"%08x","content":' % zlib.crc32(content) + content + b"}"
    path.write_bytes(data[: footer.hotcache_start] + hotcache + struct.pack("<I", len(hotcache)))
    return split_info(bundle.read_footer(memoryview(path.read_bytes()), path))


def test_hotcaches_with_missing_entries(tmp_path: Path) -> None:
    """Without a file's tail the complete file is fetched; without block checksums or the tail of meta.json the split is refused."""
    written(tmp_path / "a.split", 2000)
    sound = (tmp_path / "a.split").read_bytes()
    with SplitReader(tmp_path / "a.split") as whole:
        hotcache = whole.footer.hotcache
        expected = answer(whole, '"disk full"')
    store = CountingStore(tmp_path / "a.split")
    fewer = {name: tail for name, tail in hotcache.tails.items() if not name.endswith((".idx", ".pos", ".fast"))}
    info = forged(store.source, tails=fewer)
    assert answer(open_remote(store, info, tmp_path / "1"), '"disk full"') == expected
    cases = (
        ({"tails": {name: tail for name, tail in fewer.items() if name != "meta.json"}}, "meta.json"),
        ({"blocks": {}}, "the checksums of its file"),
        ({"block_bytes": 0}, "the checksums of its file"),
        ({"blocks": {name: [*sums, 1] for name, sums in hotcache.blocks.items()}}, "the checksums of its file"),
        ({"blocks": {name: [total ^ 1 for total in sums] for name, sums in hotcache.blocks.items()}}, "the checksum of its bytes"),
    )
    for number, (changes, message) in enumerate(cases, start=2):
        store.source.write_bytes(sound)
        info = forged(store.source, **changes)
        with pytest.raises(SplitCorrupted, match=message):
            answer(open_remote(store, info, tmp_path / str(number)), '"disk full"')
