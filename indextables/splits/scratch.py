"""The process's folder for copies of indexes: made when first needed, removed at exit, never shared with a forked child."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

_lock = threading.Lock()
_folder: Path | None = None


def scratch_folder() -> Path:
    global _folder
    with _lock:
        if _folder is None:
            _folder = Path(tempfile.mkdtemp(prefix="indextables-"))
            atexit.register(remove_folder, _folder, os.getpid())
        return _folder


def remove_folder(folder: Path, owner: int) -> None:
    """Remove a folder, unless this is a child forked from its owner, which inherits registrations but not folders."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    global _lock, _folder
    _lock, _folder = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)
