"""Temporary folders. tantivy watches an open index from its own thread, and may create a file while the folder is being removed."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TRIES = 20
_PAUSE_SECONDS = 0.01


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new temporary folder, removed on exit."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Removes a folder with its contents, as far as possible. Idempotent; raises nothing."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_SECONDS)
