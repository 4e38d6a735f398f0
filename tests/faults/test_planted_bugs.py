"""R20: known bugs of similar systems are planted one at a time, and the tests of R4 to R7 or R10 must detect each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from indextables.actions import Add, Remove
from indextables.actions.add_patterns import AddBlock
from indextables.actions.replay import Replay
from indextables.errors import IndexTablesError
from indextables.log import names
from indextables.operations.checkpoint import run as checkpoint
from indextables.operations.expire import drop_table as drop
from indextables.operations.expire import purge_files as purge
from indextables.operations.expire import purge_plan
from indextables.operations.merge import commit as merge_commit
from indextables.operations.merge import run as merge_splits
from indextables.operations.write import run as write
from indextables.state.checkpoints.avro import state_files
from indextables.storage.faults import Deadline, Fault, FaultKind, attempt
from indextables.storage.memory import MemoryStore
from indextables.storage.remote import RemoteStore
from indextables.table import transaction
from indextables.table.transaction import Draft, transact
from tests.faults.test_storage_faults import FaultTester, inject_all_faults, tester
from tests.operations.expire.test_purge_model import rounds
from tests.support.concurrent_verbs import ConcurrentVerbs
from tests.support.crash_points import CrashTester
from tests.support.interleaving import Explorer
from tests.support.simulation import Simulation, simulation
from tests.support.verb_cases import VERB_CASES, make_base_table
from tests.table.test_replay_model import TABLES, model

__all__ = ["simulation", "tester"]
Plant = Callable[[pytest.MonkeyPatch], None]


def merge_that_does_not_recheck_its_sources(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge_commit, "require_live", lambda *_: None)


def commit_that_overwrites(patch: pytest.MonkeyPatch) -> None:
    def create(self: MemoryStore, path: str, data: bytes) -> bool:
        self.replace(path, data)
        return True

    patch.setattr(MemoryStore, "create", create)


def commit_that_reports_success_without_writing(patch: pytest.MonkeyPatch) -> None:
    """A second writer of the same version is told that it succeeded."""
    real = MemoryStore.create
    patch.setattr(MemoryStore, "create", lambda self, path, data: real(self, path, data) or True)


def retry_that_does_not_recheck_the_txn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction, "is_already_committed", lambda *_: False)


def retry_on_the_outdated_base(patch: pytest.MonkeyPatch) -> None:
    real = transaction.advance
    patch.setattr(transaction, "advance", lambda log, base, *rest: replace(real(log, base, *rest), layers=base.layers))


def purge_of_uncommitted_files(patch: pytest.MonkeyPatch) -> None:
    real = purge.purge_options
    patch.setattr(purge, "purge_options", lambda *given: replace(real(*given), unreferenced_ms=-1))


def drop_that_deletes_splits_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drop, "_deletion_order", lambda log: ([], [file.path for file in log]))


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
    real = checkpoint.write_checkpoint

    def early(log: Any, contents: Any, *rest: Any, **more: Any) -> Any:
        for version in log.uncached_listing().versions[1:-1]:
            log.store.delete(names.version_path(version))
        for base in log.uncached_listing().bases:
            for path in names.head_paths(base):
                log.store.delete(path)
        return real(log, contents, *rest, **more)

    patch.setattr(checkpoint, "write_checkpoint", early)


def replay_that_ignores_a_second_add(patch: pytest.MonkeyPatch) -> None:
    """A removed path stays removed even if it is added again."""
    real = Replay.apply

    def apply(self: Any, version: int, actions: Any) -> None:
        gone = self.__dict__.setdefault("gone", set())
        single = [each for a in actions for each in ([a.add(path) for path in a.texts] if isinstance(a, AddBlock) else [a])]
        real(self, version, [a for a in single if not (isinstance(a, Add) and a.path in gone)])
        gone.update(a.path for a in single if isinstance(a, Remove))

    patch.setattr(Replay, "apply", apply)


def replay_that_ignores_removes(patch: pytest.MonkeyPatch) -> None:
    real = Replay.apply
    patch.setattr(Replay, "apply", lambda self, version, actions: real(self, version, [a for a in actions if not isinstance(a, Remove)]))


def state_without_tombstones(patch: pytest.MonkeyPatch) -> None:
    real = state_files.read_state_manifest
    patch.setattr(state_files, "read_state_manifest", lambda *given: structs.replace(real(*given), tombstones=[]))


def checkpoint_of_the_existing_version_files_only(patch: pytest.MonkeyPatch) -> None:
    real = checkpoint.checkpoint_contents

    def checkpoint_contents(context: Any, snapshot: Any) -> Any:
        replay = Replay(context.root.relative)
        for file in context.log.read_many(context.log.listing().versions):
            replay.apply(file.version, file.items)
        return real(context, replace(snapshot, layers=replay.files()))

    patch.setattr(checkpoint, "checkpoint_contents", checkpoint_contents)


def _purge_with(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    real = purge.gather_purge_facts
    patch.setattr(purge, "gather_purge_facts", lambda context: change(real(context)))


def purge_that_ignores_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """Only files added by existing version files count as live."""
    _purge_with(patch, lambda facts: replace(facts, live=facts.live & frozenset(facts.added)))


def purge_that_ignores_older_checkpoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(purge_plan, "_splits_in_older_bases", lambda *_: set())


def purge_of_files_that_were_added_again(patch: pytest.MonkeyPatch) -> None:
    _purge_with(patch, lambda facts: replace(facts, live=facts.live - facts.removed_at.keys()))


def purge_by_the_age_of_the_file(patch: pytest.MonkeyPatch) -> None:
    """The time of removal is ignored, so files that were live yesterday are deleted."""
    _purge_with(patch, lambda facts: replace(facts, removed_at=dict.fromkeys(facts.removed_at, 0)))


def purge_of_foreign_folders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(purge_plan, "is_our_split", lambda path: path.endswith(".split"))


def own_commit_mistaken_for_a_conflict(patch: pytest.MonkeyPatch) -> None:
    """The answer to a put is lost, the retry finds the version, and nothing checks who wrote it."""

    def create(self: RemoteStore, path: str, data: bytes) -> bool:
        deadline = Deadline(self.spec.timeout)
        put = partial(self.backend.put, path, data, if_absent=True)
        while isinstance(fault := attempt(deadline, put), Fault):
            if fault.kind is FaultKind.EXISTS:
                return False
            if not fault.is_retryable or not deadline.pause():
                raise fault.error(self.root, path)
        return True

    patch.setattr(RemoteStore, "create_without_probe", create)


def clean_up_after_an_unknown_commit(patch: pytest.MonkeyPatch) -> None:
    real = write.commit_write

    def commit(prepared: Any, adds: Any, *rest: Any, **more: Any) -> Any:
        try:
            return real(prepared, adds, *rest, **more)
        except IndexTablesError:
            for add in adds:
                prepared.context.store.delete(add.path)
            raise

    patch.setattr(write, "commit_write", commit)


DETECTED_BY_CRASHES: list[tuple[Plant, str]] = [
    (drop_that_deletes_splits_first, "drop appended"),
    (overwrite_in_two_commits, "overwrite"),
    (merge_in_two_commits, "merge_splits"),
    (clean_up_before_the_checkpoint, "append to json, checkpoint and clean-up"),
]
DETECTED_BY_INTERLEAVINGS: list[tuple[Plant, tuple[str, str]]] = [
    (merge_that_does_not_recheck_its_sources, ("merge_splits", "merge_splits")),
    (merge_that_does_not_recheck_its_sources, ("merge_splits", "overwrite")),
    (commit_that_overwrites, ("append", "append")),
    (commit_that_reports_success_without_writing, ("append", "append")),
    (retry_that_does_not_recheck_the_txn, ("append with txn", "append with txn")),
    (retry_on_the_outdated_base, ("overwrite", "overwrite")),
    (purge_of_uncommitted_files, ("purge", "append")),
]
DETECTED_BY_FAULTS: list[Plant] = [own_commit_mistaken_for_a_conflict, clean_up_after_an_unknown_commit]
DETECTED_BY_THE_REPLAY_MODEL: list[tuple[Plant, str]] = [
    (replay_that_ignores_a_second_add, "json"),
    (replay_that_ignores_removes, "json"),
    (state_without_tombstones, "avro"),
    (checkpoint_of_the_existing_version_files_only, "json"),
    (checkpoint_of_the_existing_version_files_only, "mixed"),
]
DETECTED_BY_THE_PURGE_MODEL: list[Plant] = [
    purge_that_ignores_the_checkpoint,
    purge_that_ignores_older_checkpoints,
    purge_of_files_that_were_added_again,
    purge_by_the_age_of_the_file,
    purge_of_foreign_folders,
]


@pytest.mark.parametrize(("plant", "name"), DETECTED_BY_CRASHES, ids=lambda each: getattr(each, "__name__", each))
def test_r4_detects_the_planted_bug(simulation: Simulation, monkeypatch: pytest.MonkeyPatch, plant: Plant, name: str) -> None:
    (verb_case,) = [verb_case for verb_case in VERB_CASES if verb_case.name == name]
    CrashTester(simulation).all_of(verb_case)
    plant(monkeypatch)
    with pytest.raises(Exception, match=r"(?s).+") as caught:
        CrashTester(simulation).all_of(verb_case)
    assert any("call" in note for note in getattr(caught.value, "__notes__", [])), "the bug must be detected at a crash point, not before"


@pytest.mark.parametrize("plant", DETECTED_BY_FAULTS)
def test_r5_detects_the_planted_bug(tester: FaultTester, monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    make_base_table(tester.simulation, "appended")  # before the bug is planted
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"append: .*TableState|is live and gone"):
        inject_all_faults("append", tester)


@pytest.mark.parametrize(
    ("plant", "names"), DETECTED_BY_INTERLEAVINGS, ids=lambda each: getattr(each, "__name__", None) or " and ".join(each)
)
def test_r6_detects_the_planted_bug(simulation: Simulation, monkeypatch: pytest.MonkeyPatch, plant: Plant, names: tuple[str, str]) -> None:
    concurrent = ConcurrentVerbs(simulation, make_base_table(simulation, "aged json" if "purge" in names else "appended"), names)
    for order in ((0,), (1,), (0, 1), (1, 0)):
        concurrent.serial(order)  # the correct states, before the bug is planted
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"^\(TableState|is live and gone"):
        Explorer(concurrent.run, most=100).explore()
    assert concurrent.outcomes.total() >= 1, "some orders are correct despite the bug"


@pytest.mark.parametrize(("plant", "form"), DETECTED_BY_THE_REPLAY_MODEL, ids=lambda each: getattr(each, "__name__", each))
def test_r7_detects_the_planted_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plant: Plant, form: str) -> None:
    """Runs more tables than a normal run, so that this test does not fail by chance."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, IndexTablesError)) as caught:
        model(monkeypatch, tmp_path, form, 5 * TABLES, 50_000)
    assert any(note.startswith("seed") for note in caught.value.__notes__), "the bug must be detected in one of the random tables"


@pytest.mark.parametrize("plant", DETECTED_BY_THE_PURGE_MODEL)
def test_r10_detects_the_planted_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plant: Plant) -> None:
    """Uses the histories of a normal run."""
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"assert \(\{.*== \(\{"):
        rounds(tmp_path, 500)


def test_r20_at_least_20_bugs_are_planted() -> None:
    """They are in commit, replay, purge, checkpoint and merge."""
    plants = {
        *(plant for plant, _ in [*DETECTED_BY_CRASHES, *DETECTED_BY_INTERLEAVINGS, *DETECTED_BY_THE_REPLAY_MODEL]),
        *DETECTED_BY_FAULTS,
        *DETECTED_BY_THE_PURGE_MODEL,
    }
    assert len(plants) >= 20
