"""Files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from indextables.paths import temporary_name


@contextmanager
def temporary_in(folder: Path) -> Iterator[Path]:
    """The path of a new file in the folder, which is deleted when the context ends."""
    temporary = folder / temporary_name()
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file beside `target` to write to; it replaces `target` if the block succeeds, and is deleted if not. Syncs nothing."""
    with temporary_in(target.parent) as temporary:
        yield temporary
        os.replace(temporary, target)
