"""However the bytes of a split are damaged, a reader raises SplitCorrupted or returns exactly the answers of the intact split."""

from __future__ import annotations

import base64
import json
import multiprocessing
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables.errors import SplitCorrupted, StorageError
from indextables.splits import SplitInfo, SplitReader, parse_query
from indextables.splits.foreign.split import refuse_our_files
from indextables.splits.format.bundle import ALIGNMENT, MAGIC, has_our_hotcache, read_footer
from tests.support.seeds import random_seed
from tests.support.splits import LOGS, LOGS_MAPPING, log_batch, write_logs

QUERIES = [
    parse_query(text, LOGS, LOGS_MAPPING) for text in ("timeout AND NOT disk", "status:[10 TO 300]", "level:ERROR", '"disk full"', "ts:*")
]
ROWS = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, SplitInfo]:
    path = tmp_path_factory.mktemp("sound") / "a.split"
    info = write_logs(path, ROWS)
    return path.read_bytes(), info


def answers(path: Path) -> list[Any]:
    with SplitReader(path) as reader:
        rows = pa.Table.from_batches(reader.batches(), reader.schema)
        some = reader.take([5, 3], ["message"])
        found = [[part.tolist() for part in reader.search(query)] for query in QUERIES]
        return [reader.info, reader.schema, rows, some, found]


def run(path: Path, variants: Iterator[bytes], expected: list[Any]) -> tuple[int, int]:
    refused = same = 0
    for data in variants:
        path.write_bytes(data)
        try:
            assert answers(path) == expected
            same += 1
        except SplitCorrupted as error:
            refused += str(path) in str(error)
    return refused, same


def test_single_bit_flips(tmp_path: Path, sound: tuple[bytes, SplitInfo]) -> None:
    data, info = sound
    path = tmp_path / "a.split"
    path.write_bytes(data)
    expected = answers(path)
    choose = random.Random(random_seed(20_240_131))
    used = _used_bytes(data, info)
    places = (
        [choose.choice(used) for _ in range(250)]
        + list(range(info.footer_start_offset, info.footer_start_offset + 60))
        + list(range(len(data) - 60, len(data)))
    )

    def flips() -> Iterator[bytes]:
        for place in places:
            yield data[:place] + bytes([data[place] ^ 1 << choose.randrange(8)]) + data[place + 1 :]

    assert run(path, flips(), expected) == (370, 0)


def _used_bytes(data: bytes, info: SplitInfo) -> list[int]:
    """Offsets within files and footer, without the padding between files."""
    files = _files(data, info).values()
    return [place for where in files for place in range(where["start"], where["end"])] + list(range(info.footer_start_offset, len(data)))


def _files(data: bytes, info: SplitInfo) -> dict[str, dict[str, int]]:
    files: dict[str, dict[str, int]] = json.loads(data[info.footer_start_offset + 8 : info.hotcache_start_offset - 4])["files"]
    return files


