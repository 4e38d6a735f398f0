"""Splits that a write published and did not commit: named where its failure is told, and left to purge. Deleting them is not safe here:
a commit whose answer was lost may hold them, and tasks of the same write may still be at work."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from indextables.errors import CommitUnknown, IndexTablesError
from indextables.interrupts import InterruptedAfterCommit
from indextables.storage import Store

SHOWN = 10
logger = logging.getLogger("indextables")


def describe_uncommitted(paths: Collection[str]) -> str:
    """One sentence that names them, or the first of them; paths are in order."""
    shown = ", ".join(repr(path) for path in sorted(paths)[:SHOWN])
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{len(paths)} split{' is' if len(paths) == 1 else 's are'} in no version and left to purge: {shown}{more}"


@contextmanager
def uncommitted_splits_in_errors(paths: Sequence[str]) -> Iterator[None]:
    """Whatever goes wrong inside also says which splits stay behind; `paths` may grow meanwhile."""
    try:
        yield
    except InterruptedAfterCommit:
        raise
    except BaseException as error:
        if paths:
            add_to_error(error, describe_uncommitted(paths))
        raise


def add_to_error(error: BaseException, text: str) -> None:
    """Adds a sentence to an error of ours, a note to any other, and logs it."""
    note = f"unless that version holds them, {text}" if isinstance(error, CommitUnknown) else text
    if isinstance(error, IndexTablesError):
        error.args = (f"{error}; {note}", *error.args[1:])
    else:
        error.add_note(note)
    logger.warning("%s", note, extra={"event": "splits_left"})


def find_uncommitted(store: Store, mark: str, committed: Collection[str] = ()) -> list[str]:
    """The splits with this mark in their names, which those of one write share, except such as were committed."""
    known, sign = set(committed), f"/split-{mark}-"
    return [entry.path for entry in store.list("") if sign in f"/{entry.path}" and entry.path not in known]
