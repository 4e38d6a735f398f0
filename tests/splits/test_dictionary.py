"""Lookups of single words in tantivy's term dictionary, which fetch only a few bytes of a remote split."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import limits
from indextables.splits import DocMapping, SplitReader, parse_query
from indextables.splits.format import bundle
from indextables.splits.query.index_parts import FAST, POSITIONS, WORDS, IndexPart, covers, joined
from indextables.splits.remote.dictionary import Location, find
from indextables.splits.remote.sparse import field_ranges
from tests.support.partial import CountingStore
from tests.support.seeds import random_seed
from tests.support.splits import batch_of, write_split

SEED = 41


def made_words(count: int, rng: random.Random) -> list[str]:
    """Words of all kinds of characters, short and long, with common prefixes and suffixes, sorted by bytes."""
    characters = [chr(point) for point in (*range(1, 0x250), *range(0x4E00, 0x4E40), 0x1F600, 0x10FFFF)]
    words = {"", "a", *(c for c in characters), *(2 * c + "x" for c in characters), *(f"trace{n:06}" for n in range(count // 2))}
    while len(words) < count:
        words.add("".join(rng.choices(characters if rng.random() < 0.3 else "abcdef", k=rng.randrange(1, 20))))
    return sorted(words, key=str.encode)


def field_parts(path: Path, field: str) -> dict[str, bytes]:
    """The field's part of each composite file."""
    with SplitReader(path) as reader:
        number = [entry["name"] for entry in reader.index_meta().schema].index(field)
        found = {}
        for name, where in reader.footer.files.items():
            extension = name.rpartition(".")[2]
            if extension in ("term", "idx", "pos"):
                known = field_ranges(reader.footer.hotcache.tails[name], where.end - where.start)
                assert known is not None
                (start, end) = dict(known)[number]
                found[extension] = bytes(memoryview(reader._data)[where.start + start : where.start + end])
        return found


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, bytes]]:
    words = made_words(20_000, random.Random(random_seed(SEED)))
    rows = [words[start : start + 20] for start in range(0, len(words), 20)]
    batch = batch_of({"words": pa.array(rows, pa.list_(pa.string()))})
    mapping = DocMapping.for_table(batch.schema, [], {"words": "text"}, {"words": "raw"})
    path = tmp_path_factory.mktemp("dictionary") / "a.split"
    write_split(path, batch, mapping)
    return words, field_parts(path, "words")


def test_the_locations_of_all_words_are_contiguous(dictionary: tuple[list[str], dict[str, bytes]]) -> None:
    """Postings and positions are stored in the order of the words, without gaps, and fill the files."""
    words, files = dictionary
    terms = files["term"]
    found = [find(word.encode(), len(terms), lambda start, end: terms[start:end]) for word in words]
    assert len(found) == 20_000
    postings = positions = 0
    for word, places in zip(words, found, strict=True):
        assert places is not None, word
        assert (places.postings[0], places.positions[0]) == (postings, positions), word
        postings, positions = places.postings[1], places.positions[1]
    assert (postings, positions) == (len(files["idx"]) - 8, len(files["pos"]))
    absent = {word + end for word in words for end in ("", "é", "zz")} - set(words)
    assert len(absent) > 30_000
    assert {find(word.encode(), len(terms), lambda start, end: terms[start:end]) for word in sorted(absent)[:5000]} == {None}


def test_a_lookup_reads_few_bytes(dictionary: tuple[list[str], dict[str, bytes]]) -> None:
    words, files = dictionary
    read = []

    def reading(start: int, end: int) -> bytes:
        read.append(end - start)
        return files["term"][start:end]

    for word in random.Random(random_seed(SEED)).sample(words, 200):
        read.clear()
        find(word.encode(), len(files["term"]), reading)
        assert sum(read) < 8000, word