def test_every_damage_of_the_footer_is_refused(tmp_path: Path, sound: tuple[bytes, SplitInfo]) -> None:
    """R9 for the split footer: every bit flip and truncation of 5,000 is refused. Opening a split verifies the complete footer."""
    data, info = sound
    choose = random.Random(random_seed(20_261_117))
    bits = 8 * (len(data) - info.footer_start_offset)
    flips = choose.sample(range(bits), 4500)
    lengths = [*range(info.footer_start_offset, len(data), max(1, (len(data) - info.footer_start_offset) // 550))]
    path = tmp_path / "a.split"
    refused = 0
    for flip in flips:
        place = info.footer_start_offset + flip // 8
        refused += _is_refused(path, memoryview(data[:place] + bytes([data[place] ^ 1 << flip % 8]) + data[place + 1 :]))
    for length in lengths:
        refused += _is_refused(path, memoryview(data)[:length])
    assert refused == len(flips) + len(lengths) >= 5000


def _is_refused(path: Path, data: memoryview) -> bool:
    """Whether opening refuses the file, either as a damaged split of ours or as an upstream split with unexpected files."""
    try:
        if has_our_hotcache(data, path):
            read_footer(data, path)
        else:
            refuse_our_files(data, path)
    except SplitCorrupted as error:
        return str(path) in str(error)
    return False


def test_a_changed_padding_byte_changes_no_answer_and_fails_verify(tmp_path: Path, sound: tuple[bytes, SplitInfo]) -> None:
    data, info = sound
    path = tmp_path / "a.split"
    path.write_bytes(data)
    expected = answers(path)
    used = set(_used_bytes(data, info))
    free = [place for place in range(len(data)) if place not in used]
    assert free
    path.write_bytes(data[: free[0]] + b"\1" + data[free[0] + 1 :])
    assert answers(path) == expected
    with SplitReader(path) as reader, pytest.raises(SplitCorrupted, match="bytes before its file"):
        reader.verify()


def test_truncated_and_extended_files_are_refused(tmp_path: Path, sound: tuple[bytes, SplitInfo]) -> None:
    data, _ = sound
    lengths = [*range(40), *range(0, len(data), 997), *range(len(data) - 40, len(data))]
    variants = [data[:length] for length in lengths] + [data + b"\0", data + data, b"\0" * len(data), b"\xff" * len(data)]
    path = tmp_path / "a.split"
    path.write_bytes(data)
    assert run(path, iter(variants), answers(path)) == (len(variants), 0)
    assert len(variants) > 100


def test_the_offsets_of_split_info_match_the_file(sound: tuple[bytes, SplitInfo]) -> None:
    data, info = sound
    assert (info.size, info.footer_end_offset, info.uncompressed_size_bytes) == (len(data), len(data), info.footer_start_offset)
    assert struct.unpack_from("<II", data, info.footer_start_offset) == (MAGIC, 1)
    assert struct.unpack_from("<I", data, info.hotcache_start_offset - 4) == (info.hotcache_start_offset - 4 - info.footer_start_offset,)
    assert struct.unpack_from("<I", data, len(data) - 4) == (info.hotcache_length,)
    assert info.hotcache_start_offset + info.hotcache_length + 4 == len(data)
    files = _files(data, info)
    assert {"meta.json", "rows.arrow"} <= files.keys()
    assert all(where["start"] % ALIGNMENT == 0 for where in files.values())
    assert (
        pa.ipc.open_file(data[files["rows.arrow"]["start"] : files["rows.arrow"]["end"]])
        .read_all()
        .equals(pa.Table.from_batches([log_batch(ROWS)]))
    )


def test_checksums_can_be_verified_without_our_code(sound: tuple[bytes, SplitInfo]) -> None:
    data, info = sound
    hot = data[info.hotcache_start_offset : info.hotcache_start_offset + info.hotcache_length]
    document = json.loads(hot)
    opening = len(b'{"crc32":"00000000","content":')
    assert document["crc32"] == f"{zlib.crc32(hot[opening:-1]):08x}"
    content = document["content"]
    assert content["bundleCrc32"] == zlib.crc32(data[info.footer_start_offset : info.hotcache_start_offset - 4])
    assert content["files"] == {name: zlib.crc32(data[where["start"] : where["end"]]) for name, where in _files(data, info).items()}
    assert content["numRecords"] == ROWS


def _forged(data: bytes, info: SplitInfo, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A split with a modified footer and matching checksums."""
    files = {"files": _files(data, info)}
    content = json.loads(data[info.hotcache_start_offset : info.hotcache_start_offset + info.hotcache_length])["content"]
    change(files["files"], content)
    bundle = struct.pack("<II", MAGIC, 1) + json.dumps(files).encode()
    content["bundleCrc32"] = zlib.crc32(bundle)
    text = json.dumps(content).encode()
    hot = b'{"crc32":"%08x","content":' % zlib.crc32(text) + text + b"}"
    return data[: info.footer_start_offset] + bundle + struct.pack("<I", len(bundle)) + hot + struct.pack("<I", len(hot))


def _rename(files: dict[str, Any], content: dict[str, Any]) -> None:
    files["../../evil"] = files.pop("meta.json")
    content["files"]["../../evil"] = content["files"].pop("meta.json")


HOSTILE_NAMES = (
    "../evil", "/etc/passwd", "..", ".", "", "a/b", "meta.json/../../x", "\0", "%2e%2e/evil", "C:\\x", "rows.arrow2", "~root", "a" * 5000,
    ".managed.json", "..\\evil", "meta.json\n", "\u202emeta.json", "….idx", "0" * 32 + ".idx/../x", "0" * 33 + ".idx",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_are_refused(tmp_path: Path, sound: tuple[bytes, SplitInfo], name: str) -> None:
    """R13 for the names of files in a bundle: they would become paths."""

    def rename(files: dict[str, Any], content: dict[str, Any]) -> None:
        old = next(name for name in files if name.endswith(".idx"))
        for part in (files, content["files"], content["blocks"], content["tails"]):
            part[name] = part.pop(old)

    path = tmp_path / "a.split"
    path.write_bytes(_forged(*sound, rename))
    with pytest.raises(SplitCorrupted, match=r"a\.split"):
        answers(path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.split"]


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "a name with a path outside the folder": _rename,
    "a range beyond the file": lambda files, content: files["rows.arrow"].update(end=10**12),
    "a range whose start is after its end": lambda files, content: files["rows.arrow"].update(start=files["rows.arrow"]["end"] + 1),
    "more rows than there are": lambda files, content: content.update(numRecords=ROWS + 1),
    "fewer rows than there are": lambda files, content: content.update(numRecords=ROWS - 1),
    "batches of no rows": lambda files, content: content["rowStore"].update(batchRows=0),
    "another schema": lambda files, content: content.update(schema=content["schema"].replace("integer", "long")),
    "an invalid schema": lambda files, content: content.update(schema="{}"),
    "an invalid mapping": lambda files, content: content.update(docMapping="[]"),
    "a newer format": lambda files, content: content.update(formatVersion=2),
    "a missing key": lambda files, content: content.pop("rowStore"),
    "a wrong type": lambda files, content: content.update(numRecords="many"),
    "sections out of order": lambda files, content: content["rowStore"]["ends"].reverse(),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_footers_are_refused(tmp_path: Path, sound: tuple[bytes, SplitInfo], forgery: str) -> None:
    path = tmp_path / "a.split"
    path.write_bytes(_forged(*sound, FORGERIES[forgery]))
    with pytest.raises(SplitCorrupted, match=r"a\.split"):
        answers(path)


def _forged_file(data: bytes, info: SplitInfo, name: str, file: bytes) -> bytes:
    """The split with another content of a file, of the same length, and matching checksums."""
    where = _files(data, info)[name]

    def change(files: dict[str, Any], content: dict[str, Any]) -> None:
        content["files"][name] = zlib.crc32(file)
        ends = content["rowStore"]["ends"]
        if name == "rows.arrow":
            content["rowStore"]["crc32"] = [zlib.crc32(file[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
        else:
            content["blocks"][name] = [zlib.crc32(file[at : at + 65_536]) for at in range(0, len(file), 65_536)]
            tail = len(base64.b64decode(content["tails"][name]))
            content["tails"][name] = base64.b64encode(file[len(file) - tail :]).decode()

    return _forged(data[: where["start"]] + file + data[where["end"] :], info, change)


def _damaged(file: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(file)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, length = rng.randrange(len(file)), rng.choice([1, 4, 8])
        damaged[at : at + length] = bytes([rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])]) * len(damaged[at : at + length])
    return bytes(damaged)


def _outcome(path: Path) -> str:
    """The outcome of reading all of a hostile split: the type of the error, or "read". Its rows may have any valid values."""
    try:
        rows = answers(path)[2]
    except (SplitCorrupted, StorageError) as error:
        return type(error).__name__
    with suppress(OverflowError):  # dates outside Python's range
        rows.to_pylist()
    return "read"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("extension", ["arrow", "term", "idx", "pos", "fast", "fieldnorm"])
def test_hostile_files_with_valid_checksums_raise_only_our_errors(tmp_path: Path, sound: tuple[bytes, SplitInfo], extension: str) -> None:
    """R14: an attacker can compute checksums. There is no crash and no other error; out-of-range offsets in the rows are refused."""
    data, info = sound
    name, where = next((name, where) for name, where in _files(data, info).items() if name.endswith("." + extension))
    file = data[where["start"] : where["end"]]
    rng = random.Random(random_seed(14))
    outcomes: Counter[str] = Counter()
    variants = [_forged_file(data, info, name, _damaged(file, rng)) for _ in range(400 if extension == "arrow" else 60)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:  # a crash would break the pool
        paths = [tmp_path / f"{number}.split" for number in range(len(variants))]
        for path, variant in zip(paths, variants, strict=True):
            path.write_bytes(variant)
        outcomes.update(pool.map(_outcome, paths, chunksize=20))
    print(outcomes)
    assert sum(outcomes.values()) == len(variants)
    assert outcomes["SplitCorrupted"] > len(variants) / 10 or extension in ("pos", "fieldnorm")


def test_rows_that_need_more_memory_than_available(tmp_path: Path, sound: tuple[bytes, SplitInfo]) -> None:
    """R14: the length of a decoded buffer is stored before it, and may be forged."""
    data, info = sound
    where = _files(data, info)["rows.arrow"]
    file = data[where["start"] : where["end"]]
    # The length is stored before each lz4 frame, which starts with a magic number.
    at = file.index(struct.pack("<I", 0x184D2204)) - 8
    path = tmp_path / "a.split"
    for length, error in ((2**50, StorageError), (2**62, StorageError), (7, SplitCorrupted)):
        path.write_bytes(_forged_file(data, info, "rows.arrow", file[:at] + struct.pack("<q", length) + file[at + 8 :]))
        with pytest.raises(error, match=r"a\.split"):
            answers(path)


def test_a_footer_that_the_forger_leaves_unchanged_reads(tmp_path: Path, sound: tuple[bytes, SplitInfo]) -> None:
    path = tmp_path / "a.split"
    path.write_bytes(_forged(*sound, lambda files, content: None))
    assert answers(path)[2].num_rows == ROWS


def test_a_missing_split_or_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitCorrupted, match=r"gone\.split is missing"):
        SplitReader(tmp_path / "gone.split")
    with pytest.raises(StorageError, match=str(tmp_path)):
        SplitReader(tmp_path)
