"""R8 and R9 for JSON, multi-part and Parquet checkpoints: they are only a cache, and no damage changes an answer."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from indextables.actions.replay import Replay
from indextables.errors import LogCorrupted
from indextables.log import names
from indextables.state.checkpoints import any_format
from indextables.state.checkpoints.contents import Format
from indextables.table.loading import load
from indextables.table.opening import load_snapshot
from tests.support.checkpoints import LATER, OPTIONS, begin, commit, log_of, snapshot_content, write_checkpoint
from tests.support.loading import read_all
from tests.support.logs import add, remove, skip
from tests.support.memory_store import MemoryStore
from tests.support.seeds import random_seed

DAMAGES = ("deleted", "bit flipped", "truncated", "emptied", "foreign", "older", "swapped")
CASES = 5000


@pytest.fixture(autouse=True)
def no_log_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("indextables"), "disabled", True)  # thousands of damaged checkpoints would be logged


def checkpointed(kind: Format, versions: int = 9, every: int = 4) -> MemoryStore:
    """A table with checkpoints at versions 4 and 8 (5 and 10 if the first checkpoint commits a protocol upgrade)."""
    store = MemoryStore()
    begin(store)
    for number in range(1, versions + 1):
        version = log_of(store).listing().versions[-1] + 1
        more: list[dict[str, Any]] = [remove(f"f{number - 2}")] if number % 3 == 0 else [skip(f"f{number}", retryAfter=LATER)]
        commit(store, version, add(f"f{number}", size=number, minValues={"id": str(number)}), add(f"g{number}"), *more)
        if number % every == 0:
            write_checkpoint(store, kind)
    return store


def base_files(store: MemoryStore, version: int) -> list[str]:
    return log_of(store).listing().checkpoint_files(version)


def damage(store: MemoryStore, path: str, how: str, older: str) -> None:
    data = store.files[path]
    siblings = [*base_files(store, log_of(store).listing().bases[-1]), names.version_path(1)]
    if how == "deleted":
        del store.files[path]
    elif how == "swapped":  # with another file of the same checkpoint, or with a version file if there is none
        store.files[path] = next(store.files[other] for other in siblings if other != path)
    elif how == "bit flipped":
        store.files[path] = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    else:
        store.files[path] = {"truncated": data[: len(data) // 2], "emptied": b"", "foreign": b'{"add":[]}', "older": store.files[older]}[
            how
        ]


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_damaged_checkpoint_never_changes_an_answer(kind: Format) -> None:
    """R8: 7 kinds of damage to every file. The answer is the same; with a truncated log it may be an error instead."""
    whole = checkpointed(kind)
    first, last = log_of(whole).listing().bases
    expected = snapshot_content(read_all(log_of(whole)))
    older_files = base_files(whole, first)
    cases = refused = 0
    for (number, path), how, truncation in product(enumerate(base_files(whole, last)), DAMAGES, ("nothing", "before the first", "all")):
        store = MemoryStore()
        store.files = dict(whole.files)
        older = next(other for other in older_files[number:] + older_files[::-1] if whole.files[other] != whole.files[path])
        damage(store, path, how, older)
        for version in range(1, {"nothing": 0, "before the first": first, "all": last}[truncation] + 1):
            store.delete(names.version_path(version))
        cases += 1
        if truncation != "all":
            snapshot = read_all(log_of(store))
            assert snapshot_content(snapshot) == expected, (path, how, truncation)
            assert snapshot.checkpoint == first, (path, how, truncation)
            continue
        with pytest.raises(LogCorrupted, match=r"the log of .* is incomplete|is missing"):
            load_snapshot(log_of(store))
        refused += 1
    print(f"R8, {kind}: {cases} cases, {refused} of them refused because the log is truncated")
    assert cases == len(base_files(whole, last)) * len(DAMAGES) * 3


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_next_checkpoint_replaces_a_damaged_one(kind: Format) -> None:
    """PQC-15: also at the same version."""
    repaired = 0
    whole = checkpointed(kind, versions=4)
    (version,) = log_of(whole).listing().bases
    damages = [how for how in DAMAGES if how != "older"]
    for path, how in product(base_files(whole, version), damages):
        store = MemoryStore()
        store.files = dict(whole.files)
        damage(store, path, how, path)
        assert write_checkpoint(store, kind).status == "success", (path, how)
        for number in range(version + 1):
            store.delete(names.version_path(number))
        found = read_all(log_of(store))
        assert (found.checkpoint, snapshot_content(found)) == (version, snapshot_content(read_all(log_of(whole))))
        repaired += 1
    assert repaired == len(base_files(whole, version)) * len(damages)


def damaged(data: bytes, chance: random.Random, count: int = CASES) -> Iterator[bytes]:
    """Every truncation and every single bit flip, then double flips up to `count`; a random sample if there are more than `count`."""
    cuts = [data[:length] for length in range(len(data))]
    flips = [(at, bit) for at in range(len(data)) for bit in range(8)]
    chosen = flips if len(cuts) + len(flips) <= count else chance.sample(flips, max(0, count - min(len(cuts), count // 4)))
    yield from chance.sample(cuts, min(len(cuts), count - len(chosen)))
    for at, bit in chosen:
        yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
    for _ in range(count - len(chosen) - len(cuts)):
        changed = bytearray(data)
        for at, bit in chance.sample(flips, 2):
            changed[at] ^= 1 << bit
        yield bytes(changed)


def content_of(replay: Replay) -> tuple[Any, ...]:
    return replay.protocol, replay.metadata, replay.txns, replay.skips, [*replay.files().complete.adds()]


FILES = {
    "checkpoint": (Format.JSON, {}, r"\.checkpoint\.json"),
    "plain checkpoint": (Format.JSON, {"transaction.compression.enabled": False}, ""),
    "part": (Format.JSON_PARTS, {}, "00001.json"),
    "plain part": (Format.JSON_PARTS, {"transaction.compression.enabled": False}, "00002.json"),
    "list of parts": (Format.JSON_PARTS, {}, ".checkpoint.json"),
    "parquet": (Format.PARQUET, {}, ".parquet"),
    "parquet metadata": (Format.PARQUET, {}, ".checkpoint.json"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_bit_flip_and_truncation_is_detected_or_harmless(name: str) -> None:
    """R9: damaged bytes are refused or give the original content."""
    kind, options, ending = FILES[name]
    store = checkpointed(kind, versions=3, every=9)
    write_checkpoint(store, kind, **options)
    log = log_of(store)
    listing = log.listing()
    (version,) = listing.bases
    (path,) = [path for path in base_files(store, version) if path.endswith(ending.replace("\\", ""))]
    expected = content_of(any_format.read_checkpoint(log, listing, version)[0])
    original, seed = store.files[path], random_seed()
    cases = read = 0
    for data in damaged(original, random.Random(seed)):
        store.files[path] = data
        cases += 1
        try:
            found, _ = any_format.read_checkpoint(log, listing, version)
        except LogCorrupted:
            continue
        assert content_of(found) == expected, f"seed {seed}"
        read += 1
    print(f"R9, {name} of {len(original)} bytes: {cases} damages, {read} of them without effect, seed {seed}")
    assert cases >= CASES


def test_a_damaged_pointer_changes_no_answer() -> None:
    """R9, LCP-01: the pointer is only a hint."""
    store = checkpointed(Format.JSON, versions=1, every=1)
    expected = load_snapshot(log_of(store))
    seed, cases = random_seed(), 0
    for data in damaged(store.files[names.pointer_path()], random.Random(seed)):
        store.files[names.pointer_path()] = data
        found = load_snapshot(log_of(store))
        assert (found.version, found.checkpoint, load(log_of(store), found).files.paths()) == (
            1,
            1,
            load(log_of(store), expected).files.paths(),
        ), f"seed {seed}"
        cases += 1
    print(f"R9, pointer: {cases} damages, seed {seed}")
    assert cases >= CASES
