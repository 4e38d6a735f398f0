"""Folders for a moment. tantivy looks after an open index from a thread of its own, and may put a file there while the folder goes."""

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
    """A new folder in the temporary folder, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """All of it, as far as that is possible; may be repeated."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_SECONDS)
