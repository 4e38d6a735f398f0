"""R9 for states: a bit flip or truncation of a state manifest or a manifest changes no answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

import indextables as it
from indextables.actions.layers import Manifest
from indextables.errors import LogCorrupted
from indextables.log import names
from indextables.log.log import TransactionLog
from indextables.state.checkpoints.avro.file_loader import load_manifest
from indextables.state.checkpoints.avro.manifests import digest_in
from indextables.state.checkpoints.avro.state_files import StateManifest, read_state_manifest
from tests.support.avro_tables import commit, file, start, state
from tests.support.logs import log_folder
from tests.support.memory_store import MemoryStore
from tests.support.seeds import random_seed

CASES = 5000
SEED = 20_240


def damages(data: bytes) -> Iterator[bytes]:
    """`CASES` random bit flips and up to `CASES` truncations."""
    chosen = random.Random(random_seed(SEED))
    for _ in range(CASES):
        at = chosen.randrange(8 * len(data))
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        yield bytes(flipped)
    lengths = range(len(data))
    for length in lengths if len(data) <= CASES else sorted(chosen.sample(lengths, CASES)):
        yield data[:length]


def table_with_states(tmp_path: Path, form: str) -> tuple[Path, StateManifest]:
    table = start(tmp_path / "t", **{"state.manifestFormat": form, "state.compaction.tombstoneThreshold": "100"})
    commit(table, *(file(f"f{n}", n) for n in range(10)))
    it.open(table).checkpoint()
    commit(table, {"remove": {"path": "f1"}}, file("g", 3))
    it.open(table).checkpoint()
    return table, state(table, 2)


def wrong_answers(data: bytes, read: Callable[[bytes], object], right: object) -> tuple[int, int]:
    """The number of cases, and how many gave neither the right answer nor LogCorrupted."""
    cases = wrong = 0
    for damaged in damages(data):
        cases += 1
        try:
            wrong += read(damaged) != right
        except LogCorrupted:
            continue
    return cases, wrong


@pytest.mark.parametrize("form", ["json", "avro"])
def test_state_manifests(tmp_path: Path, form: str) -> None:
    table, right = table_with_states(tmp_path, form)
    place = f"_transaction_log/{names.state_folder(2)}/_manifest.{form}"
    store = MemoryStore()

    def read(damaged: bytes) -> object:
        store.files[place] = damaged
        return structs.replace(read_state_manifest(store, 2), digest=None)  # type: ignore[arg-type]

    cases, wrong = wrong_answers((table / place).read_bytes(), read, structs.replace(right, digest=None))
    assert (wrong, cases > CASES) == (0, True)


def test_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", "/dev/null/nowhere")  # disables the cache, so that every read decodes the bytes
    table, right = table_with_states(tmp_path, "json")
    info = right.manifests[0]
    place = f"_transaction_log/{info.path}"
    store = MemoryStore()
    log = TransactionLog(store)  # type: ignore[arg-type]

    def read(damaged: bytes) -> object:
        store.files[place] = damaged
        return load_manifest(log, Manifest(place, "m", info.num_entries, {}, digest_in(info.path), 2))

    whole = (log_folder(table) / info.path).read_bytes()
    cases, wrong = wrong_answers(whole, read, read(whole))
    assert (wrong, cases > CASES) == (0, True)
