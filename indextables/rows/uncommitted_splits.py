"""Splits that a write published but did not commit. Its error names them, and purge deletes them later.

Deleting them immediately is not safe: a commit whose response was lost may contain them, and tasks of the same write may still run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from indextables.errors import CommitUnknown, IndexTablesError
from indextables.interrupts import InterruptedAfterCommit
from indextables.logs import logger
from indextables.storage import Store
from indextables.texts import first_of

SHOWN = 10


def describe_uncommitted(paths: Collection[str]) -> str:
    """A sentence that names the first of these splits, sorted by path."""
    are, them = ("split is", "it") if len(paths) == 1 else ("splits are", "them")
    return f"{len(paths)} {are} not referenced by any version; purge will delete {them}: {first_of(sorted(paths), SHOWN)}"


@contextmanager
def uncommitted_splits_in_errors(paths: Sequence[str]) -> Iterator[None]:
    """Adds the names of the uncommitted splits to any error raised inside; `paths` may grow inside."""
    try:
        yield
    except InterruptedAfterCommit:
        raise
    except BaseException as error:
        if paths:
            add_to_error(error, describe_uncommitted(paths))
        raise


def add_to_error(error: BaseException, text: str) -> None:
    """Appends the text to the message of an IndexTablesError, adds it as a note to any other error, and logs it."""
    note = f"unless that version contains them, {text}" if isinstance(error, CommitUnknown) else text
    if isinstance(error, IndexTablesError):
        error.add(note)
    else:
        error.add_note(note)
    logger.warning("%s", note, extra={"event": "splits_left"})


def find_uncommitted(store: Store, mark: str, committed: Collection[str] = ()) -> list[str]:
    """The uncommitted splits of the write whose split names have this mark."""
    known, sign = set(committed), f"/split-{mark}-"
    return [entry.path for entry in store.list("") if sign in f"/{entry.path}" and entry.path not in known]
