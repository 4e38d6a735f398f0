"""Carrying out what was planned to go. Deleting is repeatable: what is gone already is done."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from indextables.errors import StorageError, StorageRefused
from indextables.log import TransactionLog
from indextables.operations.executor import Executor, in_many_threads
from indextables.state import Deletion, FileKind, Inventory
from indextables.storage import StoreSpec, open_store
from indextables.table import TableContext

PAUSE_SECONDS = 0.1  # before the second try, doubled each time
RETRY_SECONDS = 10  # after which nothing is tried again
logger = logging.getLogger("indextables")


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Deletes the files of one thing, on whatever machine; None when done, else why not."""

    store: StoreSpec
    retries: int = 0

    def __call__(self, paths: Sequence[str]) -> str | None:
        try:
            for path in paths:
                self._delete(path)
        except StorageError as error:
            return f"could not delete {error}"
        return None

    def _delete(self, path: str) -> None:
        """A store that was silent for long has been tried often enough by then."""
        store, began = open_store(self.store), time.monotonic()
        for attempt in range(self.retries + 1):
            try:
                store.delete(path)
                return
            except StorageRefused:
                raise
            except StorageError:
                if attempt == self.retries or time.monotonic() - began > RETRY_SECONDS:
                    raise
            time.sleep(PAUSE_SECONDS * 2**attempt)


@dataclass(frozen=True, slots=True)
class Deleted:
    done: Sequence[Deletion]
    problems: Sequence[str]

    def __add__(self, other: Deleted) -> Deleted:
        return Deleted([*self.done, *other.done], [*self.problems, *other.problems])

    def count(self, kind: FileKind) -> int:
        return sum(deletion.kind is kind for deletion in self.done)


def delete(context: TableContext, deletions: Sequence[Deletion], executor: Executor = in_many_threads) -> Deleted:
    """Versions one after the other, oldest first: whoever lists meanwhile, or after a crash, finds no hole among those that are left."""
    task = DeleteTask(context.store.spec, int(context.config.get("purge.deleteRetries")))
    versions = [deletion for deletion in deletions if deletion.kind is FileKind.VERSION]
    others = [deletion for deletion in deletions if deletion.kind is not FileKind.VERSION]
    done = []
    problems = []
    for deletion in versions:
        problem = task(_paths(deletion))
        if problem is not None:
            problems.append(problem)
            break
        done.append(deletion)
        logger.debug("Deleted old transaction file: %s", deletion.version, extra={"event": "version_deleted", "version": deletion.version})
    if done:
        before = 1 + max(deletion.version or 0 for deletion in done)
        logger.info(
            "Cleaned up %s transaction files before version %s",
            len(done),
            before,
            extra={"event": "cleaned_up", "table": str(context.root), "files": len(done), "before_version": before},
        )
    for deletion, problem in zip(others, executor(task, [_paths(deletion) for deletion in others]), strict=True):
        done += [deletion] if problem is None else []
        problems += [] if problem is None else [problem]
    context.metrics.cleaned_up(sum(deletion.kind is not FileKind.SPLIT for deletion in done))
    return Deleted(done, problems)


def still_unreferenced(log: TransactionLog, inventory: Inventory, manifests: Sequence[Deletion]) -> tuple[Sequence[Deletion], list[str]]:
    """A second look, right before they go: equal manifests have equal names, so a writer may be about to use one of them again."""
    if not manifests:
        return [], []
    now = Inventory.of(log.look().stamps)
    if any(files != inventory.states.get(version) for version, files in now.states.items()):
        return [], ["a state was written meanwhile and may name any manifest: all are kept this time"]
    return [deletion for deletion in manifests if now.manifests.get(deletion.path) == deletion.files[0]], []


def _paths(deletion: Deletion) -> list[str]:
    return [file.path for file in deletion.files]
