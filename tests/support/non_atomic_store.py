"""A store that fsspec knows and that cannot create atomically: a folder under a scheme of its own, `plain://tmp/x` for `/tmp/x`."""

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
