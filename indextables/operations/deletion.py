"""Executes planned deletions. Deleting is idempotent: a file that no longer exists counts as deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from indextables.errors import StorageError, StorageRefused
from indextables.log import TransactionLog
from indextables.logs import logger
from indextables.operations.executor import Executor, in_many_threads
from indextables.state import Deletion, FileKind, Inventory
from indextables.storage import StoreSpec, open_store
from indextables.table import TableContext

PAUSE_SECONDS = 0.1  # before the first retry; doubled for each further one
RETRY_SECONDS = 10  # no retry starts after this time


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Deletes the files of one `Deletion` on any machine. Returns None, or an error message."""

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
        """Retries until the attempts or `RETRY_SECONDS` are used up: one attempt may already have waited long for the store."""
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
    problems: Sequence[str] = ()

    def __add__(self, other: Deleted) -> Deleted:
        return Deleted([*self.done, *other.done], [*self.problems, *other.problems])

    @property
    def size(self) -> int:
        return sum(deletion.size for deletion in self.done)

    def count(self, kind: FileKind) -> int:
        return len(of_kinds(self.done, kind))

    def counts(self, *kinds: FileKind) -> dict[str, int]:
        """Metrics such as `versions_deleted`."""
        return {f"{kind}s_deleted": self.count(kind) for kind in kinds}


def of_kinds(deletions: Sequence[Deletion], *kinds: FileKind) -> list[Deletion]:
    return [deletion for deletion in deletions if deletion.kind in kinds]


def delete(context: TableContext, deletions: Sequence[Deletion], executor: Executor = in_many_threads) -> Deleted:
    """Deletes versions one by one, oldest first, so that a concurrent reader or a crash never sees a gap; then other files in parallel."""
    task = DeleteTask(context.store.spec, int(context.config.get("purge.deleteRetries")))
    others = [deletion for deletion in deletions if deletion.kind is not FileKind.VERSION]
    done = []
    problems = []
    for deletion in of_kinds(deletions, FileKind.VERSION):
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
    """The manifests that are still unreferenced, and warnings. Lists the log again right before the deletion.

    Manifests with equal content have equal names, so a concurrent writer may reuse one that was planned for deletion.
    """
    if not manifests:
        return [], []
    now = Inventory.of(log.uncached_listing().stamps)
    if any(files != inventory.states.get(version) for version, files in now.states.items()):
        return [], ["a state was written during this run and may reference any manifest: all manifests are kept"]
    return [deletion for deletion in manifests if now.manifests.get(deletion.path) == deletion.files[0]], []


def _paths(deletion: Deletion) -> list[str]:
    return [file.path for file in deletion.files]
