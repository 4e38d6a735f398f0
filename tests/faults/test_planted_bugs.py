"""R20 for the harness itself: mistakes that systems of this kind have made, planted one at a time; R4 or R6 must notice each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from indextables.actions import Add, Remove
from indextables.log import names
from indextables.operations import checkpoint, drop, merge_commit, merge_splits, purge, write
from indextables.storage.memory import MemoryStore
from indextables.table import transaction
from indextables.table.transaction import Draft, transact
from tests.faults.test_crashes import Crashes
from tests.faults.test_interleavings import Contest
from tests.support.deeds import DEEDS, make_base
from tests.support.interleaving import Explorer
from tests.support.laboratory import Laboratory, laboratory

__all__ = ["laboratory"]
Plant = Callable[[pytest.MonkeyPatch], None]


def merge_without_looking_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge_commit, "require_live", lambda *_: None)


def commit_that_overwrites(patch: pytest.MonkeyPatch) -> None:
    def create(self: MemoryStore, path: str, data: bytes) -> bool:
        self.replace(path, data)
        return True

    patch.setattr(MemoryStore, "create", create)


def retry_on_the_old_files(patch: pytest.MonkeyPatch) -> None:
    real = transaction.advance
    patch.setattr(transaction, "advance", lambda log, base, *rest: replace(real(log, base, *rest), files=base.files))


def purge_of_what_is_being_written(patch: pytest.MonkeyPatch) -> None:
    real = purge.options_of
    patch.setattr(purge, "options_of", lambda *given: replace(real(*given), orphan_ms=-1))


def drop_of_the_splits_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drop, "_parted", lambda log: ([], [file.path for file in log]))


def _in_two_commits(first: type, log: Any, base: Any, operation: str, build: Any, **more: Any) -> Any:
    drafts = build(base)
    half = transact(log, base, operation, lambda _: Draft([a for a in drafts.actions if isinstance(a, first)]), **more)
    rest = Draft([a for a in drafts.actions if not isinstance(a, first)], drafts.metrics)
    return transact(log, half.snapshot, operation, lambda _: rest, **more)


def overwrite_in_two_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(write, "transact", lambda *given, **more: _in_two_commits(Remove, *given, **more))


def merge_in_two_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge_splits, "transact", lambda *given, **more: _in_two_commits(Add, *given, **more))


def clean_up_before_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    real = checkpoint.formats.write

    def early(log: Any, contents: Any, *rest: Any, **more: Any) -> Any:
        for version in log.look().versions[1:-1]:
            log.store.delete(names.version_path(version))
        for base in log.look().bases:
            for path in names.head_paths(base):
                log.store.delete(path)
        return real(log, contents, *rest, **more)

    patch.setattr(checkpoint.formats, "write", early)


BY_CRASHES: list[tuple[Plant, str]] = [
    (drop_of_the_splits_first, "drop appended"),
    (overwrite_in_two_commits, "overwrite"),
    (merge_in_two_commits, "merge_splits"),
    (clean_up_before_the_checkpoint, "append to json, checkpoint and clean-up"),
]
BY_ORDERS: list[tuple[Plant, tuple[str, str]]] = [
    (merge_without_looking_again, ("merge_splits", "merge_splits")),
    (merge_without_looking_again, ("merge_splits", "overwrite")),
    (commit_that_overwrites, ("append", "append")),
    (retry_on_the_old_files, ("overwrite", "overwrite")),
    (purge_of_what_is_being_written, ("purge", "append")),
]


@pytest.mark.parametrize(("plant", "name"), BY_CRASHES, ids=lambda each: getattr(each, "__name__", each))
def test_r4_notices(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, plant: Plant, name: str) -> None:
    (deed,) = [deed for deed in DEEDS if deed.name == name]
    Crashes(laboratory).all_of(deed)
    plant(monkeypatch)
    with pytest.raises(Exception, match=r"(?s).+") as caught:
        Crashes(laboratory).all_of(deed)
    assert any("call" in note for note in getattr(caught.value, "__notes__", [])), "found at a crash point, not before"


@pytest.mark.parametrize(("plant", "names"), BY_ORDERS, ids=lambda each: getattr(each, "__name__", None) or " and ".join(each))
def test_r6_notices(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, plant: Plant, names: tuple[str, str]) -> None:
    contest = Contest(laboratory, make_base(laboratory, "lived json" if "purge" in names else "appended"), names)
    for order in ((0,), (1,), (0, 1), (1, 0)):
        contest.serial(order)  # what is right, before the mistake
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"assert TableState|is live and gone"):
        Explorer(contest.run, most=100).explore()
    assert contest.outcomes.total() >= 1, "some orders are right by luck"
