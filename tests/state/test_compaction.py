"""When a state is compacted, and which manifests are rewritten (CMP-01 … CMP-06, C-46, C-47)."""

from __future__ import annotations

import dataclasses

import pytest

from indextables.config import Config
from indextables.state.checkpoints.avro.compaction import ManifestAction, StateFigures, compaction_reason, manifest_actions
from indextables.state.checkpoints.contents import CheckpointOptions

OPTIONS = CheckpointOptions.of(Config.of())
CALM = StateFigures(live=1000, tombstones=0, removed=0, manifests=2, readded=False)


@pytest.mark.parametrize(
    ("change", "compacts"),
    [
        ({}, False),
        ({"tombstones": 60, "removed": 40}, False),  # 10 % is not more than 10 %
        ({"tombstones": 60, "removed": 41}, True),
        ({"live": 0}, True),
        ({"manifests": 20}, False),
        ({"manifests": 21}, True),
        ({"readded": True}, True),
        ({"force": True}, True),
    ],
)
def test_each_reason_to_compact(change: dict[str, int], compacts: bool) -> None:
    assert (compaction_reason(dataclasses.replace(CALM, **change), OPTIONS) is not None) is compacts


def test_removing_many_files_compacts() -> None:
    options = dataclasses.replace(OPTIONS, large_remove_threshold=5)
    assert compaction_reason(dataclasses.replace(CALM, removed=5), options) is None
    assert compaction_reason(dataclasses.replace(CALM, removed=6), options) == "6 files were removed"


def test_plan_manifests() -> None:
    keep, clean, merge, drop = ManifestAction.KEEP, ManifestAction.CLEAN, ManifestAction.MERGE, ManifestAction.DROP
    assert manifest_actions([(100, 0), (100, 10), (100, 80), (100, 100), (10, 0)], 100, 0) == [keep, clean, merge, drop, merge]
    assert manifest_actions([(100, 0), (10, 0)], 100, 0) == [keep, keep]
    assert manifest_actions([(100, 0), (10, 2)], 100, 0) == [keep, clean]
    assert manifest_actions([(100, 0), (10, 0)], 100, 1) == [keep, merge]
    assert manifest_actions([], 100, 5) == []