def test_a_damaged_dictionary_raises_an_error(dictionary: tuple[list[str], dict[str, bytes]]) -> None:
    """R14: an attacker can compute the checksum. A lookup always ends, because every transition goes to a smaller offset."""
    words, files = dictionary
    rng = random.Random(random_seed(SEED))
    sound = files["term"]
    ended = 0
    for _ in range(2000):
        data = bytearray(sound if rng.random() < 0.7 else sound[: rng.randrange(len(sound))])
        for _ in range(rng.randrange(1, 2000)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            assert isinstance(find(rng.choice(words).encode(), len(data), lambda s, e, data=data: bytes(data[s:e])), Location | None)
        except (ValueError, IndexError, struct.error):
            ended += 1
    assert ended > 300


def test_words_and_phrases_have_the_same_answer_as_on_the_complete_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of 32 bytes, so that nearly everything is a hole."""
    monkeypatch.setattr(bundle, "BLOCK", 32)
    monkeypatch.setattr(limits, "RANGE_GAP", 0)
    rng = random.Random(random_seed(SEED))
    vocabulary = [f"{rng.choice('abcdefg')}{n:x}" for n in range(900)]
    lines = [" ".join(vocabulary[min(int(rng.expovariate(0.01)), 899)] for _ in range(8)) for _ in range(3000)]
    batch = batch_of({"t": pa.array(lines), "k": pa.array([line[:4] for line in lines])})
    mapping = DocMapping.for_table(batch.schema, [], {"k": "string"})
    info = write_split(tmp_path / "a.split", batch, mapping)
    store = CountingStore(tmp_path / "a.split")
    with SplitReader(store.source) as whole:
        size = whole.footer.footer_start - sum(w.end - w.start for n, w in whole.footer.files.items() if n.endswith(("arrow", "fieldnorm")))
        cases = [*rng.sample(vocabulary, 40), "absent", *(f'"{" ".join(rng.choice(lines).split()[2:4])}"' for _ in range(30))]
        cases += [f"k:{line[:4].strip()}" for line in rng.sample(lines, 10)]
        for number, text in enumerate(cases):
            cold = SplitReader(store.open(tmp_path / str(number), info.footer_start_offset))
            before = store.bytes_read
            query = parse_query(text, batch.schema, mapping)
            assert [part.tolist() for part in cold.search(query)] == [part.tolist() for part in whole.search(query)], text
            assert store.bytes_read - before < 3000 + 0.25 * size, text
    assert len(cases) == 81


def test_a_reader_fetches_further_words_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new word is fetched; after many words the complete field is fetched once."""
    monkeypatch.setattr(bundle, "BLOCK", 256)
    lines = [f"word{n:04} common" for n in range(4000)]
    batch = batch_of({"t": pa.array(lines)})
    mapping = DocMapping.for_table(batch.schema, [])
    info = write_split(tmp_path / "a.split", batch, mapping)
    store = CountingStore(tmp_path / "a.split")
    reader = SplitReader(store.open(tmp_path / "cache", info.footer_start_offset))
    seen = []
    for number in range(70):
        rows, _ = reader.search(parse_query(f"word{57 * number:04}", batch.schema, mapping))
        assert rows.tolist() == [57 * number]
        seen.append(store.bytes_read)
    assert seen[0] < seen[30]
    assert seen[-1] == seen[-3]  # the complete field is fetched
    assert reader._searchable == {IndexPart("t", WORDS)}


def test_index_parts_are_combined() -> None:
    word, phrase = IndexPart("t", WORDS, b"a"), IndexPart("t", POSITIONS, b"a")
    assert covers(frozenset({IndexPart("t", WORDS)}), frozenset({word}))
    assert not covers(frozenset({IndexPart("t", WORDS)}), frozenset({word, phrase}))
    assert not covers(frozenset({word}), frozenset({IndexPart("t", WORDS, b"b")}))
    assert joined(frozenset({word}), frozenset({IndexPart("t", WORDS), IndexPart("n", FAST)})) == {
        IndexPart("t", WORDS),
        IndexPart("n", FAST),
    }
    assert joined(frozenset({word}), frozenset({phrase})) == {word, phrase}
