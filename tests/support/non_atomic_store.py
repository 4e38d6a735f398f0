"""A store registered with fsspec that has no atomic create: `plain://tmp/x` is the folder `/tmp/x`."""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem


class PlainFileSystem(LocalFileSystem):
    protocol = "plain"

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return LocalFileSystem._strip_protocol(str(path).removeprefix("plain:/"))


def register() -> None:
    fsspec.register_implementation("plain", PlainFileSystem, clobber=True)
