"""R7 for every format: at each version, checkpoint and tail equal the log alone, whatever fields an add has."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from indextables.actions import edit, segments
from indextables.log import names
from indextables.state.checkpoints.contents import Format
from tests.support.checkpoints import EVERY_FORMAT, begin, commit, log_of, random_actions, snapshot_content, write_checkpoint
from tests.support.loading import read_all
from tests.support.memory_store import MemoryStore
from tests.support.seeds import random_seed

TABLES, STEPS = 12, 10


def newest(store: MemoryStore) -> int:
    return log_of(store).listing().versions[-1]


def alone(store: MemoryStore) -> MemoryStore:
    """A store with the version files only."""
    other = MemoryStore()
    versions = {names.version_path(version) for version in log_of(store).listing().versions}
    other.files = {path: data for path, data in store.files.items() if path in versions}
    return other


def unordered(contents: dict[str, Any], kind: Format) -> dict[str, Any]:
    """Without the order of files for Avro, because compaction changes it."""
    if kind is Format.AVRO:
        contents |= {"adds": sorted(contents["adds"], key=lambda add: str(add["path"])), "paths": sorted(contents["paths"])}
    return contents


@pytest.mark.parametrize("small", [False, True], ids=["usual segments", "small segments"])
@pytest.mark.parametrize("kind", EVERY_FORMAT)
def test_checkpoint_and_tail_equal_the_log(kind: Format, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in ((edit, "RECENT", 5), (edit, "BATCH", 12), (segments, "SMALL", 40)) if small else ():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(logging.getLogger("indextables"), "disabled", True)
    first = random_seed()
    compared = based = 0
    for seed in range(first, first + TABLES):
        chance = random.Random(seed)
        store, paths = MemoryStore(), set[str]()
        begin(store)
        for _ in range(STEPS):
            commit(store, newest(store) + 1, *random_actions(paths, chance))
            if chance.random() < 0.3:
                write_checkpoint(store, kind, **({"checkpoint.maxFileSize": 1} if kind is Format.PARQUET and small else {}))
        log, plain = log_of(store), log_of(alone(store))
        for version in log.listing().versions:
            found = read_all(log, version)
            assert unordered(snapshot_content(found), kind) == unordered(snapshot_content(read_all(plain, version)), kind), (
                f"seed {seed}, version {version}"
            )
            compared += 1
            based += found.checkpoint is not None
    print(f"R7, {kind}: {compared} snapshots of {TABLES} tables, {based} from a checkpoint, seeds from {first}")
    assert compared > TABLES * STEPS
    assert based > compared / 3
